#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| perdure_fuzz_targets::url::run(bytes));

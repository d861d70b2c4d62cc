//! Deeply nested or long input: it gives an error, on a small stack and at once.

use std::thread;

use perdure_fuzz_targets::TARGETS;

/// A small part of the stack of any thread here.
const STACK_BYTES: usize = 256 * 1024;

/// JSON texts on which a recursive reader would overflow its stack.
fn deep() -> Vec<String> {
    let nested = |open: &str, close: &str, levels| format!("{}{}", open.repeat(levels), close.repeat(levels));
    [10_000, 100_000]
        .into_iter()
        .flat_map(|levels| {
            [
                nested("[", "]", levels),
                nested("{\"a\":", "}", levels),
                nested("[{\"retry\":", "", levels),
                format!(
                    "{{\"version\":\"1\",\"seed\":\"1\",\"x\":{}}}",
                    nested("[", "]", levels)
                ),
                format!("{{\"attempt\":1,\"x\":{}}}", nested("{\"a\":", "1}", levels)),
                format!("\"{}\"", "\\u0000".repeat(levels)),
            ]
        })
        .collect()
}

/// Returns the seed with all from its first object to its last replaced.
fn with(seed: &[u8], text: &str) -> String {
    let seed = String::from_utf8_lossy(seed);
    let from = seed.find('{').unwrap_or(seed.len());
    let to = seed.rfind('}').map_or(seed.len(), |last| last + 1);
    format!("{}{text}{}", &seed[..from], &seed[to..])
}

#[test]
fn deeply_nested_input_takes_no_stack() {
    let run = || {
        for text in deep() {
            for target in TARGETS {
                (target.run)(text.as_bytes());
            }
            for target in TARGETS.iter().filter(|target| target.name != "url") {
                for seed in (target.seeds)() {
                    (target.run)(with(&seed, &text).as_bytes());
                }
            }
        }
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    thread.expect("there is room for it").join().expect("nothing panics");
}

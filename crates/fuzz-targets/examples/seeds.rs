//! Writes the initial inputs of fuzzing where `cargo fuzz` looks for them:
//! `cargo run -p perdure-fuzz-targets --example seeds -- fuzz/corpus`.

use std::path::PathBuf;
use std::{env, fs, io};

use perdure_fuzz_targets::TARGETS;

fn main() -> io::Result<()> {
    let corpus = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".into()));
    for target in TARGETS {
        let folder = corpus.join(target.name);
        fs::create_dir_all(&folder)?;
        for (place, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{place}")), seed)?;
        }
    }
    Ok(())
}

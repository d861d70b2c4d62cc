//! The floor: what the store itself can do with the rows that Perdure leaves, by plain rusqlite on one thread.
//!
//! It knows nothing of Perdure but the shape of its rows; the tables come from the provider's own migrations. Each
//! command prints one line of JSON.
//!
//!   write  --db F --schema D --instances N --steps N [--batch 64] [--rows all|appended] [--warm 1] [--repeat 1]
//!   commit --db F --schema D --count N [--warm N]
//!   read   --db F --out F
//!   count  --db F

mod arguments;
mod commit;
mod read;
mod store;
mod write;

use std::process::ExitCode;

use crate::arguments::Arguments;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = Arguments::of_process().and_then(|arguments| match arguments.command() {
        "write" => write::run(&arguments),
        "commit" => commit::run(&arguments),
        "read" => read::rows(&arguments),
        "count" => read::count(&arguments),
        other => Err(format!("there is no command '{other}'").into()),
    });
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}

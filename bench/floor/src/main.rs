//! The floor: the speed of the store itself with the rows that Perdure leaves, by a plain client on one connection.
//!
//! The floor knows nothing of Perdure but the shape of its rows. The tables come from the provider's own migrations.
//! Each command prints one line of JSON. A store is `--db file` in SQLite, `--url URL --schema name` in Postgres.
//!
//!   write  STORE --migrations D --instances N --steps N [--batch 64] [--rows all|appended] [--warm 1] [--repeat 1]
//!   commit STORE --migrations D --count N [--warm N] [--pause MS]
//!   read   STORE --out F
//!   count  STORE
//!
//! and for Postgres alone, with `--schema` for any name, or the beginning of one:
//!
//!   ping --url URL
//!   create-database|drop|transactions --url URL --schema name

mod arguments;
mod chain;
mod commits;
mod migrations;
mod postgres;
mod sqlite;

use std::process::ExitCode;

use crate::arguments::Arguments;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match Arguments::of_process().and_then(|arguments| run(&arguments)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("floor: {error}");
            // The error of a Postgres client says only where it failed. Its source says why.
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<String, Failure> {
    match (arguments.command(), arguments.has("url")) {
        ("write", false) => sqlite::write::run(arguments),
        ("write", true) => postgres::write::run(arguments),
        ("commit", false) => sqlite::commit::run(arguments),
        ("commit", true) => postgres::commit::run(arguments),
        ("read", false) => sqlite::read::rows(arguments),
        ("read", true) => postgres::read::rows(arguments),
        ("count", false) => sqlite::read::count(arguments),
        ("count", true) => postgres::read::count(arguments),
        ("ping", true) => postgres::server::ping(arguments),
        ("create-database", true) => postgres::server::create_database(arguments),
        ("drop", true) => postgres::server::drop(arguments),
        ("transactions", true) => postgres::server::transactions(arguments),
        (other, _) => Err(format!("there is no command '{other}' for this store").into()),
    }
}

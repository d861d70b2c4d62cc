//! One durable commit: `BEGIN IMMEDIATE`, one row, `COMMIT`.

use rusqlite::params;

use super::store;
use crate::Failure;
use crate::arguments::Arguments;
use crate::commits::{APPEND, timed};

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let connection = store::create(arguments)?;
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    let mut append = connection.prepare(APPEND)?;
    timed(arguments, |event, payload| {
        begin.execute([])?;
        append.execute(params![event, event - 1, payload])?;
        commit.execute([])?;
        Ok(())
    })
}

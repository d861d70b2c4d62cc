//! One durable commit: a prepared `INSERT` of one row that is a transaction by itself, which is one round trip.

use super::store;
use crate::Failure;
use crate::arguments::Arguments;
use crate::commits::{APPEND, timed};

pub(crate) fn run(arguments: &Arguments) -> Result<String, Failure> {
    let mut client = store::create(arguments)?;
    let append = client.prepare(APPEND)?;
    timed(arguments, |event, payload| {
        client.execute(&append, &[&event, &(event - 1), &payload])?;
        Ok(())
    })
}

//! Reads a store: the rows of the longest history, and the number and size of the rows of every table.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use rusqlite::{Connection, Row, params};

use crate::Failure;
use crate::arguments::Arguments;

type Event = (
    i64,
    i64,
    String,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
);

/// Reads the longest history into memory, and writes it to `--out`, one JSON array a line, to be parsed elsewhere.
pub(crate) fn rows(arguments: &Arguments) -> Result<String, Failure> {
    let connection = Connection::open(arguments.text("db")?)?;
    let key: i64 = connection.query_row(
        "SELECT instance_key FROM history GROUP BY instance_key ORDER BY count(*) DESC LIMIT 1",
        [],
        |row| row.get(0),
    )?;
    // The time is that of a connection that has read nothing of the history yet, as after a start.
    let connection = Connection::open(arguments.text("db")?)?;
    let began = Instant::now();
    let mut select = connection.prepare(
        "SELECT event_id, time, kind, ref_id, name, payload, meta FROM history WHERE instance_key = ?1
         ORDER BY event_id",
    )?;
    let events = select
        .query_map(params![key], event)?
        .collect::<rusqlite::Result<Vec<Event>>>()?;
    let ms = began.elapsed().as_secs_f64() * 1_000.0;

    let mut out = BufWriter::new(File::create(arguments.text("out")?)?);
    let mut select = connection.prepare(
        "SELECT json_array(event_id, time, kind, ref_id, name, payload, meta) FROM history WHERE instance_key = ?1
         ORDER BY event_id",
    )?;
    let lines = select.query_map(params![key], |row| row.get::<_, String>(0))?;
    for line in lines {
        writeln!(out, "{}", line?)?;
    }
    out.flush()?;
    Ok(format!(r#"{{"rows":{},"readMs":{ms}}}"#, events.len()))
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
    ))
}

/// Rows and bytes of values by table.
pub(crate) fn count(arguments: &Arguments) -> Result<String, Failure> {
    let connection = Connection::open(arguments.text("db")?)?;
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")?;
    let names = tables
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    let mut found = Vec::new();
    for table in names {
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = columns
            .query_map([&table], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        let sizes: Vec<String> = columns
            .iter()
            .map(|name| format!("coalesce(sum(length(CAST(\"{name}\" AS BLOB))), 0)"))
            .collect();
        let (rows, bytes): (i64, i64) = connection.query_row(
            &format!("SELECT count(*), {} FROM \"{table}\"", sizes.join(" + ")),
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        found.push(format!(r#""{table}":{{"rows":{rows},"bytes":{bytes}}}"#));
    }
    Ok(format!("{{{}}}", found.join(",")))
}

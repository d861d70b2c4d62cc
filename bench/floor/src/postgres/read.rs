//! Reads a store: the rows of the longest history, and the number and size of the rows of every table.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use super::store;
use crate::Failure;
use crate::arguments::Arguments;

/// Reads the longest history into memory, and writes it to `--out`, one JSON array a line, to be parsed elsewhere.
pub(crate) fn rows(arguments: &Arguments) -> Result<String, Failure> {
    let key: i64 = store::open(arguments)?
        .query_one(
            "SELECT instance_key FROM history GROUP BY instance_key ORDER BY count(*) DESC LIMIT 1",
            &[],
        )?
        .get(0);
    // The time is that of a connection that has read nothing of the history yet, as after a start.
    let mut client = store::open(arguments)?;
    let began = Instant::now();
    let rows = client.query(
        "SELECT event_id, time, kind, ref_id, name, payload, meta FROM history WHERE instance_key = $1
         ORDER BY event_id",
        &[&key],
    )?;
    let bytes: usize = rows
        .iter()
        .map(|row| row.get::<_, Option<String>>(5).map_or(0, |payload| payload.len()))
        .sum();
    let ms = began.elapsed().as_secs_f64() * 1_000.0;

    let mut out = BufWriter::new(File::create(arguments.text("out")?)?);
    let lines = client.query(
        "SELECT json_build_array(event_id, time, kind, ref_id, name, payload, meta)::text FROM history
         WHERE instance_key = $1 ORDER BY event_id",
        &[&key],
    )?;
    for line in lines {
        writeln!(out, "{}", line.get::<_, String>(0))?;
    }
    out.flush()?;
    Ok(format!(
        r#"{{"rows":{},"payloadBytes":{bytes},"readMs":{ms}}}"#,
        rows.len()
    ))
}

/// Rows and bytes of values by table.
pub(crate) fn count(arguments: &Arguments) -> Result<String, Failure> {
    let schema = store::schema(arguments)?;
    let mut client = store::open(arguments)?;
    let tables = client.query(
        "SELECT table_name::text, string_agg(format('coalesce(sum(octet_length(%I::text)), 0)', column_name), ' + ')
         FROM information_schema.columns WHERE table_schema = $1 GROUP BY table_name ORDER BY table_name",
        &[&schema],
    )?;
    let mut found = Vec::new();
    for row in tables {
        let (table, bytes): (String, String) = (row.get(0), row.get(1));
        let counted = client.query_one(&format!("SELECT count(*), ({bytes})::bigint FROM \"{table}\""), &[])?;
        let (rows, bytes): (i64, i64) = (counted.get(0), counted.get(1));
        found.push(format!(r#""{table}":{{"rows":{rows},"bytes":{bytes}}}"#));
    }
    Ok(format!("{{{}}}", found.join(",")))
}

//! The name of the schema, and statements with it.

use perdure_provider::ProviderErrorKind as Kind;

use crate::error::Failure;

/// The server's clock at the beginning of the statement, in ms since 1970.
pub(crate) const NOW: &str = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/// Longest name that Postgres does not cut, in bytes.
const NAME_MAX: usize = 63;

/// Refuses a name that Postgres would cut or that it reserves for itself.
pub(crate) fn check_name(schema: &str) -> Result<(), Failure> {
    let refuse = |what: &str| {
        Err(Failure::Found(
            Kind::CannotOpen,
            format!("the name of its schema {what}"),
        ))
    };
    if schema.is_empty() || schema.len() > NAME_MAX {
        return refuse("must have 1 to 63 bytes");
    }
    if schema.contains('\0') {
        return refuse("holds NUL");
    }
    if schema.starts_with("pg_") {
        return refuse("begins with 'pg_', which Postgres keeps for itself");
    }
    Ok(())
}

/// Returns the name as it is written in statements.
pub(crate) fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

/// Fills the quoted schema into the placeholders of SQL.
pub(crate) fn fill_in(sql: &str, schema: &str) -> String {
    let keys = format!("'{}.instances_keys'", schema.replace('\'', "''"));
    sql.replace("{keys}", &keys).replace("{schema}", schema)
}

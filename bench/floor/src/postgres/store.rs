//! A schema with Perdure's tables.

use std::time::Duration;

use postgres::{Client, Config, NoTls};

use crate::Failure;
use crate::arguments::Arguments;
use crate::migrations;

/// The time after which a server that does not answer counts as absent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn connect(arguments: &Arguments) -> Result<Client, Failure> {
    let mut config: Config = arguments.text("url")?.parse()?;
    config.connect_timeout(CONNECT_TIMEOUT);
    Ok(config.connect(NoTls)?)
}

/// Opens a connection that finds the tables of `--schema` by their bare names.
pub(crate) fn open(arguments: &Arguments) -> Result<Client, Failure> {
    let mut client = connect(arguments)?;
    client.batch_execute(&format!("SET search_path TO {}", schema(arguments)?))?;
    Ok(client)
}

/// Makes a new store.
pub(crate) fn create(arguments: &Arguments) -> Result<Client, Failure> {
    let schema = schema(arguments)?;
    let mut client = connect(arguments)?;
    client.batch_execute(&format!("CREATE SCHEMA {schema}"))?;
    for migration in migrations::texts(arguments)? {
        client.batch_execute(&fill_in(&migration, schema))?;
    }
    // Perdure takes keys in blocks and gives them out one by one. Here each row asks for its own key, and the keys are
    // the same.
    client.batch_execute(&format!("ALTER SEQUENCE {schema}.instances_keys INCREMENT 1"))?;
    open(arguments)
}

/// Fills in a migration as `provider-postgres` does (its `schema.rs`): `{keys}` is the name of a sequence, as a
/// literal.
fn fill_in(migration: &str, schema: &str) -> String {
    migration
        .replace("{keys}", &format!("'{schema}.instances_keys'"))
        .replace("{schema}", schema)
}

/// The name of the schema. It must need no quotes, because it is put into SQL as it is.
pub(crate) fn schema(arguments: &Arguments) -> Result<&str, Failure> {
    let name = arguments.text("schema")?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain) {
        Ok(name)
    } else {
        Err(format!("'{name}' is no name for a schema here").into())
    }
}

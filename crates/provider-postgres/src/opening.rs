//! The opening of a store.

use std::sync::Arc;

use crate::connection::Connections;
use crate::error::Failure;
use crate::options::PostgresOptions;
use crate::{marks, schema};

/// Finds out what the server can do, and makes or checks the store.
pub(crate) async fn prepare(connections: Arc<Connections>, options: PostgresOptions) -> Result<(), Failure> {
    connections.detect_pooler(&options).await?;
    let connection = connections.get().await?;
    if options.migrate {
        schema::migrate(
            connection.client(),
            &connections.schema,
            connections.capabilities().keeps_sessions,
        )
        .await?;
    } else {
        schema::check_newest(connection.client(), &connections.schema).await?;
    }
    connections.lineage.check(connection.client()).await?;
    marks::forget_old(&connection).await
}

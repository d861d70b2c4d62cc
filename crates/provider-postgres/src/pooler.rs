//! The detection of a pooler between this process and the server, and the use of connections that it allows.
//!
//! A pooler in transaction mode gives a server connection to each transaction. Settings that one client makes for its
//! session apply to another client an instant later. Such a pooler is recognised by its backends: one backend answers
//! two connections that are both open, or two backends answer one connection.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::error::Failure;
use crate::hosts::{Hosts, SpawnDriver};
use crate::options::{Pooler, PostgresOptions};

/// The features of connections that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// True if changes are notified to other processes, and heard from them.
    pub(crate) notifies: bool,
    /// True if settings hold for a session, and a statement may run without a transaction.
    pub(crate) keeps_sessions: bool,
    /// True if statements are prepared.
    pub(crate) prepares: bool,
}

/// Decides by the options and, where they say nothing, by the answers on two connections. A pooler that is busy with
/// other clients at that moment may not be detected.
pub(crate) async fn detect(
    hosts: &Hosts,
    options: &PostgresOptions,
    url_says: Option<Pooler>,
) -> Result<Capabilities, Failure> {
    let said = options.pooler.or(url_says);
    let is_known = match said {
        Some(Pooler::None) => true,
        Some(Pooler::Transaction) => options.prepare.is_some(),
        None => false,
    };
    let spawn: SpawnDriver<'_> = &|driver| tokio::spawn(async move { drop(driver.await) });
    let (is_pooled, tracks) = if is_known {
        (said == Some(Pooler::Transaction), false)
    } else {
        let (one, other) = tokio::try_join!(hosts.connect(spawn, ""), hosts.connect(spawn, ""))?;
        let is_pooled = said.is_some() || share_backends(&one.0, &other.0).await?;
        (
            is_pooled,
            is_pooled && options.prepare.is_none() && tracks_statements(&one.0).await?,
        )
    };
    Ok(Capabilities {
        notifies: options.notify.unwrap_or(!is_pooled),
        keeps_sessions: !is_pooled,
        prepares: options.prepare.unwrap_or(!is_pooled || tracks),
    })
}

async fn share_backends(one: &Client, other: &Client) -> Result<bool, Failure> {
    const BACKEND: &str = "SELECT pg_catalog.pg_backend_pid()";
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    // A pooler gives the backend that was used last, unless another client was faster.
    for _ in 0..2 {
        ones.push(ask(one, BACKEND).await?);
        others.push(ask(other, BACKEND).await?);
    }
    let is_steady = |backends: &[Option<String>]| backends.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(!is_steady(&ones) || !is_steady(&others) || ones[0] == others[0])
}

/// Returns true if a pooler prepares the statements of its clients on each server connection that they get. It then
/// gives the statements names of its own.
async fn tracks_statements(client: &Client) -> Result<bool, Failure> {
    const TEXT: &str = "SELECT 'a statement of Perdure'";
    // All of this runs on one server connection, and nothing of it stays there.
    client.batch_execute("BEGIN").await?;
    let mut is_renamed = false;
    if let Ok(statement) = client.prepare(TEXT).await
        && client.query(&statement, &[]).await.is_ok()
    {
        // The client names its own statements `s` and a number.
        let renamed = format!(
            "SELECT 1 FROM pg_catalog.pg_prepared_statements WHERE statement = '{}' AND name !~ '^s[0-9]+$' LIMIT 1",
            TEXT.replace('\'', "''")
        );
        is_renamed = ask(client, &renamed).await?.is_some();
    }
    client.batch_execute("ROLLBACK").await?;
    Ok(is_renamed)
}

async fn ask(client: &Client, sql: &str) -> Result<Option<String>, Failure> {
    let answers = client.simple_query(sql).await?;
    Ok(answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

//! Connection options of a Postgres store, as the driver sends them.

use perdure_provider_postgres::{Pooler, PostgresOptions, Tls, TlsMode};
use perdure_runtime::RuntimeError;
use serde::Deserialize;

pub(crate) fn parse(text: &str) -> Result<PostgresOptions, RuntimeError> {
    let settings: PostgresSettings = serde_json::from_str(text)
        .map_err(|error| RuntimeError::Argument(format!("the options of a store: {error}")))?;
    Ok(settings.into())
}

/// Options of `PostgresProvider.connect`, complete and checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PostgresSettings {
    schema: String,
    migrate: bool,
    pool_size: usize,
    /// True to use notifications; `null`: unless a pooler is in between.
    notify: Option<bool>,
    /// Kind of pooler; `null`: it is detected.
    pooler: Option<PoolerSetting>,
    /// True to use prepared statements; `null`: it is detected.
    prepare: Option<bool>,
    /// TLS settings; `null`: as the URL says.
    tls: Option<TlsSettings>,
    /// Root certificates, PEM, that are trusted if neither the URL nor `tls` names any.
    default_roots: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TlsSettings {
    mode: Mode,
    roots: Option<String>,
    crls: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PoolerSetting {
    None,
    Transaction,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Disable,
    Require,
    VerifyFull,
}

impl From<PostgresSettings> for PostgresOptions {
    fn from(settings: PostgresSettings) -> Self {
        Self {
            schema: settings.schema,
            migrate: settings.migrate,
            pool_size: settings.pool_size,
            notify: settings.notify,
            pooler: settings.pooler.map(|pooler| match pooler {
                PoolerSetting::None => Pooler::None,
                PoolerSetting::Transaction => Pooler::Transaction,
            }),
            prepare: settings.prepare,
            tls: settings.tls.map(|tls| Tls {
                mode: match tls.mode {
                    Mode::Disable => TlsMode::Disable,
                    Mode::Require => TlsMode::Require,
                    Mode::VerifyFull => TlsMode::VerifyFull,
                },
                roots: tls.roots,
                crls: tls.crls,
                client: tls.cert.zip(tls.key),
            }),
            default_roots: settings.default_roots,
            ..Self::default()
        }
    }
}

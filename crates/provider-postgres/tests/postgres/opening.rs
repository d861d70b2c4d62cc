//! The opening of a store, or its refusal.

use std::time::Duration;

use perdure_provider::{Provider, ProviderError, ProviderErrorKind as Kind};
use perdure_provider_postgres::{PostgresOptions, PostgresProvider, Tls, TlsMode};

use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::common::{Schema, options, other_program, url};

async fn refused(url: &str, options: PostgresOptions) -> ProviderError {
    let error = PostgresProvider::connect(url, options)
        .await
        .err()
        .expect("it is refused");
    assert!(!error.message.contains("s3cret"), "{error}");
    error
}

/// Eight processes open at once: one migrates, all start. When it asked the catalogue alone, a connection that waited
/// for the lock did not see what was made meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn eight_at_once_make_one_schema() {
    let schema = Schema::new();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let options = options(&schema);
            tokio::spawn(async move { PostgresProvider::connect(&url(), options).await })
        })
        .collect();
    for opened in opening {
        let store = opened.await.expect("it does not panic").expect("it opens");
        store.close().await;
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_as_it_is() {
    let schema = Schema::new();
    let store = PostgresProvider::connect(&url(), options(&schema))
        .await
        .expect("it opens");
    store.close().await;
    let other = other_program().await;
    let quoted = format!("\"{}\"", schema.0);
    let set = format!("UPDATE {quoted}.schema_version SET version = 4711");
    other.batch_execute(&set).await.expect("it is changed");
    let error = refused(&url(), options(&schema)).await;
    assert!(
        matches!(error.kind, Kind::SchemaVersion { found: 4711, .. }),
        "{error:?}"
    );
    assert!(
        error.message.contains("4711") && error.message.contains("up to 100"),
        "{error}"
    );
    assert!(!error.retryable());
}

#[tokio::test]
async fn without_migrations_only_a_store_as_it_should_be_is_opened() {
    let schema = Schema::new();
    let look = || PostgresOptions {
        migrate: false,
        ..options(&schema)
    };
    let absent = refused(&url(), look()).await;
    assert_eq!(absent.kind, Kind::CannotOpen);
    assert!(absent.message.contains(&schema.0), "{absent}");
    let other = other_program().await;
    let count = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{}'", schema.0);
    let made: i64 = other.query_one(&count, &[]).await.expect("it is asked").get(0);
    assert_eq!(made, 0);

    let made = PostgresProvider::connect(&url(), options(&schema)).await;
    made.expect("it opens").close().await;
    let store = PostgresProvider::connect(&url(), look()).await.expect("it opens");
    store.close().await;
    let set = format!("UPDATE \"{}\".schema_version SET version = 2", schema.0);
    other.batch_execute(&set).await.expect("it is changed");
    let older = refused(&url(), look()).await;
    assert_eq!(
        older.kind,
        Kind::SchemaVersion {
            found: 2,
            supported: 100
        }
    );
}

/// A store of the versions before the first release, whose tables are of another shape.
#[tokio::test]
async fn a_store_of_a_development_version_is_refused_and_left_as_it_is() {
    let schema = Schema::new();
    let other = other_program().await;
    let quoted = format!("\"{}\"", schema.0);
    let make = format!(
        "CREATE SCHEMA {quoted}; CREATE TABLE {quoted}.schema_version (version integer NOT NULL);
         INSERT INTO {quoted}.schema_version VALUES (6)"
    );
    other.batch_execute(&make).await.expect("it is made");
    let error = refused(&url(), options(&schema)).await;
    assert_eq!(
        error.kind,
        Kind::SchemaVersion {
            found: 6,
            supported: 100
        }
    );
    for text in ["development version", "version 6", "choose another schema"] {
        assert!(error.message.contains(text), "{error}");
    }
    let count = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'", schema.0);
    let tables: i64 = other.query_one(&count, &[]).await.expect("it is asked").get(0);
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn a_schema_of_something_else_is_left_as_it_is() {
    let schema = Schema::new();
    let other = other_program().await;
    let quoted = format!("\"{}\"", schema.0);
    let make = format!("CREATE SCHEMA {quoted}; CREATE TABLE {quoted}.history (a int)");
    other.batch_execute(&make).await.expect("it is made");
    assert_eq!(refused(&url(), options(&schema)).await.kind, Kind::NotADatabase);
    let count = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'", schema.0);
    let tables: i64 = other.query_one(&count, &[]).await.expect("it is asked").get(0);
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn a_schema_may_have_any_name_that_postgres_keeps_whole() {
    for name in ["", "pg_perdure", "a\0b", &"x".repeat(64)] {
        let options = PostgresOptions {
            schema: name.into(),
            ..PostgresOptions::default()
        };
        assert_eq!(refused(&url(), options).await.kind, Kind::CannotOpen, "{name:?}");
    }
    let mut schema = Schema::new();
    schema.0 = format!("{}'\\; é", &schema.0[..30]);
    let store = PostgresProvider::connect(&url(), options(&schema))
        .await
        .expect("it opens");
    assert_eq!(store.workers().await, Ok(Vec::new()));
    store.close().await;
}

#[tokio::test]
async fn retryable_errors_are_told_from_permanent_ones() {
    let options = PostgresOptions::default;
    let dead = refused("postgres://ada:s3cret@127.0.0.1:1/shop", options()).await;
    assert!(dead.kind == Kind::Io && dead.retryable(), "{dead}");
    assert!(dead.message.contains("postgres://ada@127.0.0.1:1/shop"), "{dead}");
    let (place, _) = url()
        .rsplit_once('/')
        .map(|(place, name)| (place.to_owned(), name.to_owned()))
        .expect("a path");
    let absent = refused(&format!("{place}/no%20such%20database"), options()).await;
    assert_eq!((absent.kind, absent.retryable()), (Kind::CannotOpen, false), "{absent}");
    let unread = refused("postgres://ada:s3cret@h:port/db", options()).await;
    assert_eq!(unread.kind, Kind::CannotOpen);
    assert!(
        unread.message.starts_with("The Postgres store cannot be opened"),
        "{unread}"
    );
}

/// The configuration's own time limit ends when a socket is open, so this waited for ever.
#[tokio::test]
async fn a_server_that_never_responds_is_given_up() {
    let mute = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let port = mute.local_addr().expect("it has one").port();
    for mode in ["disable", "prefer"] {
        let url = format!("postgres://ada:s3cret@127.0.0.1:{port}/shop?connect_timeout=1&sslmode={mode}");
        let refusal = timeout(Duration::from_secs(4), refused(&url, PostgresOptions::default()));
        let error = refusal.await.expect("it is not waited for");
        assert!(error.kind == Kind::Io && error.retryable(), "{error}");
        assert!(error.message.contains("did not respond in time"), "{error}");
    }
}

/// The certificate is checked where the server has TLS.
#[tokio::test]
async fn a_certificate_without_a_trusted_signature_is_refused() {
    let has_tls: String = other_program()
        .await
        .query_one("SHOW ssl", &[])
        .await
        .expect("it is asked")
        .get(0);
    let schema = Schema::new();
    let with = |mode, roots: Option<&str>| PostgresOptions {
        tls: Some(Tls {
            mode,
            roots: roots.map(str::to_owned),
            crls: None,
            client: None,
        }),
        ..options(&schema)
    };
    let unusable = refused(&url(), with(TlsMode::VerifyFull, Some("no PEM"))).await;
    assert_eq!(unusable.kind, Kind::CannotOpen);
    if has_tls == "on" {
        for mode in [TlsMode::Prefer, TlsMode::Require] {
            let store = PostgresProvider::connect(&url(), with(mode, None))
                .await
                .expect("it opens");
            store.close().await;
        }
        for mode in [TlsMode::VerifyCa, TlsMode::VerifyFull] {
            let stranger = refused(&url(), with(mode, Some(STRANGER))).await;
            assert_eq!(
                (stranger.kind, stranger.retryable()),
                (Kind::CannotOpen, false),
                "{stranger}"
            );
            assert!(stranger.message.contains("certificate"), "{stranger}");
        }
    } else {
        let plain = refused(&url(), with(TlsMode::Require, None)).await;
        assert!(plain.message.contains("TLS") && !plain.retryable(), "{plain}");
    }
}

/// A root that signed nothing (a self-signed certificate whose key was thrown away).
const STRANGER: &str = include_str!("stranger.pem");

//! URLs of Postgres stores: refused with an error, or taken apart; neither the error nor the parts show the password.

use perdure_provider::ProviderErrorKind as Kind;
use perdure_provider_postgres::location_of;

/// A password, in two parts, that is found in each text that shows it.
const SECRET: [&str; 2] = ["c4nary", "s3cret"];

/// Takes an input apart as it is, and with a password in each place where a URL may have one, also an unquoted one.
pub fn run(bytes: &[u8]) {
    let [left, right] = SECRET;
    let text = String::from_utf8_lossy(bytes).replace(left, "").replace(right, "");
    let _ = said_of(&text);
    let (scheme, rest) = text.split_once("://").unwrap_or(("postgres", &text));
    let separator = if text.contains('?') { '&' } else { '?' };
    let in_parameter = format!("{text}{separator}password={left}@{right}");
    let quoted = ["", "@", "/", "?", "#", ":", "%", "&", "=", "["];
    let in_place = quoted.map(|between| format!("{scheme}://ada:{left}{between}{right}@{rest}"));
    for url in in_place.iter().chain([&in_parameter]) {
        let said = said_of(url);
        assert!(SECRET.iter().all(|part| !said.contains(part)), "{said}");
    }
}

/// Returns the location of the URL, or the message of its error.
fn said_of(url: &str) -> String {
    location_of(url).unwrap_or_else(|error| {
        assert_eq!(error.kind, Kind::CannotOpen, "{error}");
        error.message
    })
}

/// Usable URLs.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "postgres://ada:s3cret@db.example:6432/shop?sslmode=require&application_name=x",
        "postgresql://[::1]:5432,10.0.0.1/db?connect_timeout=3&target_session_attrs=read-write",
        "postgres://%2Ftmp%2Fsockets/db?user=ada&password=s3cret&port=5433",
        "postgres:///db?host=/tmp&sslmode=verify-full&sslrootcert=/no/such%20file&sslcert=/a&sslkey=/b",
        "postgres://ada:s3cret@h/db?require_auth=!password,%21md5&require_auth=scram-sha-256,none",
        "postgres://a%40b:p%3Aw@h/%F0%9F%98%80?options=-c%20search_path%3Dx&keepalives=1&load_balance_hosts=random",
    ]
    .map(|seed| seed.as_bytes().to_vec())
    .into()
}

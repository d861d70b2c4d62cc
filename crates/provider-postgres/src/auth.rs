//! `require_auth`: the methods of authentication that a server may ask for, as in libpq
//! (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-REQUIRE-AUTH>).
//!
//! - **A1** The first message of the server is judged before the client reads any of it. If it asks for a method that
//!   is not allowed, or for none where one is required, the connection ends there: neither the password nor anything
//!   made of it was sent.
//! - **A2** The exchange after a request for SCRAM is left to the client. The client also refuses a server that does
//!   not prove that it knows the password.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;

use perdure_provider::ProviderErrorKind as Kind;

use crate::error::Failure;

/// The number of bytes that tell the method: the type of the message, its length and a code (the last two are four
/// bytes each, big-endian).
pub(crate) const HEAD_BYTES: usize = 9;

/// A method of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// The server asks for nothing: it trusts the client, or has seen a certificate.
    None,
    Password,
    Md5,
    Gss,
    Sspi,
    Scram,
    OAuth,
}

/// All methods, by their names in `require_auth`.
const METHODS: [(&str, Method); 7] = [
    ("none", Method::None),
    ("password", Method::Password),
    ("md5", Method::Md5),
    ("gss", Method::Gss),
    ("sspi", Method::Sspi),
    ("scram-sha-256", Method::Scram),
    ("oauth", Method::OAuth),
];

/// The methods that this client supports.
const SUPPORTED: [Method; 4] = [Method::None, Method::Password, Method::Md5, Method::Scram];

impl Method {
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns the method that a server asks for with a code. `None`: the code is not known.
    fn of_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::None,
            3 => Self::Password,
            5 => Self::Md5,
            7 => Self::Gss,
            9 => Self::Sspi,
            // The client supports no other mechanism of SASL.
            10 => Self::Scram,
            _ => return None,
        })
    }

    fn asked(self) -> &'static str {
        match self {
            Self::None => "no authentication",
            Self::Password => "the password in plain text",
            Self::Md5 => "an MD5 hash of the password",
            Self::Gss => "GSSAPI",
            Self::Sspi => "SSPI",
            Self::Scram => "SCRAM-SHA-256",
            Self::OAuth => "a token of OAuth",
        }
    }
}

/// The methods that a server may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequireAuth {
    /// A [bit](Method::bit) for each.
    allowed: u8,
}

/// The verdict on the first message by its first bytes.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// More bytes are needed, up to [`HEAD_BYTES`].
    More,
    /// The client may read the message.
    Allowed,
    /// The connection ends here.
    Refused(io::Error),
}

impl RequireAuth {
    /// Parses the value of the parameter. `None`: the value is empty, which requires nothing. The error shows nothing
    /// of the value, which may be a part of a password that is not escaped.
    pub(crate) fn parse(value: &str) -> Result<Option<Self>, Failure> {
        let refuse = |what: &str| Err(Failure::Found(Kind::CannotOpen, format!("require_auth {what}")));
        if value.is_empty() {
            return Ok(None);
        }
        // The value lists the methods that are allowed, or those that are not.
        let is_negative = value.starts_with('!');
        let mut named = 0;
        for item in value.split(',') {
            let name = item.strip_prefix('!').unwrap_or(item);
            let Some((_, method)) = METHODS.iter().find(|(written, _)| *written == name) else {
                let names = METHODS.map(|(name, _)| name).join(", ");
                return refuse(&format!(
                    "is not a list of {names}, separated by commas without spaces, with a '!' before each of them or \
                     before none"
                ));
            };
            if item.starts_with('!') != is_negative {
                return refuse("has a '!' before some of its methods, but not before all");
            }
            if named & method.bit() != 0 {
                return refuse("names a method more than once");
            }
            named |= method.bit();
        }
        let rule = Self {
            allowed: if is_negative { !named } else { named },
        };
        if SUPPORTED.iter().any(|method| rule.allows(*method)) {
            Ok(Some(rule))
        } else {
            refuse("allows none of the methods of this client: scram-sha-256, md5, password and none")
        }
    }

    const fn allows(self, method: Method) -> bool {
        self.allowed & method.bit() != 0
    }

    /// Judges the first message of a server by its first bytes, which are at most [`HEAD_BYTES`].
    pub(crate) fn judge(self, head: &[u8]) -> Verdict {
        match *head {
            [] => Verdict::More,
            // An error ends the connection: the server itself refuses it.
            [b'E', ..] => Verdict::Allowed,
            [b'R', _, _, _, _, a, b, c, d] => {
                let code = u32::from_be_bytes([a, b, c, d]);
                match Method::of_code(code) {
                    Some(method) if self.allows(method) => Verdict::Allowed,
                    asked => Verdict::Refused(io::Error::other(Refusal { rule: self, asked })),
                }
            }
            [b'R', ..] => Verdict::More,
            // No Postgres server begins with another message.
            _ => Verdict::Refused(io::Error::other("unexpected message from server")),
        }
    }
}

impl Display for RequireAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = METHODS.iter().filter(|(_, method)| self.allows(*method));
        let names: Vec<&str> = allowed.map(|(name, _)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

/// The server asked for a method that is not allowed.
#[derive(Debug)]
pub(crate) struct Refusal {
    rule: RequireAuth,
    /// `None`: the method is not known.
    asked: Option<Method>,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.asked.map_or("an unknown method", Method::asked);
        write!(
            f,
            "the server asks for {asked}, but require_auth allows only {}; no password was sent",
            self.rule
        )
    }
}

impl Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(value: &str) -> RequireAuth {
        let parsed = RequireAuth::parse(value).unwrap_or_else(|failure| panic!("{value:?} is one: {failure}"));
        parsed.unwrap_or_else(|| panic!("{value:?} requires something"))
    }

    /// Returns the first message of a server that asks for the method with this code.
    fn asks(code: u8) -> [u8; HEAD_BYTES] {
        [b'R', 0, 0, 0, 8, 0, 0, 0, code]
    }

    fn is_allowed(value: &str, code: u8) -> bool {
        match rule(value).judge(&asks(code)) {
            Verdict::Allowed => true,
            Verdict::Refused(error) => {
                let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>());
                assert!(refusal.is_some(), "{error}");
                false
            }
            Verdict::More => panic!("it is all there"),
        }
    }

    #[test]
    fn a_list_allows_the_named_methods_and_no_other() {
        // Ok, password in plain text, MD5, GSSAPI, SSPI, SASL.
        let codes = [0, 3, 5, 7, 9, 10];
        for (value, allowed) in [
            ("none", &[0][..]),
            ("password", &[3]),
            ("md5", &[5]),
            ("scram-sha-256", &[10]),
            ("scram-sha-256,md5", &[5, 10]),
            ("none,scram-sha-256", &[0, 10]),
            ("gss,sspi,password", &[3, 7, 9]),
            ("oauth,password", &[3]),
            ("!password", &[0, 5, 7, 9, 10]),
            ("!none", &[3, 5, 7, 9, 10]),
            ("!password,!md5,!none", &[7, 9, 10]),
            ("!gss,!sspi,!oauth,!scram-sha-256", &[0, 3, 5]),
        ] {
            let found: Vec<u8> = codes.into_iter().filter(|code| is_allowed(value, *code)).collect();
            assert_eq!(found, allowed, "{value}");
        }
    }

    #[test]
    fn an_unknown_code_is_refused_by_every_rule() {
        for value in ["none,password,md5,gss,sspi,scram-sha-256,oauth", "!password"] {
            // Kerberos 5, SCM credentials, and codes that come later in an exchange.
            for code in [1, 2, 4, 6, 8, 11, 12, 13, 255] {
                assert!(!is_allowed(value, code), "{value} {code}");
            }
        }
        let long = [b'R', 0, 0, 0, 8, 1, 0, 0, 0];
        assert!(matches!(rule("none").judge(&long), Verdict::Refused(_)));
    }

    #[test]
    fn a_value_that_is_none_is_refused_and_not_shown() {
        for (value, why) in [
            ("s3cret", "is not a list"),
            ("scram", "is not a list"),
            ("SCRAM-SHA-256", "is not a list"),
            ("scram-sha-256,", "is not a list"),
            (",", "is not a list"),
            ("!", "is not a list"),
            ("!!md5", "is not a list"),
            ("md5, password", "is not a list"),
            ("md5,s3cret", "is not a list"),
            ("md5,!password", "'!' before some"),
            ("!password,md5", "'!' before some"),
            ("md5,password,md5", "more than once"),
            ("!none,!none", "more than once"),
            ("gss,sspi", "of this client"),
            ("oauth", "of this client"),
            ("!none,!password,!md5,!scram-sha-256", "of this client"),
        ] {
            let failure = RequireAuth::parse(value).expect_err(value);
            let text = failure.to_string();
            assert_eq!(failure.kind(), Kind::CannotOpen, "{value}");
            assert!(
                text.starts_with("require_auth ") && text.contains(why),
                "{value}: {text}"
            );
            assert!(!text.contains("s3cret"), "{text}");
        }
        assert_eq!(RequireAuth::parse("").expect("it requires nothing"), None);
    }

    #[test]
    fn the_method_is_known_when_all_of_its_code_has_come() {
        let rule = rule("scram-sha-256");
        for n in 0..HEAD_BYTES {
            assert!(matches!(rule.judge(&asks(10)[..n]), Verdict::More), "{n}");
        }
        assert!(matches!(rule.judge(&asks(10)), Verdict::Allowed));
        assert!(matches!(rule.judge(b"E"), Verdict::Allowed));
        // A notice, the state of a parameter, and a server that is not Postgres.
        for other in [b"N", b"S", b"H"] {
            assert!(matches!(rule.judge(other), Verdict::Refused(_)), "{other:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_asked_and_the_allowed_methods() {
        let Verdict::Refused(error) = rule("scram-sha-256,md5").judge(&asks(3)) else {
            panic!("it is refused");
        };
        assert_eq!(
            error.to_string(),
            "the server asks for the password in plain text, but require_auth allows only md5, scram-sha-256; no \
             password was sent"
        );
    }
}

//! Versions of orchestrations: their order, and the version of a start that names none.
//!
//! A start without a version, by a client that has no orchestration of that name registered, is stored with the [open
//! version](OPEN_VERSION). Any worker that has the orchestration may find the instance, and settles the version within
//! the acquisition. The version becomes the newest one that any worker with a valid lease has. The result is therefore
//! the same whether the worker or the start came first.

use std::cmp::Ordering;

use crate::Acquire;

/// The version of an instance whose start named none, until a worker settles it.
pub const OPEN_VERSION: &str = "";

/// Compares versions: by their numbers from left to right, then as text.
#[must_use]
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    let numbers = |v: &str| -> Vec<u64> { v.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect() };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

/// The newest version of each orchestration that a worker has, as its row keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Newest(pub Vec<(String, String)>);

impl Newest {
    /// Returns the JSON text.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(&self.0).expect("texts are always JSON")
    }

    /// Reads a text. Returns the empty value if another program has changed the text.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &str> {
        let own = self.0.iter().filter(move |(n, _)| n == name);
        own.map(|(_, version)| &**version)
    }
}

/// The version that an instance gets whose version is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The settled version.
    pub version: String,
    /// True if the worker that settles the version has it, and so acquires the instance. Otherwise the instance is left
    /// to others.
    pub is_own: bool,
}

impl Acquire {
    /// Settles the version of an instance of an orchestration that the worker has registered. `live` holds the newest
    /// versions of each worker with a valid lease.
    #[must_use]
    pub fn settle(&self, name: &str, live: &[Newest]) -> Settled {
        let own = self.registered.iter().filter(|(n, _)| n == name);
        let own = own.map(|(_, version)| &**version);
        let all = own.clone().chain(live.iter().flat_map(|newest| newest.of(name)));
        let newest = all.max_by(|a, b| compare_versions(a, b)).unwrap_or(OPEN_VERSION);
        Settled {
            version: newest.to_owned(),
            is_own: own.clone().any(|version| version == newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_versions_round_trip_and_garbage_is_empty() {
        let newest = Newest(vec![("order \"1\"".into(), "1.10.0".into())]);
        assert_eq!(Newest::read(&newest.to_text()), newest);
        for text in ["", "{}", "[1]", "[[\"a\"]]"] {
            assert_eq!(Newest::read(text), Newest::default(), "{text}");
        }
    }
}

//! Versions of orchestrations: their order, and what becomes of a start that names none.
//!
//! A start without a version, by somebody who has none of that name registered, is stored with the [open version](OPEN_VERSION). Any worker that
//! has the orchestration may come by it, and settles it within the acquisition: the newest version that a worker has whose lease holds.
//! So it makes no difference whether the worker or the start came first.

use std::cmp::Ordering;

use crate::Acquire;

/// The version of an instance whose start named none, until a worker settles it.
pub const OPEN_VERSION: &str = "";

/// Order of versions: by their numbers from left to right, then as text.
#[must_use]
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    let numbers = |v: &str| -> Vec<u64> { v.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect() };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

/// The newest version of each orchestration that a worker has, as its row keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Newest(pub Vec<(String, String)>);

impl Newest {
    /// JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(&self.0).expect("texts are always JSON")
    }

    /// What a text says; nothing, where another program has changed it.
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
    /// Which.
    pub version: String,
    /// Whether the worker that settles it has that version, and takes the instance; it is left to others where not.
    pub is_own: bool,
}

impl Acquire {
    /// Settle the version of an instance of an orchestration that the worker has registered; `live`: what the workers have whose lease holds.
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
    fn what_is_kept_of_a_worker_is_read_again_and_garbage_is_nothing() {
        let newest = Newest(vec![("order \"1\"".into(), "1.10.0".into())]);
        assert_eq!(Newest::read(&newest.to_text()), newest);
        for text in ["", "{}", "[1]", "[[\"a\"]]"] {
            assert_eq!(Newest::read(text), Newest::default(), "{text}");
        }
    }
}

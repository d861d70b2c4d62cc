//! What a runtime can run.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

/// Orchestrations by name, each with its versions, and names of activities.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    orchestrations: HashMap<String, Vec<String>>,
    activities: BTreeSet<String>,
}

impl Registry {
    /// `false`: that name and version is registered already.
    pub(crate) fn add(&mut self, name: String, version: String) -> bool {
        let versions = self.orchestrations.entry(name).or_default();
        if versions.contains(&version) {
            return false;
        }
        versions.push(version);
        versions.sort_by(|a, b| compare(a, b));
        true
    }

    pub(crate) fn has(&self, name: &str, version: &str) -> bool {
        self.orchestrations
            .get(name)
            .is_some_and(|versions| versions.iter().any(|v| v == version))
    }

    pub(crate) fn highest(&self, name: &str) -> Option<&str> {
        self.orchestrations
            .get(name)
            .and_then(|versions| versions.last())
            .map(String::as_str)
    }

    pub(crate) fn add_activity(&mut self, name: String) {
        self.activities.insert(name);
    }

    pub(crate) fn activities(&self) -> Vec<String> {
        self.activities.iter().cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.orchestrations
            .iter()
            .flat_map(|(name, versions)| versions.iter().map(|v| (name.clone(), v.clone())))
            .collect()
    }
}

/// Order of versions: by their numbers from left to right, then as text.
fn compare(a: &str, b: &str) -> Ordering {
    let numbers = |v: &str| -> Vec<u64> { v.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect() };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_is_found_in_any_order_of_registration() {
        let mut registry = Registry::default();
        for version in ["1.10.0", "1.2.0", "1.9.1"] {
            assert!(registry.add("order".into(), version.into()));
        }
        assert!(!registry.add("order".into(), "1.2.0".into()));
        assert_eq!(registry.highest("order"), Some("1.10.0"));
        assert_eq!(registry.highest("other"), None);
        assert!(registry.has("order", "1.9.1") && !registry.has("order", "2.0.0"));
    }
}

//! The orchestrations and activities that a runtime can run.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fmt;

use perdure_provider::{Newest, OPEN_VERSION, compare_versions};

/// Orchestrations by name, each with its versions, and the names of activities.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    orchestrations: BTreeMap<String, Vec<Version>>,
    activities: BTreeSet<String>,
    /// The orchestrations (name and version) and the activities (name) that every thread has, not the first thread
    /// alone.
    orchestrations_of_all: HashSet<(String, String)>,
    activities_of_all: HashSet<String>,
    /// Orchestrations that were registered and not yet compared with the suspended instances, which may wait for their
    /// code.
    unchecked: VecDeque<Registered>,
}

#[derive(Debug)]
struct Version {
    version: String,
    /// Fingerprint of the version's code.
    code: String,
}

/// An orchestration that can be run here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Fingerprint of the orchestration's code.
    pub(crate) code: String,
}

impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "orchestration '{}' version '{}'", self.name, self.version)
    }
}

impl Registry {
    /// Adds an orchestration. Returns `false` if this name and version is already registered.
    pub(crate) fn add(&mut self, new: Registered) -> bool {
        if self.has(&new.name, &new.version) {
            return false;
        }
        self.unchecked.push_back(new.clone());
        let Registered { name, version, code } = new;
        let versions = self.orchestrations.entry(name).or_default();
        versions.push(Version { version, code });
        versions.sort_by(|a, b| compare_versions(&a.version, &b.version));
        true
    }

    pub(crate) fn has(&self, name: &str, version: &str) -> bool {
        self.code(name, version).is_some()
    }

    /// Returns the fingerprint of the code that runs a version.
    pub(crate) fn code(&self, name: &str, version: &str) -> Option<&str> {
        let versions = self.orchestrations.get(name)?;
        let found = versions.iter().find(|v| v.version == version)?;
        Some(&found.code)
    }

    pub(crate) fn highest(&self, name: &str) -> Option<&str> {
        self.orchestrations
            .get(name)
            .and_then(|versions| versions.last())
            .map(|last| last.version.as_str())
    }

    pub(crate) fn add_activity(&mut self, name: String) {
        self.activities.insert(name);
    }

    pub(crate) fn has_activity(&self, name: &str) -> bool {
        self.activities.contains(name)
    }

    /// Notes that every thread has an orchestration.
    pub(crate) fn share(&mut self, name: String, version: String) {
        self.orchestrations_of_all.insert((name, version));
    }

    /// Notes that every thread has an activity.
    pub(crate) fn share_activity(&mut self, name: String) {
        self.activities_of_all.insert(name);
    }

    /// Returns true if every thread can run an orchestration.
    pub(crate) fn all_have(&self, name: &str, version: &str) -> bool {
        // Few orchestrations are registered, so a walk costs less than making the two strings of a key.
        self.orchestrations_of_all
            .iter()
            .any(|(n, v)| n == name && v == version)
    }

    /// Returns true if every thread can run an activity.
    pub(crate) fn all_have_activity(&self, name: &str) -> bool {
        self.activities_of_all.contains(name)
    }

    pub(crate) fn activities(&self) -> Vec<String> {
        self.activities.iter().cloned().collect()
    }

    /// Returns the newest version of each orchestration.
    pub(crate) fn newest(&self) -> Newest {
        let names = self.orchestrations.keys();
        Newest(
            names
                .filter_map(|name| Some((name.clone(), self.highest(name)?.to_owned())))
                .collect(),
        )
    }

    pub(crate) fn has_orchestrations(&self) -> bool {
        !self.orchestrations.is_empty()
    }

    /// Returns the orchestrations whose instances can be acquired: all registered versions, and the open version of
    /// each name.
    pub(crate) fn acquirable(&self) -> Vec<(String, String)> {
        let open = self
            .orchestrations
            .keys()
            .map(|name| (name.clone(), OPEN_VERSION.to_owned()));
        self.all().into_iter().chain(open).collect()
    }

    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.orchestrations
            .iter()
            .flat_map(|(name, versions)| versions.iter().map(|v| (name.clone(), v.version.clone())))
            .collect()
    }

    /// Puts every registered orchestration into `unchecked`: when the runtime starts, all of them are new to the store.
    pub(crate) fn recheck_all(&mut self) {
        self.unchecked.clear();
        for (name, versions) in &self.orchestrations {
            self.unchecked.extend(versions.iter().map(|v| Registered {
                name: name.clone(),
                version: v.version.clone(),
                code: v.code.clone(),
            }));
        }
    }

    /// Returns the oldest registration in `unchecked`. The registration stays until [`checked`](Self::checked), so that
    /// a worker that ends on the way leaves it to the next worker.
    pub(crate) fn next_unchecked(&self) -> Option<Registered> {
        self.unchecked.front().cloned()
    }

    /// Removes the oldest registration from `unchecked`, unless another worker has removed it already.
    pub(crate) fn checked(&mut self, registered: &Registered) {
        if self.unchecked.front() == Some(registered) {
            self.unchecked.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(version: &str) -> Registered {
        Registered {
            name: "order".into(),
            version: version.into(),
            code: format!("code of {version}"),
        }
    }

    #[test]
    fn the_highest_version_is_found_in_any_order_of_registration() {
        let mut registry = Registry::default();
        for version in ["1.10.0", "1.2.0", "1.9.1"] {
            assert!(registry.add(order(version)));
        }
        assert!(!registry.add(order("1.2.0")));
        assert_eq!(registry.highest("order"), Some("1.10.0"));
        assert_eq!(registry.highest("other"), None);
        assert!(registry.has("order", "1.9.1") && !registry.has("order", "2.0.0"));
        assert_eq!(registry.code("order", "1.2.0"), Some("code of 1.2.0"));
    }

    #[test]
    fn a_registration_is_checked_once_and_at_each_start() {
        let mut registry = Registry::default();
        registry.add(order("1.0.0"));
        registry.recheck_all();
        registry.add(order("2.0.0"));
        registry.add(order("2.0.0"));
        for version in ["1.0.0", "2.0.0"] {
            assert_eq!(registry.next_unchecked(), Some(order(version)));
            for _ in 0..2 {
                registry.checked(&order(version));
            }
        }
        assert_eq!(registry.next_unchecked(), None);
        registry.recheck_all();
        assert!(registry.next_unchecked().is_some());
    }
}

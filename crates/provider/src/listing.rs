//! Lists of instances: filters and pages.

use std::collections::{BTreeMap, BTreeSet};

use crate::{InstanceKey, InstanceStatus, Status};

/// Bytes of results and custom statuses after which a page takes no more instances.
pub const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Number of ids up to which a store may look at the ids that begin with a prefix alone, and put them in order itself.
pub const PREFIX_IDS_MAX: usize = 1_000;

/// Returns the first text, in the order of bytes, that comes after all texts which begin with a prefix; `None` if there
/// is no such text.
#[must_use]
pub fn after_prefix(prefix: &str) -> Option<String> {
    let mut kept = prefix.to_owned();
    while let Some(last) = kept.pop() {
        // The order of UTF-8 is that of its characters. The range of `char` skips the code points that are no
        // characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            kept.push(next);
            return Some(kept);
        }
    }
    None
}

/// A filter of instances. It matches an instance if every condition that is present holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The instance has one of these ids; empty: any id.
    pub ids: BTreeSet<String>,
    /// The instance has one of these statuses; empty: any status.
    pub statuses: Vec<Status>,
    /// The instance is of this orchestration.
    pub name: Option<String>,
    /// The instance is of this version of its orchestration now.
    pub version: Option<String>,
    /// The instance has each of these tags.
    pub tags: BTreeMap<String, String>,
    /// The instance has this parent, which need not exist any more.
    pub parent_id: Option<String>,
    /// The id of the instance begins with this text, character by character.
    pub id_prefix: Option<String>,
    /// The instance was started after this time, ms since 1970.
    pub created_after_ms: Option<i64>,
    /// The instance was started before this time, ms since 1970.
    pub created_before_ms: Option<i64>,
    /// The instance has ended before this time, ms since 1970.
    pub completed_before_ms: Option<i64>,
    /// If true, the instance is of a user's orchestration: the name does not begin with [`BUILT_IN`].
    pub hides_built_in: bool,
}

/// The beginning of the names of Perdure's own orchestrations.
const BUILT_IN: &str = "perdure.";

/// The facts of an instance that a filter looks at.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The user's name of the instance.
    pub id: &'a str,
    /// Name of its orchestration.
    pub name: &'a str,
    /// Version of its orchestration.
    pub version: &'a str,
    /// Its status.
    pub status: Status,
    /// Id of the parent instance.
    pub parent_id: Option<&'a str>,
    /// Tags as a JSON object of strings.
    pub tags: Option<&'a str>,
    /// Time of the start, ms since 1970.
    pub created_at_ms: i64,
    /// Time of the end, ms since 1970.
    pub completed_at_ms: Option<i64>,
}

/// The statuses of instances that did not complete and that no worker runs.
pub const UNSUCCESSFUL: [Status; 4] = [Status::Suspended, Status::Failed, Status::Cancelled, Status::Terminated];

/// The smallest set of instances that a store keeps an order of and that contains those of a [`Filter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexedSet<'f> {
    /// Instances with the ids of the filter.
    Ids,
    /// All instances.
    All,
    /// Instances that have not ended.
    Open,
    /// Instances in the statuses of [`UNSUCCESSFUL`].
    Unsuccessful,
    /// Instances with this parent.
    ChildrenOf(&'f str),
}

impl Filter {
    /// Returns the set of instances that contains those of the filter.
    #[must_use]
    pub fn indexed_set(&self) -> IndexedSet<'_> {
        if !self.ids.is_empty() {
            return IndexedSet::Ids;
        }
        if let Some(parent) = &self.parent_id {
            return IndexedSet::ChildrenOf(parent);
        }
        match &self.statuses[..] {
            [] => IndexedSet::All,
            statuses if statuses.iter().all(|status| UNSUCCESSFUL.contains(status)) => IndexedSet::Unsuccessful,
            statuses if statuses.iter().any(|status| status.is_terminal()) => IndexedSet::All,
            _ => IndexedSet::Open,
        }
    }

    /// Returns true if every condition holds. A store may call this for each row that it walks over, or express the
    /// same in its own language.
    #[must_use]
    pub fn matches(&self, candidate: &Candidate<'_>) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        (self.ids.is_empty() || self.ids.contains(candidate.id))
            && (self.statuses.is_empty() || self.statuses.contains(&candidate.status))
            && is(&self.name, candidate.name)
            && is(&self.version, candidate.version)
            && (self.parent_id.is_none() || self.parent_id.as_deref() == candidate.parent_id)
            && candidate.id.starts_with(self.id_prefix.as_deref().unwrap_or_default())
            && self
                .created_after_ms
                .is_none_or(|after| candidate.created_at_ms > after)
            && self
                .created_before_ms
                .is_none_or(|before| candidate.created_at_ms < before)
            && self
                .completed_before_ms
                .is_none_or(|before| candidate.completed_at_ms.is_some_and(|at| at < before))
            && !(self.hides_built_in && candidate.name.starts_with(BUILT_IN))
            && self.has_tags(candidate.tags)
    }

    /// Returns the ids as a JSON list, for stores that take them as one text.
    #[must_use]
    pub fn ids_list(&self) -> String {
        serde_json::to_string(&self.ids).expect("texts are always JSON")
    }

    /// Returns true if the tags hold. [`matches`](Self::matches) checks this last because it costs the most. Tags that
    /// are not a JSON object of strings match nothing.
    #[must_use]
    pub fn has_tags(&self, tags: Option<&str>) -> bool {
        if self.tags.is_empty() {
            return true;
        }
        let found: Option<BTreeMap<String, String>> = tags.and_then(|tags| serde_json::from_str(tags).ok());
        found.is_some_and(|found| self.tags.iter().all(|(name, value)| found.get(name) == Some(value)))
    }
}

/// The place at which a page ended, in an order of a time and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Ms since 1970. In a list: the time of the creation. In a walk over ended instances: the time of the end.
    pub at_ms: i64,
    /// The store's name of the instance, which need not exist any more.
    pub key: InstanceKey,
}

/// A request for a page of a list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// The instances to list.
    pub filter: Filter,
    /// Only instances that come after this place.
    pub after: Option<Place>,
    /// Most instances of the page.
    pub limit: usize,
    /// Most instances to look at, matching or not.
    pub walk_max: usize,
}

impl ListRequest {
    /// Returns the place after which the walk begins: the requested place, or the place after the instances that are
    /// too new.
    #[must_use]
    pub fn first_place(&self) -> Place {
        let newest = Place {
            at_ms: i64::MAX,
            key: InstanceKey(i64::MAX),
        };
        let before = self.filter.created_before_ms.map(|at_ms| Place {
            at_ms,
            key: InstanceKey(i64::MIN),
        });
        [self.after, before].into_iter().flatten().fold(newest, Place::min)
    }
}

/// A page of a list. It may have fewer instances than requested, or none, although others follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The instances, in order.
    pub instances: Vec<InstanceStatus>,
    /// Place after which the next page begins; `None`: no other instance matches.
    pub next: Option<Place>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Candidate<'_> = Candidate {
        id: "order-1",
        name: "order",
        version: "1.0.0",
        status: Status::Completed,
        parent_id: Some("parent"),
        tags: Some(r#"{"team":"a","é\"":"\u0000"}"#),
        created_at_ms: 5,
        completed_at_ms: Some(9),
    };

    fn tags<const N: usize>(tags: [(&str, &str); N]) -> Filter {
        let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Filter {
            tags,
            ..Filter::default()
        }
    }

    #[test]
    fn no_condition_matches_everything() {
        assert!(Filter::default().matches(&ANY));
    }

    #[test]
    fn ids_are_compared_whole() {
        let ids = |ids: &[&str]| Filter {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..Filter::default()
        };
        assert!(ids(&["other", "order-1"]).matches(&ANY));
        assert!(!ids(&["order", "order-10"]).matches(&ANY));
    }

    #[test]
    fn built_in_orchestrations_can_be_hidden() {
        let users = Filter {
            hides_built_in: true,
            ..Filter::default()
        };
        assert!(users.matches(&ANY));
        let built_in = Candidate {
            name: "perdure.lock",
            ..ANY
        };
        assert!(!users.matches(&built_in));
        assert!(Filter::default().matches(&built_in));
    }

    #[test]
    fn tags_are_compared_as_texts() {
        assert!(tags([("team", "a")]).matches(&ANY));
        assert!(tags([("é\"", "\0"), ("team", "a")]).matches(&ANY));
        assert!(!tags([("team", "b")]).matches(&ANY));
        assert!(!tags([("team", "a"), ("absent", "a")]).matches(&ANY));
        for damaged in [None, Some(""), Some("{"), Some(r#"{"team":["a"]}"#)] {
            assert!(!tags([("team", "a")]).matches(&Candidate { tags: damaged, ..ANY }));
        }
    }

    #[test]
    fn the_end_of_a_prefix_follows_all_ids_with_it() {
        let after = |prefix| after_prefix(prefix);
        assert_eq!(after(""), None);
        assert_eq!(after("\u{10FFFF}\u{10FFFF}"), None);
        for (prefix, expected) in [
            ("a", "b"),
            ("order-", "order."),
            ("a\u{7F}", "a\u{80}"),
            ("\u{D7FF}", "\u{E000}"),
            ("aé\u{10FFFF}", "aê"),
            ("\0", "\u{1}"),
        ] {
            assert_eq!(after(prefix).as_deref(), Some(expected), "{prefix:?}");
            for below in [prefix.to_owned(), format!("{prefix}\u{10FFFF}z")] {
                assert!(below.as_str() < expected, "{below:?}");
            }
        }
    }

    #[test]
    fn bounds_of_times_are_outside() {
        let created = |after, before| Filter {
            created_after_ms: after,
            created_before_ms: before,
            ..Filter::default()
        };
        assert!(created(Some(4), Some(6)).matches(&ANY));
        assert!(!created(Some(5), None).matches(&ANY));
        assert!(!created(None, Some(5)).matches(&ANY));
        let completed = |before| Filter {
            completed_before_ms: Some(before),
            ..Filter::default()
        };
        assert!(completed(10).matches(&ANY));
        assert!(!completed(9).matches(&ANY));
        let running = Candidate {
            completed_at_ms: None,
            ..ANY
        };
        assert!(!completed(10).matches(&running));
    }
}

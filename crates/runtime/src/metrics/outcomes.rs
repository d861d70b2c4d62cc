//! Counts of ends by name, result and class of error: of instances by their orchestration, and of attempts by their
//! activity.
//!
//! The names of inline activities and the classes of errors are the user's, so the number of counts is limited: from
//! then on new ones are counted as [`OTHER`].

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::options::{METRIC_LABEL_MAX, METRIC_SERIES_MAX};

/// The name, and the class of error, of ends that are not counted apart.
pub(crate) const OTHER: &str = "other";

/// The number of ends with one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeCount {
    /// Name of the orchestration or activity.
    pub name: String,
    /// The result.
    pub result: &'static str,
    /// Class of the error; empty if there was no error.
    pub error: String,
    /// Number of these ends.
    pub count: u64,
}

/// Counts of one kind of ends.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_name: HashMap<String, BTreeMap<(&'static str, String), u64>>,
    /// Number of counts.
    series: usize,
}

impl Outcomes {
    /// Counts an end.
    pub(crate) fn add(&self, name: &str, result: &'static str, error: String) {
        let mut counts = self.0.lock();
        let key = (result, error);
        if let Some(count) = counts.by_name.get_mut(name).and_then(|of_name| of_name.get_mut(&key)) {
            *count += 1;
            return;
        }
        let (name, (result, error)) = if counts.series < METRIC_SERIES_MAX {
            counts.series += 1;
            (name, key)
        } else {
            let error = if key.1.is_empty() {
                String::new()
            } else {
                OTHER.to_owned()
            };
            (OTHER, (result, error))
        };
        let of_name = counts.by_name.entry(name.to_owned()).or_default();
        *of_name.entry((result, error)).or_default() += 1;
    }

    /// Returns the counts in order of their names.
    pub(crate) fn read(&self) -> Vec<OutcomeCount> {
        let counts = self.0.lock();
        let of_name = |(name, counts): (&String, &BTreeMap<(&'static str, String), u64>)| {
            let count = |((result, error), count): (&(&'static str, String), &u64)| OutcomeCount {
                name: name.clone(),
                result,
                error: error.clone(),
                count: *count,
            };
            counts.iter().map(count).collect::<Vec<_>>()
        };
        let mut all: Vec<OutcomeCount> = counts.by_name.iter().flat_map(of_name).collect();
        drop(counts);
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// Returns the class of a stored error, [`OTHER`] if the text does not tell it: a codec may have encoded the text.
pub(crate) fn error_class(error: Option<&str>) -> String {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let named = error.and_then(|text| serde_json::from_str::<Named>(text).ok());
    let name = named.map(|named| named.name).filter(|name| !name.is_empty());
    name.map_or_else(
        || OTHER.to_owned(),
        |name| name.chars().take(METRIC_LABEL_MAX).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(outcomes: &Outcomes) -> Vec<(String, &'static str, String, u64)> {
        let of = |one: OutcomeCount| (one.name, one.result, one.error, one.count);
        outcomes.read().into_iter().map(of).collect()
    }

    #[test]
    fn ends_are_counted_by_name_result_and_error() {
        let outcomes = Outcomes::default();
        for (name, result, error) in [
            ("b", "failed", "TypeError"),
            ("a", "completed", ""),
            ("b", "failed", "TypeError"),
            ("b", "failed", "Error"),
        ] {
            outcomes.add(name, result, error.into());
        }
        let expected = [
            ("a".to_owned(), "completed", String::new(), 1),
            ("b".to_owned(), "failed", "Error".to_owned(), 1),
            ("b".to_owned(), "failed", "TypeError".to_owned(), 2),
        ];
        assert_eq!(found(&outcomes), expected);
    }

    #[test]
    fn counts_beyond_the_limit_are_counted_together() {
        let outcomes = Outcomes::default();
        for n in 0..METRIC_SERIES_MAX + 5 {
            outcomes.add("a", "failed", format!("Error{n}"));
        }
        outcomes.add("b", "completed", String::new());
        outcomes.add("a", "failed", "Error0".into());
        let found = found(&outcomes);
        assert_eq!(found.len(), METRIC_SERIES_MAX + 2);
        assert!(found.contains(&("a".to_owned(), "failed", "Error0".to_owned(), 2)));
        assert!(found.contains(&(OTHER.to_owned(), "failed", OTHER.to_owned(), 5)));
        assert!(found.contains(&(OTHER.to_owned(), "completed", String::new(), 1)));
    }

    #[test]
    fn the_class_of_an_error_is_its_name() {
        for (text, class) in [
            (Some(r#"{"name":"RangeError","message":"x"}"#), "RangeError"),
            (Some(r#"{"name":"","message":"x"}"#), OTHER),
            (Some("encoded"), OTHER),
            (None, OTHER),
        ] {
            assert_eq!(error_class(text), class);
        }
        let long = format!(r#"{{"name":"{}"}}"#, "é".repeat(METRIC_LABEL_MAX + 1));
        assert_eq!(error_class(Some(&long)).chars().count(), METRIC_LABEL_MAX);
    }
}

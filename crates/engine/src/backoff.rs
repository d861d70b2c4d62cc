//! The growth of the delays between attempts.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Growth of the delay between attempts.
///
/// In JSON, a factor is a number and linear growth is the text `linear`. JSON has neither infinity nor NaN: such a
/// factor is written as `null` and read as infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backoff {
    /// The delay after attempt n is n times the first delay.
    Linear,
    /// Each delay is the one before times this factor.
    Factor(f64),
}

/// The text of [`Backoff::Linear`].
const LINEAR: &str = "linear";

impl Backoff {
    /// Returns the delay in ms after failed attempt number `attempt` (from 1), with neither a maximum nor jitter.
    pub(crate) fn delay_ms(self, initial_ms: f64, attempt: u32) -> f64 {
        match self {
            Self::Linear => initial_ms * f64::from(attempt),
            Self::Factor(factor) => initial_ms * factor.powf(f64::from(attempt.saturating_sub(1))),
        }
    }
}

impl Serialize for Backoff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Linear => serializer.serialize_str(LINEAR),
            Self::Factor(factor) => serializer.serialize_f64(*factor),
        }
    }
}

impl<'de> Deserialize<'de> for Backoff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BackoffVisitor)
    }
}

struct BackoffVisitor;

impl Visitor<'_> for BackoffVisitor {
    type Value = Backoff;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a number or \"{LINEAR}\"")
    }

    fn visit_f64<E: de::Error>(self, factor: f64) -> Result<Backoff, E> {
        Ok(Backoff::Factor(factor))
    }

    fn visit_u64<E: de::Error>(self, factor: u64) -> Result<Backoff, E> {
        Ok(Backoff::Factor(factor as f64))
    }

    fn visit_i64<E: de::Error>(self, factor: i64) -> Result<Backoff, E> {
        Ok(Backoff::Factor(factor as f64))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Backoff, E> {
        Ok(Backoff::Factor(f64::INFINITY))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Backoff, E> {
        if text == LINEAR {
            Ok(Backoff::Linear)
        } else {
            Err(E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Backoff, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn linear_delays_grow_by_the_first_one() {
        let delays = (1..=4).map(|attempt| Backoff::Linear.delay_ms(50.0, attempt));
        assert_eq!(delays.collect::<Vec<_>>(), [50.0, 100.0, 150.0, 200.0]);
    }

    #[test]
    fn delays_grow_by_a_factor() {
        let delays = (1..=4).map(|attempt| Backoff::Factor(3.0).delay_ms(50.0, attempt));
        assert_eq!(delays.collect::<Vec<_>>(), [50.0, 150.0, 450.0, 1_350.0]);
    }

    #[test]
    fn json_is_a_number_or_a_text() {
        for (backoff, json) in [
            (Backoff::Linear, "\"linear\""),
            (Backoff::Factor(1.5), "1.5"),
            (Backoff::Factor(2.0), "2.0"),
            (Backoff::Factor(f64::INFINITY), "null"),
        ] {
            assert_eq!(serde_json::to_string(&backoff).expect("it is JSON"), json);
            assert_eq!(read(json), Ok(backoff));
        }
        assert_eq!(read("2"), Ok(Backoff::Factor(2.0)));
        assert_eq!(read("-1"), Ok(Backoff::Factor(-1.0)));
        let unknown = read("\"square\"").expect_err("there is no such growth");
        assert!(unknown.contains("a number or \"linear\""), "{unknown}");
    }
}

//! Newtypes for the numbers that identify things inside an instance.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Place of an event in the history of one execution, from 1. It also names the operation that the event scheduled.
    EventId
}
number! {
    /// Execution of an instance, from 1; `continueAsNew` starts the next one.
    ExecutionId
}
number! {
    /// Place of a message in the order in which the store accepted messages. The numbers rise over the whole store.
    MessageSeq
}

/// Number that tells one start of an instance from every other start of the same id. It is drawn at random for each
/// start, recorded with the first event and kept over `continueAsNew`. Names that outlive an instance, such as
/// idempotency keys, contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// An incarnation is written as text: JSON readers lose the low bits of large numbers.
impl Serialize for Incarnation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Incarnation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom("its incarnation is no number"))?;
        Ok(Self(number))
    }
}

impl EventId {
    /// The id of `ExecutionStarted`.
    pub const FIRST: Self = Self(1);
}

impl ExecutionId {
    /// The first execution of an instance.
    pub const FIRST: Self = Self(1);
}

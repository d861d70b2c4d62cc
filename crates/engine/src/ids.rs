//! Newtypes for the numbers that identify things inside an instance.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// Place of an event in the history of one execution, from 1. It is also the name of the operation that the event scheduled.
    EventId
}
number! {
    /// Execution of an instance, from 1; `continueAsNew` starts the next one.
    ExecutionId
}
number! {
    /// Place of a message in the order in which the store accepted messages; rises over the whole store.
    MessageSeq
}

impl EventId {
    /// The id of `ExecutionStarted`.
    pub const FIRST: Self = Self(1);
}

impl ExecutionId {
    /// The execution that a start begins with.
    pub const FIRST: Self = Self(1);
}

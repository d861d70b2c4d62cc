//! Starts that look at the start before them: singletons, throttled and debounced starts, and batches (P26).

use perdure_engine::MessageBody;

use crate::{InstanceKey, NewInstance, NewMessage, StartTime, Status};

/// A start, with the key under which the store finds the start before it.
#[derive(Clone, Debug)]
pub struct KeyedStart {
    /// The start. It has no claim and no first turn.
    pub start: NewInstance,
    /// The keys that it may meet: within the rule, those of this name.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The rule that decides about the start if the key has an instance.
    pub rule: StartRule,
    /// The input of a [batch](StartRule::Batch), which is mail for the instance that takes it; of no other rule.
    pub input: Option<MessageBody>,
}

impl KeyedStart {
    /// Returns the message that brings the input of a batch to the instance of this id.
    #[must_use]
    pub fn message(&self, id: String) -> Option<NewMessage> {
        self.input.clone().map(|body| NewMessage {
            instance: id,
            body,
            // The rule limits how many there are.
            unread_max: None,
            time_ms: self.start.first_event.time_ms,
        })
    }

    /// Returns the request to cancel the instance of this id, which the start supersedes.
    #[must_use]
    pub fn cancellation(&self, id: String) -> NewMessage {
        NewMessage {
            instance: id,
            body: MessageBody::Cancel { reason: None },
            unread_max: None,
            time_ms: self.start.first_event.time_ms,
        }
    }
}

/// The rule that decides about a start whose key has an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRule {
    /// Nothing is started while the instance has not ended.
    Skip,
    /// The instance is asked to cancel.
    Cancel,
    /// Nothing is started until so much time has passed since the instance was started, ms.
    Throttle {
        /// The time, ms.
        per_ms: u64,
    },
    /// An instance that is not due yet takes what the start brings, and is due later.
    Debounce {
        /// Time from a start until the instance is due, ms.
        delay_ms: u64,
        /// Most time from the first of these starts until the instance is due, ms; `None`: there is no limit.
        max_ms: Option<u64>,
    },
    /// An instance that is not due yet takes the input as one more of its inputs, and is due with the last of them.
    Batch {
        /// Time from the first of these starts until the instance is due, ms.
        within_ms: u64,
        /// Most inputs of an instance, at least 1.
        max: u32,
    },
}

/// The instance of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// The store's name of the instance.
    pub key: InstanceKey,
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: Status,
    /// True if no worker has acquired it yet, and it is not due.
    pub is_ahead: bool,
    /// When the key got it, by the store's clock, ms since 1970.
    pub since_ms: i64,
    /// Number of its inputs, if it is one of a batch.
    pub inputs: u32,
}

/// The step of a keyed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedStep {
    /// The start makes its instance, which the key has from then on.
    Start,
    /// The start makes its instance, which the key has from then on, and asks the one before to cancel.
    Supersede,
    /// The start changes nothing. The instance of the key stands for it.
    Keep,
    /// The start changes nothing. The client sends it again with the id of the key's instance, which takes what it
    /// brings: its values may have been encoded for the instance that they belong to.
    Readdress,
    /// The instance of the key takes its version, tags, priority, input and time limit, and is due at this time, ms
    /// since 1970.
    Renew {
        /// The due time.
        due_at_ms: i64,
    },
    /// The instance of the key gets the input.
    Join {
        /// True if that is its last one: the instance is due now.
        is_last: bool,
    },
}

impl StartRule {
    /// Returns the name of the rule in the store. Keys of rules of one name are the same.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skip | Self::Cancel => "singleton",
            Self::Throttle { .. } => "throttle",
            Self::Debounce { .. } => "debounce",
            Self::Batch { .. } => "batch",
        }
    }

    /// Returns true if a start may move the due time of the instance that its key has.
    #[must_use]
    pub const fn moves_due_time(self) -> bool {
        matches!(self, Self::Debounce { .. } | Self::Batch { .. })
    }

    /// Returns when the instance of the first start is due; `None`: when its own options say.
    #[must_use]
    pub const fn due(self) -> Option<StartTime> {
        match self {
            Self::Debounce { delay_ms, .. } => Some(StartTime::After(delay_ms)),
            Self::Batch { max: 0..=1, .. } => Some(StartTime::Now),
            Self::Batch { within_ms, .. } => Some(StartTime::After(within_ms)),
            Self::Skip | Self::Cancel | Self::Throttle { .. } => None,
        }
    }

    /// Returns the step of a start with this id.
    #[must_use]
    pub fn step(self, id: &str, holder: Option<&KeyHolder>, now_ms: i64) -> KeyedStep {
        let Some(holder) = holder else {
            return KeyedStep::Start;
        };
        let after = |ms: u64, from_ms: i64| from_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX));
        let is_open = !holder.status.is_terminal();
        match self {
            Self::Skip if is_open => KeyedStep::Keep,
            // A start that is sent again does not cancel its own instance.
            Self::Cancel if is_open && holder.id != id => KeyedStep::Supersede,
            Self::Throttle { per_ms } if after(per_ms, holder.since_ms) > now_ms => KeyedStep::Keep,
            Self::Debounce { .. } if holder.is_ahead && holder.id != id => KeyedStep::Readdress,
            Self::Debounce { delay_ms, max_ms } if holder.is_ahead => KeyedStep::Renew {
                due_at_ms: max_ms
                    .map_or(i64::MAX, |ms| after(ms, holder.since_ms))
                    .min(after(delay_ms, now_ms)),
            },
            Self::Batch { max, .. } if holder.is_ahead && holder.inputs < max => KeyedStep::Join {
                is_last: holder.inputs + 1 >= max,
            },
            _ => KeyedStep::Start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(status: Status, is_ahead: bool) -> KeyHolder {
        KeyHolder {
            key: InstanceKey(1),
            id: "first".into(),
            status,
            is_ahead,
            since_ms: 1_000,
            inputs: 0,
        }
    }

    #[test]
    fn a_singleton_looks_at_an_instance_that_has_not_ended() {
        let (open, ended) = (holder(Status::Running, false), holder(Status::Failed, false));
        for (rule, step) in [
            (StartRule::Skip, KeyedStep::Keep),
            (StartRule::Cancel, KeyedStep::Supersede),
        ] {
            assert_eq!(rule.step("next", Some(&open), 2_000), step);
            assert_eq!(rule.step("next", Some(&ended), 2_000), KeyedStep::Start);
            assert_eq!(rule.step("next", None, 2_000), KeyedStep::Start);
        }
        assert_eq!(StartRule::Cancel.step("first", Some(&open), 2_000), KeyedStep::Start);
    }

    #[test]
    fn a_throttled_start_waits_for_its_time_whatever_became_of_the_one_before() {
        let rule = StartRule::Throttle { per_ms: 500 };
        for status in [Status::Running, Status::Completed] {
            assert_eq!(rule.step("next", Some(&holder(status, false)), 1_499), KeyedStep::Keep);
            assert_eq!(rule.step("next", Some(&holder(status, false)), 1_500), KeyedStep::Start);
        }
        let forever = StartRule::Throttle { per_ms: u64::MAX };
        assert_eq!(
            forever.step("next", Some(&holder(Status::Failed, false)), i64::MAX - 1),
            KeyedStep::Keep
        );
    }

    #[test]
    fn a_debounced_start_moves_an_instance_up_to_a_limit() {
        let of = |max_ms| StartRule::Debounce { delay_ms: 300, max_ms };
        let ahead = holder(Status::Pending, true);
        let renewed = |due_at_ms| KeyedStep::Renew { due_at_ms };
        assert_eq!(of(None).step("next", Some(&ahead), 1_200), KeyedStep::Readdress);
        assert_eq!(of(None).step("first", Some(&ahead), 1_200), renewed(1_500));
        assert_eq!(of(Some(400)).step("first", Some(&ahead), 1_200), renewed(1_400));
        assert_eq!(
            of(None).step("next", Some(&holder(Status::Running, false)), 1_200),
            KeyedStep::Start
        );
    }

    #[test]
    fn a_start_of_a_batch_joins_an_instance_that_is_ahead_and_has_room() {
        let rule = StartRule::Batch { within_ms: 500, max: 3 };
        let of = |inputs, is_ahead| KeyHolder {
            inputs,
            ..holder(Status::Pending, is_ahead)
        };
        let join = |is_last| KeyedStep::Join { is_last };
        for id in ["next", "first"] {
            assert_eq!(rule.step(id, Some(&of(1, true)), 1_200), join(false));
            assert_eq!(rule.step(id, Some(&of(2, true)), 1_200), join(true));
            assert_eq!(rule.step(id, Some(&of(3, true)), 1_200), KeyedStep::Start);
            assert_eq!(rule.step(id, Some(&of(1, false)), 1_200), KeyedStep::Start);
        }
        assert_eq!(rule.due(), Some(StartTime::After(500)));
        let alone = StartRule::Batch { within_ms: 500, max: 1 };
        assert_eq!(alone.due(), Some(StartTime::Now));
    }
}

//! The texts of values in a store, for whoever encodes all of them anew while workers run.

use crate::InstanceKey;

/// A table that holds texts of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextTable {
    /// What waits for instances: payloads.
    Messages,
    /// What activities told of their progress: details.
    Heartbeats,
    /// Custom statuses, and reports of suspensions, which may hold a reason given.
    Instances,
    /// Payloads of events, and what else belongs to the first of an execution, which may hold a custom status.
    History,
}

impl TextTable {
    /// Every table, in the order in which values move from one to the next.
    pub const ALL: [TextTable; 4] = [Self::Messages, Self::Heartbeats, Self::Instances, Self::History];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Heartbeats => "heartbeats",
            Self::Instances => "instances",
            Self::History => "history",
        }
    }

    /// The table of a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.as_str() == text)
    }
}

/// A row of such a table. They are walked in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextRow {
    /// Of the instance.
    pub key: InstanceKey,
    /// Of an event or a heartbeat; else 0.
    pub execution: u64,
    /// Of an event, the schedule of a heartbeat, or a message; else 0.
    pub number: u64,
}

impl TextRow {
    /// Before every other.
    pub const FIRST: Self = Self {
        key: InstanceKey(i64::MIN),
        execution: 0,
        number: 0,
    };
}

/// A request for a page of texts.
#[derive(Clone, Debug)]
pub struct TextRequest {
    /// Of this table.
    pub table: TextTable,
    /// Only of rows after this one.
    pub after: TextRow,
    /// Texts that begin so are not wanted; one character at least. Of [`StoredText::other`] this says nothing.
    pub except: String,
    /// So many characters of each text are enough; `None`: all of it is wanted.
    pub head: Option<usize>,
    /// Look at no more than so many rows, whether they hold a text that is wanted or not.
    pub walk_max: usize,
    /// No more than so many bytes of wanted texts and of what is beside them; the first row always passes.
    pub bytes_max: usize,
}

/// Texts of one row that are wanted, with what says whose values they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredText {
    /// The row.
    pub row: TextRow,
    /// Id of the instance. Rows of instances that were deleted are passed over.
    pub instance: String,
    /// Kind of the event or of the message.
    pub kind: Option<String>,
    /// Name of the event or of the message.
    pub name: Option<String>,
    /// Execution that a message is for.
    pub execution: Option<u64>,
    /// The event that the event or message refers to.
    pub ref_id: Option<u64>,
    /// Where a child has ended: the `meta` of the event that scheduled it.
    pub scheduled: Option<String>,
    /// The payload, the details or the custom status, when it is wanted.
    pub text: Option<String>,
    /// The `meta` of an event, or the report of a suspension.
    pub other: Option<String>,
}

/// A page of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPage {
    /// In order.
    pub texts: Vec<StoredText>,
    /// How many rows were looked at.
    pub walked: usize,
    /// The row to go on after; `None`: that was the last one.
    pub next: Option<TextRow>,
}

/// Which of the texts of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// [`StoredText::text`].
    Text,
    /// [`StoredText::other`].
    Other,
}

/// A text to put in the place of another that says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChange {
    /// Of this table.
    pub table: TextTable,
    /// The row.
    pub row: TextRow,
    /// Which of its texts.
    pub field: TextField,
    /// Fence: the text that was read.
    pub before: String,
    /// What it becomes.
    pub after: String,
}

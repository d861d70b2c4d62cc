//! The texts of values in a store, for a program that encodes all of them anew while workers run.

use crate::InstanceKey;

/// A table that holds texts of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextTable {
    /// Payloads of the messages that wait for instances.
    Messages,
    /// Details of the heartbeats of activities.
    Heartbeats,
    /// Values of the states of instances.
    State,
    /// Answers of asks.
    Asks,
    /// Entries of streams, chunk by chunk.
    StreamChunks,
    /// Custom statuses, and reports of suspensions, which may hold a given reason.
    Instances,
    /// Payloads of events, and the `meta` of the first event of an execution, which may hold a custom status and a
    /// state.
    History,
}

impl TextTable {
    /// Every table, in the order in which values move from one to the next.
    pub const ALL: [TextTable; 7] = [
        Self::Messages,
        Self::Heartbeats,
        Self::State,
        Self::Asks,
        Self::StreamChunks,
        Self::Instances,
        Self::History,
    ];

    /// Returns the table's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Heartbeats => "heartbeats",
            Self::State => "state",
            Self::Asks => "asks",
            Self::StreamChunks => "stream_chunks",
            Self::Instances => "instances",
            Self::History => "history",
        }
    }

    /// Returns the table of a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.as_str() == text)
    }
}

/// A row of such a table. Rows are walked in this order, but chunks of streams by their names before their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextRow {
    /// Key of the instance.
    pub key: InstanceKey,
    /// Execution of an event or a heartbeat; otherwise 0.
    pub execution: u64,
    /// Id of an event, schedule of a heartbeat, number of a message, or first index of a chunk; otherwise 0.
    pub number: u64,
    /// Name of a value of a state or of a stream, or id of an ask; otherwise empty.
    pub name: String,
}

impl TextRow {
    /// The position before every row.
    pub const FIRST: Self = Self::of(InstanceKey(i64::MIN));

    /// Returns the row of an instance itself.
    #[must_use]
    pub const fn of(key: InstanceKey) -> Self {
        Self {
            key,
            execution: 0,
            number: 0,
            name: String::new(),
        }
    }
}

/// A request for a page of texts.
#[derive(Clone, Debug)]
pub struct TextRequest {
    /// The table to read.
    pub table: TextTable,
    /// Only rows after this one.
    pub after: TextRow,
    /// Texts that begin so are left out; at least one character. [`StoredText::other`] is not subject to this.
    pub except: String,
    /// Number of characters of each text that are enough; `None`: the whole text.
    pub head: Option<usize>,
    /// Most rows to look at, with or without a wanted text.
    pub walk_max: usize,
    /// Most bytes of wanted texts and of the facts beside them. The first row always passes.
    pub bytes_max: usize,
}

/// The wanted texts of one row, with the facts that say to which instance, event or message its values belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredText {
    /// The row.
    pub row: TextRow,
    /// Id of the instance. Rows of deleted instances are passed over.
    pub instance: String,
    /// Kind of the event or of the message, or of an answer: `Value` or `Error`.
    pub kind: Option<String>,
    /// Name of the event, of the message, of the value or of the stream.
    pub name: Option<String>,
    /// Execution that a message is for.
    pub execution: Option<u64>,
    /// The event that the event or message refers to.
    pub ref_id: Option<u64>,
    /// The `meta` of the event that scheduled the child, if the event or message is the end of a child.
    pub scheduled: Option<String>,
    /// The payload, the details, the answer, the entries or the custom status, if it is wanted.
    pub text: Option<String>,
    /// The `meta` of an event, or the report of a suspension.
    pub other: Option<String>,
}

/// A page of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPage {
    /// The texts, in order.
    pub texts: Vec<StoredText>,
    /// Number of rows that were looked at.
    pub walked: usize,
    /// The row after which to go on; `None`: that was the last one.
    pub next: Option<TextRow>,
}

/// The text of a row that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// [`StoredText::text`].
    Text,
    /// [`StoredText::other`].
    Other,
}

/// A text to put in the place of another text of the same value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChange {
    /// The table to change.
    pub table: TextTable,
    /// The row.
    pub row: TextRow,
    /// The text of the row to change.
    pub field: TextField,
    /// Fence: the text that was read.
    pub before: String,
    /// The new text.
    pub after: String,
}

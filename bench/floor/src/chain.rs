//! The work itself, the same for every store: `instances` instances of `steps` sequential activities, with the rows
//! that Perdure leaves.
//!
//! An instance is `steps + 2` writes: its start, the turn that schedules the first activity, a turn for each further
//! activity that records the one before and schedules it, and the turn that ends it. Writes go round the instances,
//! `batch` of them to a transaction. With `--rows appended` a turn appends its events and leaves the instance's row
//! alone until the end.

use std::time::Instant;

use crate::Failure;
use crate::arguments::Arguments;

pub(crate) const WORKER: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
pub(crate) const TIME_MS: i64 = 1_763_000_000_000;
const STARTED_META: &str = r#"{"version":"1.0.0","seed":"12345678901234567890"}"#;

pub(crate) struct Chain {
    pub(crate) instances: i64,
    pub(crate) steps: i64,
    pub(crate) batch: i64,
    /// True if a turn in the middle writes the instance's row.
    pub(crate) updates: bool,
}

/// A row of `history`, without the instance that it belongs to.
pub(crate) struct Event {
    pub(crate) id: i64,
    pub(crate) time: i64,
    pub(crate) kind: &'static str,
    pub(crate) ref_id: Option<i64>,
    pub(crate) name: Option<&'static str>,
    pub(crate) payload: String,
    pub(crate) meta: Option<&'static str>,
}

/// The changes of a turn.
pub(crate) struct Turn {
    pub(crate) number: i64,
    pub(crate) time: i64,
    pub(crate) next_event: i64,
    pub(crate) ends: bool,
    /// The completion of the step before. The first turn has none.
    pub(crate) completed: Option<Event>,
    pub(crate) then: Event,
}

impl Chain {
    pub(crate) fn of(arguments: &Arguments) -> Result<Self, Failure> {
        Ok(Self {
            instances: arguments.number("instances", None)?,
            steps: arguments.number("steps", None)?,
            batch: arguments.number("batch", Some(64))?,
            updates: arguments.word("rows", "all") == "all",
        })
    }

    /// The orchestration's name, as long as Perdure's.
    pub(crate) fn name(&self) -> &'static str {
        if self.steps == 1 { "hello" } else { "chain" }
    }

    pub(crate) fn started(&self) -> Event {
        Event {
            id: 1,
            time: TIME_MS,
            kind: "ExecutionStarted",
            ref_id: None,
            name: Some(self.name()),
            payload: self.steps.to_string(),
            meta: Some(STARTED_META),
        }
    }

    /// Turn 1 schedules the first activity, which is event 2. Turn `n` records the activity of turn `n - 1`.
    pub(crate) fn turn(&self, number: i64) -> Turn {
        let ends = number > self.steps;
        let time = TIME_MS + number;
        let done = (number - 1).to_string();
        let event = |id, kind, ref_id, name, payload| Event {
            id,
            time,
            kind,
            ref_id,
            name,
            payload,
            meta: None,
        };
        let id = 2 * number;
        let completed = (number > 1).then(|| event(id - 1, "ActivityCompleted", Some(id - 2), None, done.clone()));
        let then = if ends {
            event(id, "ExecutionCompleted", None, None, done)
        } else {
            event(id, "ActivityScheduled", None, Some("next"), done)
        };
        Turn {
            number,
            time,
            next_event: id + 1,
            ends,
            completed,
            then,
        }
    }
}

/// Calls `write` once for the warm-up and then `--repeat` times, with a prefix for ids.
pub(crate) fn timed(
    arguments: &Arguments,
    mut write: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<String, Failure> {
    if arguments.number("warm", Some(0))? != 0 {
        write("warm")?;
    }
    let mut seconds = Vec::new();
    for n in 0..arguments.number("repeat", Some(1))? {
        let began = Instant::now();
        write(&format!("run{n}"))?;
        seconds.push(began.elapsed().as_secs_f64().to_string());
    }
    Ok(format!(r#"{{"seconds":[{}]}}"#, seconds.join(",")))
}

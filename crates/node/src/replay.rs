//! `NativeReplay`: the engine of one execution that has a history and nothing else.
//!
//! Its calls are those of a turn on [`NativeLane`](crate::lane::NativeLane), so that the same driver makes them. It has
//! no runtime and no store: the commands of the code are compared with history, and at the end of history there is
//! nothing more to deliver.

use napi::bindgen_prelude::Float64Array;
use napi_derive::napi;
use perdure_engine::{
    Budget, Engine, Event, EventId, EventKind, EventRecord, ExecutionId, ExecutionStarted, Fault, Start, StateChange,
    Step,
};
use perdure_runtime::{Delivered, Facts, RuntimeError, mismatch_error};
use serde::Deserialize;
use serde_json::Value;

use crate::command::{self, AwaitedArguments};
use crate::errors::{argument, thrown};
use crate::frame::Frame;
use crate::job::{delivery, description};

/// One event of an export, as `js/client/history.ts` writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportedEvent {
    event_id: u64,
    time_ms: i64,
    kind: String,
    ref_id: Option<u64>,
    name: Option<String>,
    payload: Option<String>,
    meta: Option<Value>,
}

impl ExportedEvent {
    fn into_record(self) -> Result<EventRecord, String> {
        let kind = EventKind::parse(&self.kind)
            .ok_or_else(|| format!("event {} is of the unknown kind '{}'", self.event_id, self.kind))?;
        Ok(EventRecord {
            event_id: EventId(self.event_id),
            time_ms: self.time_ms,
            kind,
            ref_id: self.ref_id.map(EventId),
            name: self.name,
            payload: self.payload,
            meta: self.meta.map(|meta| meta.to_string()),
        })
    }
}

/// The engine of one execution, for its replay. It takes the code through all of the history in one turn.
#[napi]
pub struct NativeReplay {
    engine: Engine,
    facts: Facts,
    frame: Frame,
}

#[napi]
impl NativeReplay {
    /// Creates the replay. `events` is JSON of all exported events; `numbers` is the array of the [frame](Frame).
    #[napi(constructor)]
    pub fn new(instance_id: String, execution: f64, events: String, numbers: Float64Array) -> napi::Result<Self> {
        let frame = Frame::new(numbers)?;
        let execution = ExecutionId(execution as u64);
        let (engine, facts) = open(instance_id, execution, &events).map_err(argument)?;
        Ok(Self { engine, facts, frame })
    }

    /// Appends events that were written since. `events` is JSON as for [`new`](Self::new). Returns false if the code
    /// has gone beyond the history that it had: it must be taken through all of it again.
    #[napi]
    pub fn extend(&mut self, events: String) -> napi::Result<bool> {
        if !self.engine.is_replaying() {
            return Ok(false);
        }
        let page = records(&events).map_err(argument)?;
        self.engine
            .extend_history(page, true)
            .map_err(|e| argument(e.to_string()))?;
        Ok(true)
    }

    /// Returns the description from which the generator is made. Here and below `_instance` exists so that the calls
    /// are those of a lane, which has many instances.
    #[napi]
    pub fn describe(&self, _instance: u32) -> napi::Result<String> {
        description(self.facts.clone(), &self.frame).map_err(|e| thrown(&e))
    }

    /// See `NativeLane`. The version of a start that names none stays empty: it is not compared with the recorded one.
    #[napi]
    pub fn issue(&mut self, _instance: u32, text: String) -> napi::Result<f64> {
        let command = command::command(&self.frame, text, |_| String::new())?;
        let id = self.engine.issue(command).map_err(refused)?;
        self.frame.set_kind(u32::from(self.engine.succeeds_next(id)));
        Ok(id.0 as f64)
    }

    /// See `NativeLane`.
    #[napi]
    pub fn grace_timer(&mut self, _instance: u32, delay_ms: Option<f64>) -> napi::Result<Option<f64>> {
        let timer = self
            .engine
            .grace_timer(delay_ms.map(command::whole_ms))
            .map_err(refused)?;
        Ok(timer.map(|id| id.0 as f64))
    }

    /// See `NativeLane`.
    #[napi]
    pub fn interrupt(&mut self, _instance: u32) -> napi::Result<Option<String>> {
        let Some((next, time_ms)) = self.engine.interrupt(0) else {
            return Ok(None);
        };
        let delivered = Delivered {
            delivery: next,
            time_ms,
        };
        delivery(delivered, &self.frame).map(Some).map_err(|e| thrown(&e))
    }

    /// See `NativeLane`. Nothing is recorded here.
    #[napi]
    pub fn of_fiber(&self, _instance: u32, _fiber: u32) {}

    /// See `NativeLane`.
    #[napi]
    pub fn set_polled(&mut self, _instance: u32, kind: f64, name: String, is_polled: bool) -> napi::Result<()> {
        self.engine.set_polled(command::mailbox(kind, name)?, is_polled);
        Ok(())
    }

    /// See `NativeLane`. History offers no ask: it holds those that were accepted.
    #[napi]
    pub fn accept_ask(&mut self, _instance: u32) -> napi::Result<f64> {
        self.engine.accept_ask(0).map_err(refused)?;
        Ok(self.engine.time_ms() as f64)
    }

    /// See `NativeLane`.
    #[napi]
    pub fn refuse_ask(&mut self, _instance: u32, ask: String, error: String) {
        self.engine.refuse_ask(ask, Some(error));
    }

    /// See `NativeLane`. The answer is dropped.
    #[napi]
    pub fn answer_ask(&mut self, _instance: u32, ask: String, is_error: bool, text: Option<String>) {
        self.engine.answer_ask(ask, command::answer(is_error, text));
    }

    /// See `NativeLane`.
    #[napi]
    pub fn close_asks(&mut self, _instance: u32) {
        self.engine.close_asks();
    }

    /// Returns the next delivery of history; `null`: history ends here.
    #[napi]
    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments are those of the same call of a lane"
    )]
    pub fn next(
        &mut self,
        _instance: u32,
        events: Option<Vec<String>>,
        queues: Option<Vec<String>>,
        operations: Option<Vec<f64>>,
        events_gone: Option<Vec<String>>,
        queues_gone: Option<Vec<String>>,
        operations_gone: Option<Vec<f64>>,
    ) -> napi::Result<Option<String>> {
        let more = AwaitedArguments {
            events,
            queues,
            operations,
        };
        let gone = AwaitedArguments {
            events: events_gone,
            queues: queues_gone,
            operations: operations_gone,
        };
        let waits = command::waits(more, gone);
        match self.engine.next_recorded(waits).map_err(refused)? {
            Some(Step::Deliver {
                delivery: next,
                time_ms,
            }) => {
                let delivered = Delivered {
                    delivery: next,
                    time_ms,
                };
                Ok(Some(delivery(delivered, &self.frame).map_err(|e| thrown(&e))?))
            }
            Some(Step::Wait) | None => {
                // A replay has no store in which its instance could sleep.
                self.frame.set_kind(0);
                Ok(None)
            }
            Some(Step::Budget | Step::NeedHistory) => {
                unreachable!("the history is complete, and the budget without an end")
            }
        }
    }

    /// See `NativeLane`.
    #[napi]
    pub fn finish(&mut self, _instance: u32, text: String) -> napi::Result<()> {
        let outcome = command::outcome(&self.frame, text)?;
        self.engine.finish(outcome).map_err(refused)
    }

    /// Returns the mismatch that was found, as JSON of the error with which an instance is suspended; `null`: there was
    /// none.
    #[napi]
    pub fn mismatch(&self, source: String) -> Option<String> {
        let Some(Fault::Mismatch(mismatch)) = self.engine.fault() else {
            return None;
        };
        Some(mismatch_error(mismatch, &source))
    }

    /// See `NativeLane`.
    #[napi]
    pub fn is_replaying(&self, _instance: u32) -> bool {
        self.engine.is_replaying()
    }

    /// See `NativeLane`.
    #[napi]
    pub fn history_length(&self, _instance: u32) -> f64 {
        self.engine.history_length() as f64
    }

    /// Does nothing: a replay is silent.
    #[napi]
    pub fn trace(
        &self,
        _instance: u32,
        _level: String,
        _message: String,
        _of_instance: Option<String>,
        _own: Option<String>,
    ) {
    }

    /// See `NativeLane`.
    #[napi]
    pub fn set_custom_status(&mut self, _instance: u32, text: Option<String>) {
        self.engine.set_custom_status(text);
    }

    /// See `NativeLane`.
    #[napi]
    pub fn write_stream(
        &mut self,
        _instance: u32,
        stream: String,
        entry: Option<String>,
        entries_max: Option<f64>,
        retain_ms: Option<f64>,
    ) -> bool {
        self.engine
            .write_stream(&stream, command::keep(entries_max, retain_ms), &entry)
    }

    /// See `NativeLane`.
    #[napi]
    pub fn close_stream(&mut self, _instance: u32, stream: String) {
        self.engine.close_stream(&stream);
    }

    /// See `NativeLane`.
    #[napi]
    pub fn set_state(&mut self, _instance: u32, name: String, value: Option<String>) {
        self.engine.change_state(&StateChange::Set { name, value });
    }

    /// See `NativeLane`.
    #[napi]
    pub fn delete_state(&mut self, _instance: u32, name: String) {
        self.engine.change_state(&StateChange::Deleted { name });
    }

    /// See `NativeLane`.
    #[napi]
    pub fn random(&mut self, _instance: u32) -> f64 {
        self.engine.random()
    }

    /// See `NativeLane`.
    #[napi]
    pub fn random_uuid(&mut self, _instance: u32) -> String {
        self.engine.random_uuid()
    }

    /// See `NativeLane`.
    #[napi]
    pub fn recorded_payload(&self, _instance: u32) -> Option<String> {
        self.engine.recorded_payload()
    }

    /// See `NativeLane`.
    #[napi]
    pub fn next_command_id(&self, _instance: u32) -> f64 {
        self.engine.next_command_id().0 as f64
    }

    /// See `NativeLane`.
    #[napi]
    pub fn is_cancelling(&self, _instance: u32) -> bool {
        self.engine.is_cancelling()
    }

    /// See `NativeLane`.
    #[napi]
    pub fn patched(&mut self, _instance: u32, patch: String) -> bool {
        self.engine.patched(&patch)
    }

    /// See `NativeLane`. Past the history the number is 0, and not that of any execution.
    #[napi]
    pub fn drawn(&mut self, _instance: u32, name: String) -> Option<String> {
        self.engine.drawn(&name, || format!("{:032x}", 0))
    }
}

fn records(events: &str) -> Result<Vec<EventRecord>, String> {
    let events: Vec<ExportedEvent> = serde_json::from_str(events).map_err(|e| e.to_string())?;
    events.into_iter().map(ExportedEvent::into_record).collect()
}

/// Returns the engine at the beginning of the execution, or the problem of its history.
fn open(instance_id: String, execution: ExecutionId, events: &str) -> Result<(Engine, Facts), String> {
    let history = records(events)?;
    let first = history.first().cloned().map(EventRecord::into_event);
    let start = Start {
        execution,
        history,
        complete: true,
        fresh: false,
        budget: Budget {
            replayed: u32::MAX,
            ..Budget::default()
        },
    };
    let engine = Engine::new(start).map_err(|e| e.to_string())?;
    let parent_id = match first {
        Some(Ok(Event::Started(ExecutionStarted {
            parent: Some(parent), ..
        }))) => Some(parent.instance),
        _ => None,
    };
    let facts = Facts {
        instance_id,
        execution: execution.0,
        name: engine.name().to_owned(),
        version: engine.version().to_owned(),
        input: engine.input().clone(),
        parent_id,
        custom_status: engine.custom_status().clone(),
        state: engine.state().clone(),
        time_ms: engine.time_ms(),
        trace: engine.trace().map(str::to_owned),
    };
    Ok((engine, facts))
}

fn refused(fault: Fault) -> napi::Error {
    thrown(&RuntimeError::from(fault))
}

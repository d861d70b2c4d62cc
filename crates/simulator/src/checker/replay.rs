//! A replay of a history by the code of its program, in an engine of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use perdure_engine::{
    Answer, Budget, Command, Engine, Event, EventId, EventRecord, ExecutionId, ExecutionStarted, Mailbox, Payload,
    Start, StateChange, StateValues, Step, StreamKeep,
};
use perdure_runtime::RuntimeError;

use crate::code::{Code, Edition, ExecutionFacts, program_of};
use crate::entries::Entries;
use crate::fibers::{Calls, Rules, Stop};
use crate::program::Program;

/// The result of a replay.
pub(super) struct Replayed {
    /// The operations that the code waits for, unless it has ended.
    pub(super) waits: Option<String>,
    /// The rules that the execution has, unless they have made no difference.
    pub(super) rules: Option<Rules>,
    /// The state that the execution leaves.
    pub(super) state: StateValues,
    /// The entries that the code writes to streams.
    pub(super) entries: Entries,
}

/// Runs the code of an execution against its history, in an engine of its own.
pub(super) fn replay(
    programs: &[Program],
    instance: &str,
    execution: ExecutionId,
    history: &[EventRecord],
) -> Result<Replayed, String> {
    let Some(Ok(Event::Started(ExecutionStarted { name, input, .. }))) =
        history.first().map(|event| event.clone().into_event())
    else {
        return Err("its first event is none".into());
    };
    let start = Start {
        execution,
        history: history.to_vec(),
        complete: true,
        fresh: false,
        budget: Budget::default(),
    };
    let engine = Engine::new(start).map_err(|error| error.to_string())?;
    let calls = Rc::new(OnEngine::new(engine));
    let facts = ExecutionFacts {
        instance: instance.to_owned(),
        programs: Arc::new(programs.to_vec()),
        program: program_of(&name),
        edition: Edition::New,
        so_far: input.and_then(|input| input.parse().ok()).unwrap_or(0),
        round: u32::try_from(execution.0).expect("few executions"),
    };
    let code = Code::new(facts, calls.clone());
    loop {
        match code.run() {
            Err(Stop::Refused(error)) => return Err(error.to_string()),
            Err(stop) => return Err(format!("{stop:?}")),
            Ok(Some(end)) => {
                let finished = calls.engine.borrow_mut().finish(end);
                let replayed = calls.replayed(&code, None);
                return finished.map(|()| replayed).map_err(|fault| fault.to_string());
            }
            Ok(None) => {}
        }
        let now_ms = calls.time_ms.get();
        let step = calls
            .engine
            .borrow_mut()
            .next(code.awaited(), now_ms)
            .map_err(|fault| fault.to_string())?;
        match step {
            Step::Deliver { delivery, time_ms } => {
                calls.time_ms.set(time_ms);
                code.deliver(delivery).map_err(|stop| format!("{stop:?}"))?;
            }
            Step::Budget => drop(calls.engine.borrow_mut().end_turn()),
            // The instance was terminated, or is suspended.
            Step::Wait => return Ok(calls.replayed(&code, Some(code.pending()))),
            Step::NeedHistory => return Err("it asks for more history than there is".into()),
        }
    }
}

/// The calls of user code, answered by an engine of its own.
pub(crate) struct OnEngine {
    pub(crate) engine: RefCell<Engine>,
    time_ms: Cell<i64>,
    entries: RefCell<Entries>,
}

impl OnEngine {
    pub(crate) const fn new(engine: Engine) -> Self {
        Self {
            time_ms: Cell::new(engine.time_ms()),
            engine: RefCell::new(engine),
            entries: RefCell::new(Entries::new()),
        }
    }

    fn replayed(&self, code: &Code, waits: Option<String>) -> Replayed {
        Replayed {
            waits,
            rules: code.rules(),
            state: self.engine.borrow().state().clone(),
            entries: self.entries.take(),
        }
    }
}

impl Calls for OnEngine {
    fn issue(&self, command: Command) -> Result<EventId, RuntimeError> {
        self.engine.borrow_mut().issue(command).map_err(RuntimeError::from)
    }

    fn is_replaying(&self) -> Result<bool, RuntimeError> {
        Ok(self.engine.borrow().is_replaying())
    }

    fn set_polled(&self, mailbox: Mailbox, is_polled: bool) -> Result<(), RuntimeError> {
        self.engine.borrow_mut().set_polled(mailbox, is_polled);
        Ok(())
    }

    fn accept_ask(&self) -> Result<(), RuntimeError> {
        let accepted = self.engine.borrow_mut().accept_ask(self.time_ms.get());
        accepted.map(drop).map_err(RuntimeError::from)
    }

    fn refuse_ask(&self, ask: String, error: Payload) -> Result<(), RuntimeError> {
        self.engine.borrow_mut().refuse_ask(ask, error);
        Ok(())
    }

    fn answer_ask(&self, ask: String, answer: Answer) -> Result<(), RuntimeError> {
        self.engine.borrow_mut().answer_ask(ask, answer);
        Ok(())
    }

    fn patched(&self, patch: &str) -> Result<bool, RuntimeError> {
        Ok(self.engine.borrow_mut().patched(patch))
    }

    fn random(&self) -> Result<f64, RuntimeError> {
        Ok(self.engine.borrow_mut().random())
    }

    fn random_uuid(&self) -> Result<String, RuntimeError> {
        Ok(self.engine.borrow_mut().random_uuid())
    }

    fn time_ms(&self) -> i64 {
        self.time_ms.get()
    }

    fn set_status(&self, value: Payload) -> Result<(), RuntimeError> {
        self.engine.borrow_mut().set_custom_status(value);
        Ok(())
    }

    fn change_state(&self, change: &StateChange) -> Result<(), RuntimeError> {
        self.engine.borrow_mut().change_state(change);
        Ok(())
    }

    fn write_stream(&self, stream: &str, entry: &Payload) -> Result<bool, RuntimeError> {
        let is_open = self
            .engine
            .borrow_mut()
            .write_stream(stream, StreamKeep::default(), entry);
        if is_open {
            let mut entries = self.entries.borrow_mut();
            let written = entries.entry(stream.to_owned()).or_default();
            written.push(entry.clone().unwrap_or_default());
        }
        Ok(is_open)
    }

    fn trace(&self, _line: String) -> Result<(), RuntimeError> {
        Ok(())
    }
}

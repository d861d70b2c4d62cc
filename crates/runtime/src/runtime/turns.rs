//! The calls of code that runs in a turn. Calls find the instance through the map of turns.

use perdure_engine::{
    Answer, Command, EventId, Mailbox, Outcome, Payload, StateValues, StreamKeep, TraceContext, Waits,
};

use crate::error::RuntimeError;
use crate::runtime::Runtime;
use crate::state::Token;
use crate::turn::in_progress::Turn;
use crate::turn::{self, Delivered, Issued};

/// The facts that the host needs about an instance to make its generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Id of the instance.
    pub instance_id: String,
    /// Number of its execution.
    pub execution: u64,
    /// Name of the orchestration.
    pub name: String,
    /// Version of the orchestration.
    pub version: String,
    /// Input of the execution.
    pub input: Payload,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Custom status that the execution begins with.
    pub custom_status: Payload,
    /// State that the execution begins with.
    pub state: StateValues,
    /// Deterministic time at the start, ms since 1970.
    pub time_ms: i64,
    /// Trace context of the start.
    pub trace: TraceContext,
}

impl Runtime {
    pub(super) fn turn(&self, token: Token) -> Result<Turn, RuntimeError> {
        turn::in_progress(self.turns.get(token))
    }

    /// Returns the facts that the host needs to make an instance's generator.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] when the instance has no turn in progress.
    pub fn describe(&self, token: Token) -> Result<Facts, RuntimeError> {
        let Turn { instance, .. } = self.turn(token)?;
        let core = instance.lock();
        let engine = core
            .engine
            .as_ref()
            .ok_or(RuntimeError::State("the instance is being loaded"))?;
        Ok(Facts {
            instance_id: instance.id.clone(),
            execution: instance.execution.0,
            name: instance.name.clone(),
            version: instance.version.clone(),
            input: engine.input().clone(),
            parent_id: instance.parent_id.clone(),
            custom_status: engine.custom_status().clone(),
            state: engine.state().clone(),
            time_ms: engine.time_ms(),
            trace: engine.trace().map(str::to_owned),
        })
    }

    /// Issues a command of the code. Returns the id of the operation.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Nondeterminism`] when history holds something else; [`RuntimeError::Limit`] when it would grow
    /// too much; [`RuntimeError::State`] outside a turn.
    pub fn issue(&self, token: Token, command: Command) -> Result<Issued, RuntimeError> {
        turn::issue(&self.turn(token)?, command)
    }

    /// Names the fiber of the last event that was issued or delivered, for readers of the history.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn of_fiber(&self, token: Token, fiber: u32) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.set_fiber(fiber))
    }

    /// Returns what the code is handed next, once all its fibers wait. `None`: there is nothing, and the turn is to be
    /// ended by [`rest`](Self::rest).
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Nondeterminism`] when history went on differently; [`RuntimeError::Limit`] when it would grow
    /// too much; [`RuntimeError::State`] outside a turn.
    pub fn next(&self, token: Token, waits: impl Into<Waits>) -> Result<Option<Delivered>, RuntimeError> {
        turn::next(&self.turn(token)?, waits.into())
    }

    /// Accepts the ask that was delivered last. Returns the deterministic time from here on, ms since 1970.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Limit`] when the history would grow too much; [`RuntimeError::State`] outside a turn.
    pub fn accept_ask(&self, token: Token) -> Result<i64, RuntimeError> {
        let turn = self.turn(token)?;
        let now_ms = turn.instances.now_ms();
        turn.with_engine(|engine| {
            engine.accept_ask(now_ms)?;
            Ok(engine.time_ms())
        })?
    }

    /// Refuses the ask that was delivered last, with an error as its answer.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn refuse_ask(&self, token: Token, ask: String, error: Payload) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.refuse_ask(ask, error))
    }

    /// Answers an accepted ask. The answer is stored with the turn, unless the code is replaying.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn answer_ask(&self, token: Token, ask: String, answer: Answer) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.answer_ask(ask, answer))
    }

    /// Takes no more asks: the code is about to end.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn close_asks(&self, token: Token) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(perdure_engine::Engine::close_asks)
    }

    /// Ends a turn whose code waits. The turn is on its way to the store. `fibers` is JSON that says what the fibers
    /// wait for, for people ([`Engine::open_work`](perdure_engine::Engine::open_work)). Returns true if the instance is
    /// released with the turn, and sleeps in the store from then on.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn rest(&self, token: Token, fibers: Option<&str>) -> Result<bool, RuntimeError> {
        let turn = self.turn(token)?;
        self.turn_over(&turn);
        Ok(turn::end(turn, fibers))
    }

    /// Returns a request to cancel, if one has come. The host calls this before the first step of an execution, and
    /// after many commands without a wait, so that code that never waits hears of the request.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn interrupt(&self, token: Token) -> Result<Option<Delivered>, RuntimeError> {
        turn::interrupt(&self.turn(token)?)
    }

    /// Finishes the execution, whose code has ended. The turn is over and on its way to the store.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Nondeterminism`] when history goes on; [`RuntimeError::State`] outside a turn.
    pub fn finish(&self, token: Token, outcome: Outcome) -> Result<(), RuntimeError> {
        let turn = self.turn(token)?;
        turn::finish(&turn, outcome)?;
        self.turn_over(&turn);
        turn::end(turn, None);
        Ok(())
    }

    /// Suspends an instance whose code does not fit its history, or cannot be run. The turn ends, and nothing of it is
    /// stored. `source` is the place in the code where that showed. `report` is the reason, as JSON of an error, unless
    /// the reason is a mismatch.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn suspend(&self, token: Token, source: &str, report: Option<&str>) -> Result<(), RuntimeError> {
        let turn = self.turn(token)?;
        self.turn_over(&turn);
        turn::suspend(turn, source, report);
        Ok(())
    }

    /// Writes an entry to a stream. It is stored with the turn, unless the code is replaying. Returns false, and writes
    /// nothing, if the stream is closed.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn write_stream(
        &self,
        token: Token,
        stream: &str,
        keep: StreamKeep,
        entry: &Payload,
    ) -> Result<bool, RuntimeError> {
        let turn = self.turn(token)?;
        turn.with_engine(|engine| engine.write_stream(stream, keep, entry))
    }

    /// Closes a stream. Does nothing if it is closed.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn close_stream(&self, token: Token, stream: &str) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.close_stream(stream))
    }

    /// Returns the number of events recorded up to this point of the code.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn history_length(&self, token: Token) -> Result<u64, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.history_length())
    }

    /// Returns a deterministic number in 0..1.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn random(&self, token: Token) -> Result<f64, RuntimeError> {
        self.turn(token)?.with_engine(perdure_engine::Engine::random)
    }

    /// Returns a deterministic version 4 UUID.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn random_uuid(&self, token: Token) -> Result<String, RuntimeError> {
        self.turn(token)?.with_engine(perdure_engine::Engine::random_uuid)
    }

    /// Returns the value that history holds for the next command of the code, if any.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn recorded_payload(&self, token: Token) -> Result<Payload, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.recorded_payload())
    }

    /// Returns the id of the event that the next command of the code, or its end, has or will have in history.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn next_command_id(&self, token: Token) -> Result<EventId, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.next_command_id())
    }

    /// Returns true if the instance was asked to cancel, which lets it exceed its limits.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn is_cancelling(&self, token: Token) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.is_cancelling())
    }

    /// Returns true if the execution has a patch of its code. The patch is recorded when the execution gets it.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn patched(&self, token: Token, patch: &str) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.patched(patch))
    }

    /// Returns the number of 128 bits, in hexadecimal, that the execution has drawn under a name. See
    /// [`Engine::drawn`](perdure_engine::Engine::drawn).
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn drawn(&self, token: Token, name: &str) -> Result<Option<String>, RuntimeError> {
        let machine = &self.shared.store.machine;
        let draw = || format!("{:032x}", machine.random());
        self.turn(token)?.with_engine(|engine| engine.drawn(name, draw))
    }

    /// Notes that the code polls a mailbox that it waits for, or polls it no longer. See
    /// [`Engine::set_polled`](perdure_engine::Engine::set_polled).
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn set_polled(&self, token: Token, mailbox: Mailbox, is_polled: bool) -> Result<(), RuntimeError> {
        self.turn(token)?
            .with_engine(|engine| engine.set_polled(mailbox, is_polled))
    }

    /// Starts a timer that limits how long the execution may go on once it is cancelled. Returns the timer's id, or
    /// `None` if there is no limit. See [`Engine::grace_timer`](perdure_engine::Engine::grace_timer).
    ///
    /// # Errors
    ///
    /// Those of [`issue`](Self::issue).
    pub fn grace_timer(&self, token: Token, delay_ms: Option<i64>) -> Result<Option<EventId>, RuntimeError> {
        self.turn(token)?
            .with_engine(|engine| engine.grace_timer(delay_ms))?
            .map_err(RuntimeError::from)
    }
}

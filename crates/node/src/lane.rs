//! `NativeLane`: a lane of a runtime, for its thread.

use std::rc::Rc;
use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::{Float64Array, Function, FunctionCallContext, JsObjectValue, Object, ToNapiValue};
use napi_derive::napi;
use perdure_engine::{StateChange, Waits};
use perdure_runtime::{ActivityToken, Failure, LaneId, Level, LineFields, Runtime, Token};

use crate::command::{self, AwaitedArguments};
use crate::errors::{argument, thrown};
use crate::frame::{Frame, checked};
use crate::host::ThisThread;
use crate::job::{delivery, description, job};
use crate::process;

/// Converts a token. Tokens cross as numbers, which hold them exactly up to 2^53.
fn token(number: f64) -> Token {
    Token(number as u64)
}

fn activity_token(number: f64) -> ActivityToken {
    ActivityToken(number as u64)
}

/// A lane of a runtime.
#[napi]
pub struct NativeLane(Rc<Lane>);

/// State that the calls of a lane share.
struct Lane {
    inner: Arc<Runtime>,
    lane: LaneId,
    frame: Frame,
}

impl Lane {
    fn next_job(&self, looks_again: bool) -> napi::Result<Option<String>> {
        let next = self.inner.next_job(self.lane, looks_again);
        let text = next.map(|next| job(next, &self.frame)).transpose();
        text.map_err(|e| thrown(&e))
    }

    fn describe(&self, instance: f64) -> napi::Result<String> {
        let facts = self.inner.describe(token(instance)).map_err(|e| thrown(&e))?;
        description(facts, &self.frame).map_err(|e| thrown(&e))
    }

    fn issue(&self, instance: f64, text: String) -> napi::Result<f64> {
        let command = command::command(&self.frame, text, |name| self.inner.version_to_start(name))?;
        let issued = self.inner.issue(token(instance), command).map_err(|e| thrown(&e))?;
        self.frame.set_kind(u32::from(issued.succeeds_next));
        Ok(issued.id.0 as f64)
    }

    fn next(&self, instance: f64, waits: Waits) -> napi::Result<Option<String>> {
        let next = self.inner.next(token(instance), waits).map_err(|e| thrown(&e))?;
        let text = next.map(|delivered| delivery(delivered, &self.frame)).transpose();
        text.map_err(|e| thrown(&e))
    }

    fn finish(&self, instance: f64, text: String) -> napi::Result<()> {
        let outcome = command::outcome(&self.frame, text)?;
        self.inner.finish(token(instance), outcome).map_err(|e| thrown(&e))
    }

    fn change_state(&self, instance: f64, change: &StateChange) -> napi::Result<()> {
        self.inner.change_state(token(instance), change).map_err(|e| thrown(&e))
    }
}

#[napi]
impl NativeLane {
    /// Creates a lane of the runtime with this number, which belongs to this process. `numbers` is the array of the
    /// [frame](Frame) in which commands and answers cross.
    #[napi(constructor)]
    pub fn new(runtime: u32, lane: u32, numbers: Float64Array) -> napi::Result<Self> {
        Ok(Self(Rc::new(Lane {
            inner: process::RUNTIMES.get(runtime)?,
            lane: LaneId(lane as usize),
            frame: Frame::new(numbers)?,
        })))
    }

    /// Returns the calls of each step, as functions: napi-rs keeps count of the borrows of a method's object, which
    /// takes longer than most of these calls.
    ///
    /// - `nextJob(looksAgain)`: returns the next job; `null` parks the lane until `wake` is called, unless it looks
    ///   again soon by itself.
    /// - `describe(instance)`: returns the description from which the generator is made.
    /// - `issue(instance, text)`: issues the command in the frame and returns the id of its operation. The kind of the
    ///   answer is 1 if the next event in history is the success of the operation, else 0.
    /// - `next(instance, events, queues, operations, eventsGone, queuesGone, operationsGone)`: returns the next
    ///   delivery once all fibers wait. The arguments are the waits that are new and those that have ended; without
    ///   them nothing has changed. `null`: there is none, and the turn is to be ended by `rest`.
    /// - `rest(instance, fibers)`: ends the turn. `fibers` is JSON that says what the fibers wait for; `null` if only
    ///   the main fiber waits, for operations. `true`: the instance is released with the turn.
    /// - `finish(instance, text)`: ends the code with the outcome in the frame. The turn is over.
    /// - `completeActivity(activity, output)`: reports the success of an attempt. `true`: the lane was parked and has
    ///   work now, drain it.
    #[napi]
    pub fn each_step<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let mut calls = Object::new(env)?;
        let lane = || Rc::clone(&self.0);
        let this = lane();
        add(env, &mut calls, "nextJob", move |call| this.next_job(call.get(0)?))?;
        let this = lane();
        add(env, &mut calls, "describe", move |call| this.describe(call.get(0)?))?;
        let this = lane();
        add(env, &mut calls, "issue", move |call| {
            this.issue(call.get(0)?, call.get(1)?)
        })?;
        let this = lane();
        add(env, &mut calls, "next", move |call| {
            let waits = match call.length() {
                // Most often nothing has changed, and each argument takes a moment.
                1 => command::no_change(),
                _ => command::waits(awaited(&call, 1)?, awaited(&call, 4)?),
            };
            this.next(call.get(0)?, waits)
        })?;
        let this = lane();
        add(env, &mut calls, "rest", move |call| {
            let fibers: Option<String> = call.get(1)?;
            let slept = this.inner.rest(token(call.get(0)?), fibers.as_deref());
            slept.map_err(|e| thrown(&e))
        })?;
        let this = lane();
        add(env, &mut calls, "finish", move |call| {
            this.finish(call.get(0)?, call.get(1)?)
        })?;
        let this = lane();
        add(env, &mut calls, "completeActivity", move |call| {
            let activity = activity_token(call.get(0)?);
            Ok(this.inner.complete_activity(this.lane, activity, call.get(1)?))
        })?;
        Ok(calls)
    }

    /// Attaches this thread to the lane, which is not the first one: the thread takes jobs from now on. `warns`: a
    /// warning may be written to stderr.
    #[napi]
    pub fn attach(&self, wake: Function<'_, (), ()>, warns: bool) -> napi::Result<()> {
        let host = Arc::new(ThisThread::new(&wake, warns)?);
        self.0.inner.attach(self.0.lane, host).map_err(|e| thrown(&e))
    }

    /// Gives the event loop its turn before the next job is taken.
    #[napi]
    pub fn pause(&self) {
        self.0.inner.pause(self.0.lane);
    }

    /// Creates the timer that limits how long a cancelled execution may go on; `null`: there is no such timer.
    #[napi]
    pub fn grace_timer(&self, instance: f64, delay_ms: Option<f64>) -> napi::Result<Option<f64>> {
        let timer = self
            .0
            .inner
            .grace_timer(token(instance), delay_ms.map(command::whole_ms));
        Ok(timer.map_err(|e| thrown(&e))?.map(|id| id.0 as f64))
    }

    /// Delivers a waiting request to cancel, although the code does not wait. The answer is like that of `next`.
    #[napi]
    pub fn interrupt(&self, instance: f64) -> napi::Result<Option<String>> {
        let delivered = self.0.inner.interrupt(token(instance)).map_err(|e| thrown(&e))?;
        let text = delivered
            .map(|delivered| delivery(delivered, &self.0.frame))
            .transpose();
        text.map_err(|e| thrown(&e))
    }

    /// Notes the fiber of the last command or delivery, unless it is the main fiber.
    #[napi]
    pub fn of_fiber(&self, instance: f64, fiber: u32) -> napi::Result<()> {
        self.0.inner.of_fiber(token(instance), fiber).map_err(|e| thrown(&e))
    }

    /// Notes that the code polls a mailbox that it waits for, or polls it no longer. `kind` is the number of the
    /// mailbox's kind.
    #[napi]
    pub fn set_polled(&self, instance: f64, kind: f64, name: String, is_polled: bool) -> napi::Result<()> {
        let mailbox = command::mailbox(kind, name)?;
        self.0
            .inner
            .set_polled(token(instance), mailbox, is_polled)
            .map_err(|e| thrown(&e))
    }

    /// Accepts the ask that was delivered last. Returns the deterministic time from here on.
    #[napi]
    pub fn accept_ask(&self, instance: f64) -> napi::Result<f64> {
        let time_ms = self.0.inner.accept_ask(token(instance)).map_err(|e| thrown(&e))?;
        Ok(time_ms as f64)
    }

    /// Refuses the ask that was delivered last. `error` is its answer, JSON of an error.
    #[napi]
    pub fn refuse_ask(&self, instance: f64, ask: String, error: String) -> napi::Result<()> {
        self.0
            .inner
            .refuse_ask(token(instance), ask, Some(error))
            .map_err(|e| thrown(&e))
    }

    /// Answers an accepted ask: with a value, or with JSON of an error.
    #[napi]
    pub fn answer_ask(&self, instance: f64, ask: String, is_error: bool, text: Option<String>) -> napi::Result<()> {
        let answer = command::answer(is_error, text);
        self.0
            .inner
            .answer_ask(token(instance), ask, answer)
            .map_err(|e| thrown(&e))
    }

    /// Takes no more asks: the code is about to end.
    #[napi]
    pub fn close_asks(&self, instance: f64) -> napi::Result<()> {
        self.0.inner.close_asks(token(instance)).map_err(|e| thrown(&e))
    }

    /// Suspends the instance because its code must not go on. The turn is over and nothing of it is stored. `report` is
    /// JSON of an error; without it, the error is the mismatch that was found, or `source`.
    #[napi]
    pub fn suspend(&self, instance: f64, source: String, report: Option<String>) -> napi::Result<()> {
        self.0
            .inner
            .suspend(token(instance), &source, report.as_deref())
            .map_err(|e| thrown(&e))
    }

    /// True while the code is replaying its history.
    #[napi]
    pub fn is_replaying(&self, instance: f64) -> napi::Result<bool> {
        self.0.inner.is_replaying(token(instance)).map_err(|e| thrown(&e))
    }

    /// Events recorded so far at this point of the code.
    #[napi]
    pub fn history_length(&self, instance: f64) -> napi::Result<f64> {
        let length = self.0.inner.history_length(token(instance)).map_err(|e| thrown(&e))?;
        Ok(length as f64)
    }

    /// Writes a trace line, unless the instance is replaying. The fields are JSON of objects that are not empty: those
    /// of each line of the instance, and those of this line.
    #[napi]
    pub fn trace(
        &self,
        instance: f64,
        level: String,
        message: String,
        of_instance: Option<String>,
        own: Option<String>,
    ) -> napi::Result<()> {
        let level = Level::parse(&level).ok_or_else(|| argument(format!("there is no level '{level}'")))?;
        self.0
            .inner
            .log(token(instance), level, message, LineFields { of_instance, own })
            .map_err(|e| thrown(&e))
    }

    /// Sets the custom status, or resets it with `null`.
    #[napi]
    pub fn set_custom_status(&self, instance: f64, text: Option<String>) -> napi::Result<()> {
        self.0
            .inner
            .set_custom_status(token(instance), text)
            .map_err(|e| thrown(&e))
    }

    /// Sets a value of the state. `null` is `undefined`.
    #[napi]
    pub fn set_state(&self, instance: f64, name: String, value: Option<String>) -> napi::Result<()> {
        self.0.change_state(instance, &StateChange::Set { name, value })
    }

    /// Deletes a value of the state.
    #[napi]
    pub fn delete_state(&self, instance: f64, name: String) -> napi::Result<()> {
        self.0.change_state(instance, &StateChange::Deleted { name })
    }

    /// Writes an entry to a stream. `null` is `undefined`. The limits say which entries stay; `null`: all. Returns
    /// false, and writes nothing, if the stream is closed.
    #[napi]
    pub fn write_stream(
        &self,
        instance: f64,
        stream: String,
        entry: Option<String>,
        entries_max: Option<f64>,
        retain_ms: Option<f64>,
    ) -> napi::Result<bool> {
        self.0
            .inner
            .write_stream(token(instance), &stream, command::keep(entries_max, retain_ms), &entry)
            .map_err(|e| thrown(&e))
    }

    /// Closes a stream.
    #[napi]
    pub fn close_stream(&self, instance: f64, stream: String) -> napi::Result<()> {
        self.0
            .inner
            .close_stream(token(instance), &stream)
            .map_err(|e| thrown(&e))
    }

    /// A deterministic number in 0..1.
    #[napi]
    pub fn random(&self, instance: f64) -> napi::Result<f64> {
        self.0.inner.random(token(instance)).map_err(|e| thrown(&e))
    }

    /// A deterministic version 4 UUID.
    #[napi]
    pub fn random_uuid(&self, instance: f64) -> napi::Result<String> {
        self.0.inner.random_uuid(token(instance)).map_err(|e| thrown(&e))
    }

    /// Records a heartbeat of a running attempt, with its details.
    #[napi]
    pub fn heartbeat(&self, activity: f64, details: String) {
        self.0.inner.heartbeat(activity_token(activity), details);
    }

    /// Returns the value that history holds for the next command or end of the code; `null` if it holds none.
    #[napi]
    pub fn recorded_payload(&self, instance: f64) -> napi::Result<Option<String>> {
        let recorded = self.0.inner.recorded_payload(token(instance));
        let checked = |text| checked(text, "the value that the history holds here");
        let text = recorded.and_then(|text| text.map(checked).transpose());
        text.map_err(|e| thrown(&e))
    }

    /// Id of the event, recorded or to be recorded, of the next command or end of the code.
    #[napi]
    pub fn next_command_id(&self, instance: f64) -> napi::Result<f64> {
        let id = self.0.inner.next_command_id(token(instance)).map_err(|e| thrown(&e))?;
        Ok(id.0 as f64)
    }

    /// True if the instance was asked to cancel, which lets it exceed its limits.
    #[napi]
    pub fn is_cancelling(&self, instance: f64) -> napi::Result<bool> {
        self.0.inner.is_cancelling(token(instance)).map_err(|e| thrown(&e))
    }

    /// Returns true if the execution has a patch of its code.
    #[napi]
    pub fn patched(&self, instance: f64, patch: String) -> napi::Result<bool> {
        self.0.inner.patched(token(instance), &patch).map_err(|e| thrown(&e))
    }

    /// Returns the number that the execution has drawn under a name.
    #[napi]
    pub fn drawn(&self, instance: f64, name: String) -> napi::Result<Option<String>> {
        self.0.inner.drawn(token(instance), &name).map_err(|e| thrown(&e))
    }

    /// Reports the failure of an attempt. `true`: the lane was parked and has work now, drain it.
    #[napi]
    pub fn fail_activity(
        &self,
        activity: f64,
        error: String,
        error_name: String,
        error_codes: Vec<String>,
        non_retryable: bool,
        retry_after_ms: Option<f64>,
    ) -> bool {
        self.0.inner.fail_activity(
            self.0.lane,
            activity_token(activity),
            Failure {
                error: Some(error),
                error_name,
                error_codes,
                non_retryable,
                retry_after_ms: retry_after_ms.map(command::whole_ms),
            },
        )
    }
}

/// Returns three arguments of a call, from one on: the awaited events, queues and operations.
fn awaited(call: &FunctionCallContext, from: usize) -> napi::Result<AwaitedArguments> {
    Ok(AwaitedArguments {
        events: call.get(from)?,
        queues: call.get(from + 1)?,
        operations: call.get(from + 2)?,
    })
}

/// Adds a function to an object.
fn add<T: ToNapiValue>(
    env: &Env,
    to: &mut Object,
    name: &str,
    call: impl Fn(FunctionCallContext) -> napi::Result<T> + 'static,
) -> napi::Result<()> {
    let function = env.create_function_from_closure::<(), T, _>(name, call)?;
    to.set_named_property(name, function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_as_large_in_javascript_as_in_rust() {
        for number in [1, u64::from(u32::MAX), (1 << 32) + 1, (1 << 53) - 1] {
            assert_eq!(token(number as f64), Token(number));
            assert_eq!(activity_token(number as f64), ActivityToken(number));
        }
    }
}

//! `NativeRuntime`: a runtime and its lane, for the thread that made it.

use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::{Float64Array, Function};
use napi_derive::napi;
use perdure_engine::{ActivityOptions, Awaited, Command, EventId, InstanceStart, Outcome};
use perdure_runtime::{ActivityToken, Failure, Host, Level, Runtime, Token};
use serde_json::json;

use crate::answer::{NUMBERS, Numbers};
use crate::errors::{argument, thrown};
use crate::job::{Description, MapSizes, delivery, description, job, mailbox};
use crate::options;
use crate::port::Wake;
use crate::replies::{Answer, Replies};
use crate::store::Store;

/// Wakes the thread that made the runtime.
struct ThisThread {
    wake: Wake,
    /// Whether a warning may be written to stderr.
    warns: bool,
}

impl Host for ThisThread {
    fn wake(&self) {
        self.wake.call();
    }

    /// The logger lives on the thread that does not answer, perhaps for ever, so this is the one line that does not go through it.
    fn held_up(&self, message: &str) {
        if self.warns {
            eprintln!("WARN perdure: {message}");
        }
    }
}

/// A runtime.
#[napi]
pub struct NativeRuntime {
    inner: Arc<Runtime>,
    replies: Replies,
    numbers: Numbers,
    warns: bool,
}

#[napi]
impl NativeRuntime {
    /// A runtime on a store; `options` is JSON, `numbers` is where answers put theirs.
    #[napi(constructor)]
    pub fn new(store: &Store, options: String, numbers: Float64Array) -> napi::Result<Self> {
        let numbers = Numbers::new(numbers).ok_or_else(|| argument(format!("{NUMBERS} numbers are needed")))?;
        let runtime = Runtime::new(Arc::clone(&store.inner), options::parse(&options)?);
        Ok(Self {
            inner: Arc::new(runtime),
            replies: store.replies.clone(),
            numbers,
            warns: options::warns(&options),
        })
    }

    /// Say that this thread can run an `orchestration` or an `activity`; `code` is the fingerprint of an orchestration's code.
    #[napi]
    pub fn register(&self, kind: String, name: String, version: String, code: String) -> napi::Result<()> {
        match kind.as_str() {
            "orchestration" => self.inner.register(name, version, code).map_err(|e| thrown(&e)),
            "activity" => {
                self.inner.register_activity(name);
                Ok(())
            }
            other => Err(argument(format!(
                "'orchestration' or 'activity' can be registered, not '{other}'"
            ))),
        }
    }

    /// Start; the reply holds the worker's id.
    #[napi]
    pub fn start(&self, request: f64, wake: Function<'_, (), ()>) -> napi::Result<()> {
        let host = Arc::new(ThisThread {
            wake: Wake::new(&wake)?,
            warns: self.warns,
        });
        let (inner, replies) = (Arc::clone(&self.inner), self.replies.clone());
        crate::tokio_threads::handle()?.spawn(async move {
            let result = inner
                .start(host)
                .await
                .map(|id| Some(json!({ "workerId": id }).to_string()));
            replies.push(Answer { request, result });
        });
        Ok(())
    }

    /// Shut down; the reply comes when it is drained or the timeout has passed.
    #[napi]
    pub fn shutdown(&self, request: f64, timeout_ms: f64) -> napi::Result<()> {
        let timeout =
            Duration::try_from_secs_f64(timeout_ms / 1_000.0).map_err(|e| argument(format!("timeout: {e}")))?;
        let (inner, replies) = (Arc::clone(&self.inner), self.replies.clone());
        let begun = inner.begin_shutdown();
        crate::tokio_threads::handle()?.spawn(async move {
            let result = match begun {
                Ok(()) => {
                    inner.finish_shutdown(timeout).await;
                    Ok(None)
                }
                Err(error) => Err(error),
            };
            replies.push(Answer { request, result });
        });
        Ok(())
    }

    /// Whether there are to be jobs that tell of instances that have ended.
    #[napi]
    pub fn report_ends(&self, wanted: bool) {
        self.inner.report_ends(wanted);
    }

    /// What to do next; `null` parks the lane until `wake` is called.
    #[napi]
    pub fn next_job(&self) -> Option<String> {
        self.inner.next_job().map(|next| job(next, &self.numbers))
    }

    /// The event loop gets its turn before the next job is taken.
    #[napi]
    pub fn pause(&self) {
        self.inner.pause();
    }

    /// What is needed to make an instance's generator.
    #[napi]
    pub fn describe(&self, instance: u32) -> napi::Result<Description> {
        self.inner
            .describe(Token(instance))
            .map(description)
            .map_err(|e| thrown(&e))
    }

    /// Schedule an activity; `options` is JSON of the effective options, `null` for the defaults.
    #[napi]
    pub fn schedule_activity(
        &self,
        instance: u32,
        name: String,
        input: Option<String>,
        options: Option<String>,
    ) -> napi::Result<f64> {
        let options = match options {
            None => ActivityOptions::default(),
            Some(text) => {
                serde_json::from_str(&text).map_err(|e| argument(format!("options of activity '{name}': {e}")))?
            }
        };
        self.issue(instance, Command::ScheduleActivity { name, input, options })
    }

    /// Create a timer that is due after a delay.
    #[napi]
    pub fn create_timer(&self, instance: u32, delay_ms: f64) -> napi::Result<f64> {
        self.issue(
            instance,
            Command::CreateTimer {
                delay_ms: delay_ms.ceil() as i64,
            },
        )
    }

    /// Create a timer that is due at a time.
    #[napi]
    pub fn create_timer_at(&self, instance: u32, at_ms: f64) -> napi::Result<f64> {
        self.issue(
            instance,
            Command::CreateTimerAt {
                fire_at_ms: at_ms.ceil() as i64,
            },
        )
    }

    /// Start another instance: a child, or one that goes its own way. Without a version, the one that a client's start would give it.
    #[napi]
    #[allow(
        clippy::too_many_arguments,
        reason = "positional arguments cross the boundary fastest"
    )]
    pub fn start_instance(
        &self,
        instance: u32,
        is_child: bool,
        name: String,
        id: String,
        version: Option<String>,
        input: Option<String>,
        tags: Option<String>,
        priority: i32,
    ) -> napi::Result<f64> {
        let start = InstanceStart {
            version: version.unwrap_or_else(|| self.inner.version_to_start(&name)),
            id,
            name,
            input,
            tags,
            priority,
        };
        let command = if is_child {
            Command::StartChild(start)
        } else {
            Command::StartInstance(start)
        };
        self.issue(instance, command)
    }

    /// Send a message to a mailbox of another instance.
    #[napi]
    pub fn send_message(
        &self,
        instance: u32,
        receiver: String,
        mailbox_name: String,
        payload: Option<String>,
    ) -> napi::Result<f64> {
        let command = Command::SendMessage {
            instance: receiver,
            mailbox: mailbox(mailbox_name)?,
            payload,
        };
        self.issue(instance, command)
    }

    /// Give an operation up.
    #[napi]
    pub fn cancel_operation(&self, instance: u32, operation: f64) -> napi::Result<()> {
        self.issue(
            instance,
            Command::CancelOperation {
                scheduled: EventId(operation as u64),
            },
        )
        .map(|_| ())
    }

    /// All fibers wait: what is next? `null`: the turn is over.
    #[napi]
    pub fn next(
        &self,
        instance: u32,
        mailboxes: Option<Vec<String>>,
        timers: Option<Vec<f64>>,
    ) -> napi::Result<Option<String>> {
        let mailboxes = mailboxes
            .unwrap_or_default()
            .into_iter()
            .map(mailbox)
            .collect::<napi::Result<_>>()?;
        let timers = timers
            .unwrap_or_default()
            .into_iter()
            .map(|id| EventId(id as u64))
            .collect();
        let delivered = self
            .inner
            .step(Token(instance), Awaited { mailboxes, timers })
            .map_err(|e| thrown(&e))?;
        Ok(delivered.map(|delivered| delivery(delivered, &self.numbers)))
    }

    /// The code has ended: completed (0), failed (1) or cancelled (2). The turn is over.
    #[napi]
    pub fn finish(&self, instance: u32, kind: u32, payload: Option<String>) -> napi::Result<()> {
        let outcome = match kind {
            0 => Outcome::Completed(payload),
            1 => Outcome::Failed(payload),
            2 => Outcome::Cancelled(payload),
            other => return Err(argument(format!("there is no outcome {other}"))),
        };
        self.inner.finish(Token(instance), outcome).map_err(|e| thrown(&e))
    }

    /// The code has ended, and goes on as the next execution of its instance; without a version as the same. The turn is over.
    #[napi]
    pub fn continue_as_new(&self, instance: u32, input: Option<String>, version: Option<String>) -> napi::Result<()> {
        self.inner
            .finish(Token(instance), Outcome::ContinuedAsNew { input, version })
            .map_err(|e| thrown(&e))
    }

    /// The code is not to go on: suspend the instance. The turn is over and nothing of it is stored. `report` is JSON of an error; without
    /// one it is the mismatch that was found, or `source`.
    #[napi]
    pub fn suspend(&self, instance: u32, source: String, report: Option<String>) -> napi::Result<()> {
        self.inner
            .suspend(Token(instance), &source, report.as_deref())
            .map_err(|e| thrown(&e))
    }

    /// Whether the code is being taken through what it did before.
    #[napi]
    pub fn is_replaying(&self, instance: u32) -> napi::Result<bool> {
        self.inner.is_replaying(Token(instance)).map_err(|e| thrown(&e))
    }

    /// Events recorded so far at this point of the code.
    #[napi]
    pub fn history_length(&self, instance: u32) -> napi::Result<f64> {
        let length = self.inner.history_length(Token(instance)).map_err(|e| thrown(&e))?;
        Ok(length as f64)
    }

    /// Write a trace line, unless the instance is replaying.
    #[napi]
    pub fn trace(&self, instance: u32, level: String, message: String, fields: Option<String>) -> napi::Result<()> {
        let level = Level::parse(&level).ok_or_else(|| argument(format!("there is no level '{level}'")))?;
        self.inner
            .trace(Token(instance), level, message, fields)
            .map_err(|e| thrown(&e))
    }

    /// Set the custom status, or reset it with `null`.
    #[napi]
    pub fn set_custom_status(&self, instance: u32, text: Option<String>) -> napi::Result<()> {
        self.inner
            .set_custom_status(Token(instance), text)
            .map_err(|e| thrown(&e))
    }

    /// A deterministic number in 0..1.
    #[napi]
    pub fn random(&self, instance: u32) -> napi::Result<f64> {
        self.inner.random(Token(instance)).map_err(|e| thrown(&e))
    }

    /// A deterministic version 4 UUID.
    #[napi]
    pub fn random_uuid(&self, instance: u32) -> napi::Result<String> {
        self.inner.random_uuid(Token(instance)).map_err(|e| thrown(&e))
    }

    /// A running attempt tells of its progress.
    #[napi]
    pub fn heartbeat(&self, activity: u32, details: String) {
        self.inner.heartbeat(ActivityToken(activity), details);
    }

    /// The value that history holds for what the code does next; `null` where it holds none.
    #[napi]
    pub fn recorded_payload(&self, instance: u32) -> napi::Result<Option<String>> {
        self.inner.recorded_payload(Token(instance)).map_err(|e| thrown(&e))
    }

    /// Whether the instance was asked to cancel, which lets it exceed its limits.
    #[napi]
    pub fn is_cancelling(&self, instance: u32) -> napi::Result<bool> {
        self.inner.is_cancelling(Token(instance)).map_err(|e| thrown(&e))
    }

    /// Whether the execution has a patch of its code.
    #[napi]
    pub fn patched(&self, instance: u32, patch: String) -> napi::Result<bool> {
        self.inner.patched(Token(instance), &patch).map_err(|e| thrown(&e))
    }

    /// An attempt succeeded. `true`: the lane was parked and has work now, drain it.
    #[napi]
    pub fn complete_activity(&self, activity: u32, output: Option<String>) -> bool {
        self.inner.complete_activity(ActivityToken(activity), output)
    }

    /// An attempt failed. `true`: the lane was parked and has work now, drain it.
    #[napi]
    pub fn fail_activity(
        &self,
        activity: u32,
        error: String,
        error_name: String,
        non_retryable: bool,
        retry_after_ms: f64,
    ) -> bool {
        let retry_after_ms = (retry_after_ms >= 0.0).then_some(retry_after_ms.ceil() as i64);
        self.inner.fail_activity(
            ActivityToken(activity),
            Failure {
                error: Some(error),
                error_name,
                non_retryable,
                retry_after_ms,
            },
        )
    }

    /// Counters and gauges, as JSON.
    #[napi]
    pub fn metrics(&self) -> String {
        let m = self.inner.metrics();
        json!({
            "turns": m.turns,
            "ended": m.ended,
            "fenced": m.fenced,
            "attempts": m.attempts,
            "takeovers": m.takeovers,
            "ownedInstances": m.owned_instances,
            "cachedInstances": m.cached_instances,
            "runningActivities": m.running_activities,
            "openActivities": m.open_activities,
            "queuedJobs": m.queued_jobs,
            "turnsInProgress": m.turns_in_progress,
            "commitBatches": m.commit_batches,
            "commitWrites": m.commit_writes,
            "commitRetries": m.commit_retries,
        })
        .to_string()
    }

    /// Sizes of the maps keyed by instance.
    #[napi]
    pub fn map_sizes(&self) -> MapSizes {
        let sizes = self.inner.map_sizes();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        MapSizes {
            instances: count(sizes.instances),
            turns: count(sizes.turns),
            activities: count(sizes.activities),
        }
    }

    fn issue(&self, instance: u32, command: Command) -> napi::Result<f64> {
        self.inner
            .issue(Token(instance), command)
            .map(|id| id.0 as f64)
            .map_err(|e| thrown(&e))
    }
}

//! The link from a process to its store, on which things go wrong.
//!
//! A link is a [provider](perdure_provider::Provider) around another one. Its faults are drawn from the seed: a call
//! fails before it reaches the store, takes long on its way there or back, or the process dies before, in between or
//! after. A stopped process makes no calls and hears no answers until it goes on; calls that it had sent go their way
//! meanwhile. A dead process never hears anything again, and calls that it had sent may still be carried out a little
//! later, as with a connection that outlives its client.

mod batch;
mod faults;
pub(crate) mod linked;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_engine::{Message, MessageSeq};
use perdure_provider::{InstanceKey, ProviderError, ProviderErrorKind, TakenOver};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::Connection;
use crate::log::Log;
use crate::plan::Moment;
use crate::witness::Witness;

pub(crate) use faults::LinkFaults;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Running,
    /// The process stands still, as after SIGSTOP.
    Stopped,
    /// The process was killed, as by SIGKILL.
    Dead,
}

/// Called when the process dies in one of its calls.
pub(crate) type Death = Box<dyn Fn() + Send + Sync>;

/// The link of one process.
pub(crate) struct Link {
    inner: Connection,
    faults: Arc<LinkFaults>,
    log: Arc<Log>,
    witness: Arc<Witness>,
    name: String,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    /// Keeps the batches in their order on the way to the store.
    order: Arc<tokio::sync::Mutex<()>>,
    death: Death,
}

/// A message of an inbox, and its instance.
type Received = (InstanceKey, Result<Message, MessageSeq>);

struct State {
    process_state: ProcessState,
    calls: u64,
    /// The call at which the process dies.
    crash: Option<(u64, Moment)>,
    /// Earlier messages of the inbox, which may come again.
    seen: VecDeque<Received>,
}

impl Link {
    pub(crate) fn new(
        inner: Connection,
        faults: Arc<LinkFaults>,
        log: Arc<Log>,
        witness: Arc<Witness>,
        name: String,
        death: Death,
    ) -> Arc<Self> {
        let state = State {
            process_state: ProcessState::Running,
            calls: 0,
            crash: None,
            seen: VecDeque::new(),
        };
        Arc::new(Self {
            inner,
            faults,
            log,
            witness,
            name,
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(Notify::new()),
            order: Arc::default(),
            death,
        })
    }

    pub(crate) fn set_process_state(&self, state: ProcessState) {
        self.state.lock().process_state = state;
        self.changed.notify_waiters();
    }

    /// Lets the process die `calls` calls from now.
    pub(crate) fn crash_at(&self, calls: u64, moment: Moment) {
        let mut state = self.state.lock();
        state.crash = Some((state.calls + calls, moment));
    }

    /// Removes the planned crash.
    pub(crate) fn cancel_crash(&self) {
        self.state.lock().crash = None;
    }

    /// Waits until the process runs, for ever if it is dead.
    async fn runs(&self) {
        loop {
            let changed = self.changed.notified();
            match self.state.lock().process_state {
                ProcessState::Running => return,
                ProcessState::Stopped | ProcessState::Dead => {}
            }
            changed.await;
        }
    }

    /// Counts the next call. Returns its number, and the moment in it at which the process dies, if it does.
    fn number(&self) -> (u64, Option<Moment>) {
        let mut state = self.state.lock();
        state.calls += 1;
        let number = state.calls;
        (
            number,
            state.crash.take_if(|(at, _)| *at <= number).map(|(_, moment)| moment),
        )
    }

    async fn die(&self, moment: Moment, call: &str) {
        self.dies(moment, call);
        std::future::pending().await
    }

    fn dies(&self, moment: Moment, call: &str) {
        self.log.say(&self.name, format_args!("dies {moment:?} {call}"));
        self.faults.fire(match moment {
            Moment::Before => "crash before a call",
            Moment::Between => "crash before an answer",
            Moment::After => "crash after an answer",
        });
        self.set_process_state(ProcessState::Dead);
        (self.death)();
    }

    /// The way to the store. After an error the call does not reach the store.
    async fn there(&self, call: &str) -> Result<Option<Moment>, ProviderError> {
        self.runs().await;
        let (_, moment) = self.number();
        if moment == Some(Moment::Before) {
            self.die(Moment::Before, call).await;
        }
        sleep(self.faults.one_way()).await;
        if self.state.lock().process_state == ProcessState::Dead && self.faults.chance(500) {
            // The call was lost on the way when the process died.
            std::future::pending::<()>().await;
        }
        let kinds = [ProviderErrorKind::Busy, ProviderErrorKind::Io, ProviderErrorKind::Full];
        let rates = *self.faults.rates.lock();
        let kind = if Instant::now() < *self.faults.outage_until.lock() {
            self.faults.fire("call in an outage");
            sleep(self.faults.ms(0..200)).await;
            Some(ProviderErrorKind::Io)
        } else if let Some(kind) = self.faults.refuses(call) {
            self.faults.fire("refused call");
            Some(kind)
        } else if self.faults.chance(rates.failing) {
            self.faults.fire("failed call");
            Some(kinds[self.faults.rng.lock().usize(..3)])
        } else {
            None
        };
        let Some(kind) = kind else { return Ok(moment) };
        self.runs().await;
        self.log.say(&self.name, format_args!("{call} fails: {kind:?}"));
        Err(ProviderError::new(kind, "a planned fault"))
    }

    /// The way back.
    async fn back(&self, call: &str, moment: Option<Moment>) {
        if moment == Some(Moment::Between) {
            self.die(Moment::Between, call).await;
        }
        sleep(self.faults.one_way()).await;
        self.runs().await;
        if moment == Some(Moment::After) {
            // The process hears the answer, and dies once it has acted on it.
            self.dies(Moment::After, call);
        }
    }

    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        self.call_observed(name, call, |_| {}).await
    }

    /// A [`call`](Self::call) of which the witness is told when it is carried out.
    async fn call_observed<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
        tell: impl FnOnce(&T),
    ) -> Result<T, ProviderError> {
        let moment = self.there(name).await?;
        let answer = call.await;
        self.log.say(&self.name, format_args!("{name}"));
        if let Ok(answer) = &answer {
            tell(answer);
        }
        self.back(name, moment).await;
        answer
    }

    /// Loses the answer to a request for work, although the call was carried out.
    fn lose_answer<T>(&self, name: &str, answer: Result<T, ProviderError>) -> Result<T, ProviderError> {
        let per_mille = self.faults.rates.lock().unanswered;
        self.lose_some(per_mille, "lost answer", name, answer)
    }

    /// Does the same as [`lose_answer`](Self::lose_answer) for any other call about workers and what is theirs.
    fn lose_confirmation<T>(&self, name: &str, answer: Result<T, ProviderError>) -> Result<T, ProviderError> {
        let per_mille = self.faults.rates.lock().unconfirmed;
        self.lose_some(per_mille, "lost confirmation", name, answer)
    }

    fn lose_some<T>(
        &self,
        per_mille: u16,
        fault: &'static str,
        name: &str,
        answer: Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        if answer.is_err() || !self.faults.chance(per_mille) {
            return answer;
        }
        self.faults.fire(fault);
        self.log.say(&self.name, format_args!("{name} is not answered"));
        let error = ProviderError::new(ProviderErrorKind::Io, "a planned fault: the answer is lost.");
        Err(error.of_unknown_outcome())
    }

    fn taken_over(&self, taken: &TakenOver) {
        taken.workers.iter().for_each(|worker| self.witness.gone(worker));
        taken
            .poison_pills
            .iter()
            .for_each(|poison_pill| self.witness.suspended_as_poison_pill(&poison_pill.id));
    }
}

#[expect(clippy::disallowed_methods, reason = "the way takes its time, which is virtual")]
pub(crate) async fn sleep(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

//! Fibers of one execution, as futures that are polled until all of them wait.
//!
//! What the driver does with generators is done here with futures: a delivery settles an operation, and then every fiber is polled, in the
//! order in which they were made, again and again until none gets on. So the same deliveries give the same commands.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use perdure_engine::{Awaited, Command, Delivery, EventId, Mailbox, Payload};
use perdure_runtime::RuntimeError;

/// Why a fiber does not go on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// It was cancelled.
    Cancelled,
    /// What it waited for has failed.
    Failed(String),
    /// The runtime refuses a command: the code does not fit its history.
    Refused(Box<RuntimeError>),
}

/// What a fiber comes to.
pub(crate) type Outcome = Result<i64, Stop>;

/// What user code asks of a turn.
pub(crate) trait Calls {
    fn issue(&self, command: Command) -> Result<EventId, RuntimeError>;
    fn is_replaying(&self) -> Result<bool, RuntimeError>;
    fn patched(&self, patch: &str) -> Result<bool, RuntimeError>;
    fn random(&self) -> Result<f64, RuntimeError>;
    fn random_uuid(&self) -> Result<String, RuntimeError>;
    fn time_ms(&self) -> i64;
    fn set_status(&self, value: Payload) -> Result<(), RuntimeError>;
    fn trace(&self, line: String) -> Result<(), RuntimeError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FiberId(usize);

struct Fiber {
    future: Option<Pin<Box<dyn Future<Output = Outcome>>>>,
    outcome: Option<Outcome>,
    /// How often it was cancelled: what was waited for before that is not waited for any more.
    cancels: u32,
}

#[derive(Default)]
struct State {
    fibers: Vec<Fiber>,
    /// The fiber that is polled.
    current: usize,
    /// Whether anything has got on since somebody last looked.
    progress: bool,
    settled: BTreeMap<EventId, Result<Payload, String>>,
    mail: VecDeque<(Mailbox, Payload)>,
    awaited: Awaited,
    /// All that is waited for, by fiber.
    pending: Vec<(usize, String)>,
}

/// The fibers of an execution. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Fibers(Rc<RefCell<State>>);

/// What is waited for.
enum Target {
    /// An operation, and whether its end is handed over only when somebody waits for it.
    Operation(EventId, bool),
    Mailbox(Mailbox),
}

impl Fibers {
    pub(crate) fn spawn(&self, future: impl Future<Output = Outcome> + 'static) -> FiberId {
        let mut state = self.0.borrow_mut();
        state.fibers.push(Fiber {
            future: Some(Box::pin(future)),
            outcome: None,
            cancels: 0,
        });
        state.progress = true;
        FiberId(state.fibers.len() - 1)
    }

    /// Run until all fibers wait, or the first has ended: what that one came to.
    pub(crate) fn run(&self) -> Option<Outcome> {
        loop {
            {
                let mut state = self.0.borrow_mut();
                state.progress = false;
                state.awaited = Awaited::default();
                state.pending.clear();
            }
            let mut at = 0;
            while at < self.0.borrow().fibers.len() {
                self.poll(at);
                at += 1;
            }
            let state = self.0.borrow();
            if let Some(outcome) = &state.fibers[0].outcome {
                return Some(outcome.clone());
            }
            if !state.progress {
                return None;
            }
        }
    }

    fn poll(&self, at: usize) {
        let future = {
            let mut state = self.0.borrow_mut();
            state.current = at;
            state.fibers[at].future.take()
        };
        let Some(mut future) = future else { return };
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut state = self.0.borrow_mut();
        match polled {
            Poll::Pending => state.fibers[at].future = Some(future),
            Poll::Ready(outcome) => {
                state.fibers[at].outcome = Some(outcome);
                state.progress = true;
            }
        }
    }

    /// What is waited for that is handed over only then.
    pub(crate) fn awaited(&self) -> Awaited {
        self.0.borrow().awaited.clone()
    }

    /// Give all of them up. They hold this themselves, and with it the runtime that they call.
    pub(crate) fn clear(&self) {
        let mut state = self.0.borrow_mut();
        let futures: Vec<_> = state.fibers.iter_mut().map(|fiber| fiber.future.take()).collect();
        // What they drop may look here.
        drop(state);
        drop(futures);
    }

    /// What each fiber waits for, for a report.
    pub(crate) fn pending(&self) -> Vec<(usize, String)> {
        self.0.borrow().pending.clone()
    }

    /// Hand something over, which [`run`](Self::run) then makes use of.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        let mut state = self.0.borrow_mut();
        let (operation, outcome) = match delivery {
            Delivery::Succeeded { operation, value } => (operation, Ok(value)),
            Delivery::Failed { operation, error, .. } => (operation, Err(error.unwrap_or_default())),
            Delivery::ChildFailed { operation, failure, .. } => (operation, Err(format!("{failure:?}"))),
            Delivery::Refused { operation, refusal } => (operation, Err(refusal.text().into_owned())),
            Delivery::Message { mailbox, payload } => return state.mail.push_back((mailbox, payload)),
            Delivery::Cancel { .. } => return state.fibers.iter_mut().for_each(|fiber| fiber.cancels += 1),
        };
        let before = state.settled.insert(operation, outcome);
        assert!(before.is_none(), "#{operation} has settled twice (E5)");
    }

    /// Wait for an operation. `on_demand`: its end is handed over only when somebody waits for it.
    pub(crate) async fn operation(&self, calls: &dyn Calls, id: EventId, on_demand: bool) -> Result<Payload, Stop> {
        self.wait(calls, Target::Operation(id, on_demand)).await
    }

    /// Wait for a message.
    pub(crate) async fn mail(&self, calls: &dyn Calls, mailbox: Mailbox) -> Result<Payload, Stop> {
        self.wait(calls, Target::Mailbox(mailbox)).await
    }

    async fn wait(&self, calls: &dyn Calls, target: Target) -> Result<Payload, Stop> {
        let since = self.cancels();
        std::future::poll_fn(|_| {
            if let Some(settled) = self.take(&target) {
                return Poll::Ready(settled.map_err(Stop::Failed));
            }
            if self.cancels() == since {
                self.await_target(&target);
                return Poll::Pending;
            }
            self.0.borrow_mut().progress = true;
            let given_up = match target {
                Target::Operation(id, _) => self.give_up(calls, id),
                Target::Mailbox(_) => Ok(()),
            };
            Poll::Ready(Err(given_up.err().unwrap_or(Stop::Cancelled)))
        })
        .await
    }

    fn take(&self, target: &Target) -> Option<Result<Payload, String>> {
        let mut state = self.0.borrow_mut();
        let taken = match target {
            Target::Operation(id, _) => state.settled.get(id).cloned(),
            Target::Mailbox(mailbox) => {
                let at = state.mail.iter().position(|(of, _)| of == mailbox)?;
                state.mail.remove(at).map(|(_, payload)| Ok(payload))
            }
        };
        state.progress |= taken.is_some();
        taken
    }

    fn await_target(&self, target: &Target) {
        let mut state = self.0.borrow_mut();
        let State {
            awaited,
            pending,
            current,
            ..
        } = &mut *state;
        match target {
            Target::Operation(id, _) => pending.push((*current, format!("#{id}"))),
            Target::Mailbox(mailbox) => pending.push((*current, format!("{mailbox:?}"))),
        }
        match target {
            Target::Operation(id, true) => awaited.timers.push(*id),
            Target::Operation(_, false) => {}
            Target::Mailbox(mailbox) => awaited.mailboxes.push(mailbox.clone()),
        }
    }

    /// Give an operation up, unless it has settled.
    pub(crate) fn give_up(&self, calls: &dyn Calls, scheduled: EventId) -> Result<(), Stop> {
        let is_open = {
            let settled = &mut self.0.borrow_mut().settled;
            let is_open = !settled.contains_key(&scheduled);
            if is_open {
                settled.insert(scheduled, Err("given up".into()));
            }
            is_open
        };
        if is_open {
            calls.issue(Command::CancelOperation { scheduled }).map_err(refused)?;
        }
        Ok(())
    }

    fn cancels(&self) -> u32 {
        let state = self.0.borrow();
        state.fibers[state.current].cancels
    }

    pub(crate) fn cancel(&self, fiber: FiberId) {
        let mut state = self.0.borrow_mut();
        state.fibers[fiber.0].cancels += 1;
        state.progress = true;
    }

    fn outcome(&self, fiber: FiberId) -> Option<Outcome> {
        self.0.borrow().fibers[fiber.0].outcome.clone()
    }

    /// Wait until `done` says so of what these have come to so far, in their order. They are cancelled with whoever waits.
    async fn join<T>(&self, fibers: &[FiberId], done: impl Fn(&[Option<Outcome>]) -> Option<T>) -> Result<T, Stop> {
        let since = self.cancels();
        std::future::poll_fn(|_| {
            let outcomes: Vec<Option<Outcome>> = fibers.iter().map(|fiber| self.outcome(*fiber)).collect();
            if let Some(done) = done(&outcomes) {
                self.0.borrow_mut().progress = true;
                return Poll::Ready(Ok(done));
            }
            if self.cancels() == since {
                return Poll::Pending;
            }
            fibers.iter().for_each(|fiber| self.cancel(*fiber));
            Poll::Ready(Err(Stop::Cancelled))
        })
        .await
    }

    /// The sum of what all come to, or the first failure.
    pub(crate) async fn all(&self, fibers: &[FiberId]) -> Outcome {
        let all = |outcomes: &[Option<Outcome>]| {
            let failed = outcomes.iter().flatten().find(|outcome| outcome.is_err());
            match failed {
                Some(failed) => Some(failed.clone()),
                None => outcomes
                    .iter()
                    .cloned()
                    .collect::<Option<Result<Vec<i64>, Stop>>>()
                    .map(|all| Ok(all?.iter().sum())),
            }
        };
        self.join(fibers, all).await?
    }

    /// The place of the first that comes to something.
    pub(crate) async fn race(&self, fibers: &[FiberId]) -> Result<usize, Stop> {
        self.join(fibers, |outcomes| outcomes.iter().position(Option::is_some))
            .await
    }
}

pub(crate) fn refused(error: RuntimeError) -> Stop {
    Stop::Refused(Box::new(error))
}

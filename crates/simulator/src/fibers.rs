//! Fibers of one execution, as futures that are polled until all of them wait.
//!
//! The driver runs generators, this module runs futures. A delivery settles an operation, and then every fiber is
//! polled, in the order in which they were made, again and again until none gets on. So the same deliveries give the
//! same commands.
//!
//! The [`Rules`] of the execution say what a cancelled fiber waits for. They are asked for at the first point where
//! they make a difference, as the driver does: when a cancellation is delivered to more than one fiber, and when a
//! loser is told. With `Rules::Scoped`, they are those of docs/internals/scopes.md:
//!
//! 1. Each fiber but the main one has an owner: the fiber that ran when it was made.
//! 2. A fiber is told once, and through it all that it owns, in order of creation. Fibers that its cleanup makes are
//!    not told.
//! 3. A fiber gets its error when the told fibers that it waits for have settled.
//! 4. A told fiber settles when its function has ended and every told fiber below it has settled.
//! 5. A fiber that cancels losers waits until those that it told have settled.
//! 6. A fiber that is not told settles with its function. Fibers that it leaves behind go on until the main fiber has
//!    settled, and are dropped then.

mod state;

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use perdure_engine::{Answer, Awaited, Bug, Command, Delivery, EventId, Mailbox, Payload, StateChange, is_planted};
use perdure_runtime::RuntimeError;
use state::{Fiber, State};

/// The reason why a fiber does not go on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// The fiber was cancelled.
    Cancelled,
    /// The awaited operation has failed.
    Failed(String),
    /// The runtime refuses a command: the code does not fit its history.
    Refused(Box<RuntimeError>),
}

/// The outcome of a fiber.
pub(crate) type Outcome = Result<i64, Stop>;

/// The rules that say what a cancelled fiber waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// A cancelled fiber waits for nothing: all fibers get their errors at once, and the execution ends with the main
    /// one.
    Flat,
    /// The rules of the module.
    Scoped,
}

/// Asks for the rules of the execution, once.
pub(crate) type AskRules = Box<dyn Fn() -> Result<Rules, RuntimeError>>;

/// The calls that user code makes in a turn.
pub(crate) trait Calls {
    fn issue(&self, command: Command) -> Result<EventId, RuntimeError>;
    fn is_replaying(&self) -> Result<bool, RuntimeError>;
    fn patched(&self, patch: &str) -> Result<bool, RuntimeError>;
    fn random(&self) -> Result<f64, RuntimeError>;
    fn random_uuid(&self) -> Result<String, RuntimeError>;
    fn time_ms(&self) -> i64;
    fn set_status(&self, value: Payload) -> Result<(), RuntimeError>;
    fn change_state(&self, change: &StateChange) -> Result<(), RuntimeError>;
    fn set_polled(&self, mailbox: Mailbox, is_polled: bool) -> Result<(), RuntimeError>;
    fn accept_ask(&self) -> Result<(), RuntimeError>;
    fn refuse_ask(&self, ask: String, error: Payload) -> Result<(), RuntimeError>;
    fn answer_ask(&self, ask: String, answer: Answer) -> Result<(), RuntimeError>;
    fn write_stream(&self, stream: &str, entry: &Payload) -> Result<bool, RuntimeError>;
    fn trace(&self, line: String) -> Result<(), RuntimeError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FiberId(usize);

/// The fibers of an execution. A clone has the same fibers.
#[derive(Clone)]
pub(crate) struct Fibers {
    state: Rc<RefCell<State>>,
    ask_rules: Rc<AskRules>,
}

/// The target of a wait.
enum Target {
    /// An operation, and true if its end is delivered only when a fiber waits for it.
    Operation(EventId, bool),
    Mailbox(Mailbox),
    /// A mailbox, if it holds a message.
    Poll(Mailbox),
}

impl Fibers {
    /// Creates an execution without fibers. `rules` are those that the execution has in any case.
    pub(crate) fn new(rules: Option<Rules>, ask_rules: AskRules) -> Self {
        let state = State {
            rules,
            ..State::default()
        };
        Self {
            state: Rc::new(RefCell::new(state)),
            ask_rules: Rc::new(ask_rules),
        }
    }

    /// Adds a fiber. The first one is the main fiber.
    pub(crate) fn spawn(&self, future: impl Future<Output = Outcome> + 'static) -> FiberId {
        let mut state = self.state.borrow_mut();
        let owner = (!state.fibers.is_empty()).then_some(state.current);
        state.fibers.push(Fiber {
            future: Some(Box::pin(future)),
            ended: None,
            outcome: None,
            owner,
            cancels: 0,
            is_told: false,
            is_interrupted: false,
        });
        state.progress = true;
        FiberId(state.fibers.len() - 1)
    }

    /// Runs until all fibers wait, or the main fiber has settled. Returns the outcome of the main fiber.
    pub(crate) fn run(&self) -> Option<Outcome> {
        loop {
            {
                let mut state = self.state.borrow_mut();
                state.progress = false;
                state.awaited = Awaited::default();
                state.pending.clear();
            }
            let mut at = 0;
            while at < self.state.borrow().fibers.len() {
                self.poll(at);
                at += 1;
            }
            let state = self.state.borrow();
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
            let mut state = self.state.borrow_mut();
            state.current = at;
            state.fibers[at].future.take()
        };
        let Some(mut future) = future else {
            return self.state.borrow_mut().settle(at);
        };
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut state = self.state.borrow_mut();
        match polled {
            Poll::Pending => state.fibers[at].future = Some(future),
            Poll::Ready(outcome) => {
                state.fibers[at].ended = Some(outcome);
                state.settle(at);
            }
        }
    }

    /// The timers and mailboxes that are awaited and whose deliveries come only then.
    pub(crate) fn awaited(&self) -> Awaited {
        self.state.borrow().awaited.clone()
    }

    /// Drops all fibers. Their futures hold this value, and with it the runtime that they call.
    pub(crate) fn clear(&self) {
        let mut state = self.state.borrow_mut();
        let futures: Vec<_> = state.fibers.iter_mut().map(|fiber| fiber.future.take()).collect();
        // The drop of a future may borrow the state.
        drop(state);
        drop(futures);
    }

    /// The target that each fiber waits for, for a report.
    pub(crate) fn pending(&self) -> Vec<(usize, String)> {
        self.state.borrow().pending.clone()
    }

    /// The rules, unless they have made no difference so far.
    pub(crate) fn known_rules(&self) -> Option<Rules> {
        self.state.borrow().rules
    }

    /// Asks for the rules, which hold from here to the end of the execution.
    fn rules(&self) -> Result<Rules, Stop> {
        if let Some(known) = self.known_rules() {
            return Ok(known);
        }
        let rules = (self.ask_rules)().map_err(refused)?;
        self.state.borrow_mut().rules = Some(rules);
        Ok(rules)
    }

    /// Takes a delivery, which [`run`](Self::run) then makes use of.
    pub(crate) fn deliver(&self, delivery: Delivery) -> Result<(), Stop> {
        if matches!(delivery, Delivery::Cancel { .. }) {
            return self.cancel_all();
        }
        let mut state = self.state.borrow_mut();
        let (operation, outcome) = match delivery {
            Delivery::Succeeded { operation, value } => (operation, Ok(value)),
            Delivery::Failed { operation, error, .. } => (operation, Err(error.unwrap_or_default())),
            Delivery::ChildFailed { operation, failure, .. } => (operation, Err(format!("{failure:?}"))),
            Delivery::Refused { operation, refusal } => (operation, Err(refusal.text().into_owned())),
            Delivery::Message { mailbox, payload } => {
                state.mail.push_back((mailbox, payload));
                return Ok(());
            }
            Delivery::MailboxEmpty { mailbox } => {
                state.empty.insert(mailbox);
                return Ok(());
            }
            Delivery::Asked { .. } => unreachable!("the code deals with it"),
            Delivery::Cancel { .. } => unreachable!("dealt with above"),
        };
        let before = state.settled.insert(operation, outcome);
        assert!(before.is_none(), "#{operation} has settled twice (E5)");
        Ok(())
    }

    /// Cancels the instance. If only the main fiber is left, the rules make no difference.
    fn cancel_all(&self) -> Result<(), Stop> {
        let (open, is_told) = {
            let State { fibers, .. } = &*self.state.borrow();
            let open = fibers.iter().filter(|fiber| fiber.outcome.is_none()).count();
            (open, fibers[0].is_told)
        };
        if open > 1 && !is_told {
            self.rules()?;
        }
        let mut state = self.state.borrow_mut();
        match state.rules {
            Some(Rules::Flat) => state.fibers.iter_mut().for_each(|fiber| fiber.cancels += 1),
            Some(Rules::Scoped) | None => state.tell(0),
        }
        Ok(())
    }

    /// Waits for an operation. With `on_demand`, its end is delivered only when a fiber waits for it.
    pub(crate) async fn operation(&self, calls: &dyn Calls, id: EventId, on_demand: bool) -> Result<Payload, Stop> {
        self.wait(calls, Target::Operation(id, on_demand)).await
    }

    /// Waits for a message.
    pub(crate) async fn mail(&self, calls: &dyn Calls, mailbox: Mailbox) -> Result<Payload, Stop> {
        self.wait(calls, Target::Mailbox(mailbox)).await
    }

    /// Takes a message that is there. `None`: there is none.
    pub(crate) async fn poll_mail(&self, calls: &dyn Calls, mailbox: Mailbox) -> Result<Option<Payload>, Stop> {
        calls.set_polled(mailbox.clone(), true).map_err(refused)?;
        let polled = self.wait(calls, Target::Poll(mailbox.clone())).await;
        // A fiber that is cancelled polls no longer, either.
        calls.set_polled(mailbox.clone(), false).map_err(refused)?;
        let was_empty = self.state.borrow_mut().empty.remove(&mailbox);
        Ok((!was_empty).then_some(polled?))
    }

    async fn wait(&self, calls: &dyn Calls, target: Target) -> Result<Payload, Stop> {
        let since = self.cancels();
        std::future::poll_fn(|_| {
            // The error outranks the result of the wait.
            let is_interrupted = self.takes_error(&[]);
            if let Some(settled) = (!is_interrupted).then(|| self.take(&target)).flatten() {
                return Poll::Ready(settled.map_err(Stop::Failed));
            }
            if self.cancels() == since && !is_interrupted {
                self.await_target(&target);
                return Poll::Pending;
            }
            self.state.borrow_mut().progress = true;
            let given_up = match target {
                Target::Operation(id, _) => self.give_up(calls, id),
                Target::Mailbox(_) | Target::Poll(_) => Ok(()),
            };
            Poll::Ready(Err(given_up.err().unwrap_or(Stop::Cancelled)))
        })
        .await
    }

    fn take(&self, target: &Target) -> Option<Result<Payload, String>> {
        let mut state = self.state.borrow_mut();
        let taken = match target {
            Target::Operation(id, _) => state.settled.get(id).cloned(),
            Target::Poll(mailbox) if state.empty.contains(mailbox) => Some(Ok(None)),
            Target::Mailbox(mailbox) | Target::Poll(mailbox) => {
                let at = state.mail.iter().position(|(of, _)| of == mailbox)?;
                state.mail.remove(at).map(|(_, payload)| Ok(payload))
            }
        };
        state.progress |= taken.is_some();
        taken
    }

    fn await_target(&self, target: &Target) {
        let mut state = self.state.borrow_mut();
        let State {
            awaited,
            pending,
            current,
            ..
        } = &mut *state;
        match target {
            Target::Operation(id, _) => pending.push((*current, format!("#{id}"))),
            Target::Mailbox(mailbox) | Target::Poll(mailbox) => pending.push((*current, format!("{mailbox:?}"))),
        }
        match target {
            Target::Operation(id, true) => awaited.timers.push(*id),
            Target::Operation(_, false) => {}
            Target::Mailbox(mailbox) | Target::Poll(mailbox) => awaited.mailboxes.push(mailbox.clone()),
        }
    }

    /// Gives up an operation, unless it has settled.
    pub(crate) fn give_up(&self, calls: &dyn Calls, scheduled: EventId) -> Result<(), Stop> {
        let is_open = {
            let settled = &mut self.state.borrow_mut().settled;
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

    fn is_interrupted(&self) -> bool {
        let state = self.state.borrow();
        state.fibers[state.current].is_interrupted
    }

    fn cancels(&self) -> u32 {
        let state = self.state.borrow();
        state.fibers[state.current].cancels
    }

    /// Rule 3: takes the error of the current fiber, if it has one and waits for no open told fiber. Returns true if it
    /// did.
    fn takes_error(&self, awaited: &[FiberId]) -> bool {
        let mut state = self.state.borrow_mut();
        let current = state.current;
        let waits = awaited.iter().any(|fiber| state.is_told_and_open(fiber.0));
        let takes = state.fibers[current].is_interrupted && (!waits || is_planted(Bug::ErrorBeforeCleanup));
        if takes {
            state.fibers[current].is_interrupted = false;
            state.progress = true;
        }
        takes
    }

    fn cancel(&self, fiber: FiberId) {
        let mut state = self.state.borrow_mut();
        state.fibers[fiber.0].cancels += 1;
        state.progress = true;
    }

    /// Rule 5: cancels losers, and waits until those that were told have settled.
    pub(crate) async fn cancel_losers(&self, losers: &[FiberId]) -> Result<(), Stop> {
        let open: Vec<FiberId> = losers
            .iter()
            .filter(|fiber| self.outcome(**fiber).is_none())
            .copied()
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        if self.rules()? == Rules::Flat {
            open.iter().for_each(|fiber| self.cancel(*fiber));
            return Ok(());
        }
        open.iter().for_each(|fiber| self.state.borrow_mut().tell(fiber.0));
        if is_planted(Bug::LosersLeft) {
            return Ok(());
        }
        let all = |outcomes: &[Option<Outcome>]| outcomes.iter().all(Option::is_some).then_some(());
        self.join(&open, all).await
    }

    fn outcome(&self, fiber: FiberId) -> Option<Outcome> {
        self.state.borrow().fibers[fiber.0].outcome.clone()
    }

    /// Waits until `done` returns a value for the outcomes of these fibers so far, in their order. The fibers are
    /// cancelled with the fiber that waits and owns them.
    async fn join<T>(&self, fibers: &[FiberId], done: impl Fn(&[Option<Outcome>]) -> Option<T>) -> Result<T, Stop> {
        let since = self.cancels();
        std::future::poll_fn(|_| {
            if self.takes_error(fibers) {
                return Poll::Ready(Err(Stop::Cancelled));
            }
            if self.is_interrupted() {
                return Poll::Pending;
            }
            let outcomes: Vec<Option<Outcome>> = fibers.iter().map(|fiber| self.outcome(*fiber)).collect();
            if let Some(done) = done(&outcomes) {
                self.state.borrow_mut().progress = true;
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

    /// Returns the sum of all outcomes, or the first failure.
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

    /// Returns the place of the first fiber that settles.
    pub(crate) async fn race(&self, fibers: &[FiberId]) -> Result<usize, Stop> {
        self.join(fibers, |outcomes| outcomes.iter().position(Option::is_some))
            .await
    }
}

pub(crate) fn refused(error: RuntimeError) -> Stop {
    Stop::Refused(Box::new(error))
}

#[cfg(test)]
mod tests;

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

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use perdure_engine::{Awaited, Bug, Command, Delivery, EventId, Mailbox, Payload, is_planted};
use perdure_runtime::RuntimeError;

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
    fn trace(&self, line: String) -> Result<(), RuntimeError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FiberId(usize);

struct Fiber {
    future: Option<Pin<Box<dyn Future<Output = Outcome>>>>,
    /// The outcome of the function, once it has ended.
    ended: Option<Outcome>,
    /// The same outcome, once the fiber has settled.
    outcome: Option<Outcome>,
    owner: Option<usize>,
    /// The number of cancellations by the flat rules. A wait that began before the last one is given up.
    cancels: u32,
    /// True if the fiber was told to cancel.
    is_told: bool,
    /// True if the fiber was told and has not got its error yet.
    is_interrupted: bool,
}

#[derive(Default)]
struct State {
    fibers: Vec<Fiber>,
    /// The fiber that is polled.
    current: usize,
    /// True if any fiber has got on since the flag was reset.
    progress: bool,
    settled: BTreeMap<EventId, Result<Payload, String>>,
    mail: VecDeque<(Mailbox, Payload)>,
    awaited: Awaited,
    /// The awaited operations and mailboxes, each with its fiber.
    pending: Vec<(usize, String)>,
    /// The rules, unless they have made no difference so far.
    rules: Option<Rules>,
}

impl State {
    /// Rule 2: tells a fiber and all that it owns.
    fn tell(&mut self, at: usize) {
        let fiber = &mut self.fibers[at];
        if fiber.is_told {
            // To interrupt its cleanup is the bug.
            fiber.is_interrupted |= is_planted(Bug::CleanupInterrupted) && fiber.ended.is_none();
            return;
        }
        if fiber.outcome.is_none() {
            fiber.is_told = true;
            fiber.is_interrupted = fiber.ended.is_none();
        }
        for below in at + 1..self.fibers.len() {
            if self.fibers[below].owner == Some(at) {
                self.tell(below);
            }
        }
        self.progress = true;
    }

    /// Rule 4: settles a fiber, unless a told fiber below it is open.
    fn settle(&mut self, at: usize) {
        let fiber = &self.fibers[at];
        let Some(ended) = fiber.ended.clone().filter(|_| fiber.outcome.is_none()) else {
            return;
        };
        let is_dropped = at == 0 && is_planted(Bug::CleanupDropped);
        if fiber.is_told && self.has_told_below(at) && !is_dropped {
            return;
        }
        self.fibers[at].outcome = Some(ended);
        self.progress = true;
    }

    fn has_told_below(&self, at: usize) -> bool {
        let owner_of = |below: &usize| self.fibers[*below].owner;
        let is_below = |below: usize| std::iter::successors(Some(below), owner_of).any(|above| above == at);
        let mut below = at + 1..self.fibers.len();
        below.any(|below| self.is_told_and_open(below) && is_below(below))
    }

    fn is_told_and_open(&self, at: usize) -> bool {
        self.fibers[at].is_told && self.fibers[at].outcome.is_none()
    }
}

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
                Target::Mailbox(_) => Ok(()),
            };
            Poll::Ready(Err(given_up.err().unwrap_or(Stop::Cancelled)))
        })
        .await
    }

    fn take(&self, target: &Target) -> Option<Result<Payload, String>> {
        let mut state = self.state.borrow_mut();
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
        let mut state = self.state.borrow_mut();
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
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use super::*;

    /// Code of a test with the fibers that run it. Its steps are timers that the test fires by name.
    #[derive(Clone)]
    struct Desk {
        fibers: Fibers,
        calls: Rc<Timers>,
        asked: Rc<Cell<u32>>,
    }

    #[derive(Default)]
    struct Timers {
        count: Cell<u64>,
        open: RefCell<HashMap<&'static str, EventId>>,
    }

    impl Desk {
        fn new(rules: Rules) -> Self {
            let asked = Rc::new(Cell::new(0));
            let counts = Rc::clone(&asked);
            let ask: AskRules = Box::new(move || {
                counts.set(counts.get() + 1);
                Ok(rules)
            });
            Self {
                fibers: Fibers::new(None, ask),
                calls: Rc::default(),
                asked,
            }
        }

        async fn step(self, name: &'static str) -> Outcome {
            let id = self
                .calls
                .issue(Command::CreateTimer { delay_ms: 1 })
                .map_err(refused)?;
            self.calls.open.borrow_mut().insert(name, id);
            self.fibers.operation(&*self.calls, id, true).await?;
            Ok(1)
        }

        /// A step, and another one if it is cancelled.
        async fn guarded(self, step: &'static str, cleanup: &'static str) -> Outcome {
            self.clone()
                .cleaned(Box::pin(self.clone().step(step)).await, cleanup)
                .await
        }

        async fn cleaned(self, outcome: Outcome, cleanup: &'static str) -> Outcome {
            if outcome == Err(Stop::Cancelled) {
                self.step(cleanup).await?;
            }
            outcome
        }

        fn spawn(&self, future: impl Future<Output = Outcome> + 'static) -> FiberId {
            self.fibers.spawn(future)
        }

        /// Runs until all fibers wait. Returns the open steps in the order of their names.
        fn open(&self) -> Vec<&'static str> {
            assert_eq!(self.fibers.run(), None);
            let mut open: Vec<_> = self.calls.open.borrow().keys().copied().collect();
            open.sort_unstable();
            open
        }

        fn fire(&self, name: &str) {
            let operation = self.calls.open.borrow_mut().remove(name).expect("the step is open");
            let delivered = self.fibers.deliver(Delivery::Succeeded { operation, value: None });
            delivered.expect("nothing is asked for");
        }

        fn cancel(&self) {
            let delivered = self.fibers.deliver(Delivery::Cancel { reason: None });
            delivered.expect("the rules are known");
        }
    }

    impl Calls for Timers {
        fn issue(&self, command: Command) -> Result<EventId, RuntimeError> {
            if let Command::CancelOperation { scheduled } = command {
                self.open.borrow_mut().retain(|_, id| *id != scheduled);
            }
            self.count.set(self.count.get() + 1);
            Ok(EventId(self.count.get()))
        }

        fn is_replaying(&self) -> Result<bool, RuntimeError> {
            Ok(false)
        }

        fn patched(&self, _patch: &str) -> Result<bool, RuntimeError> {
            Ok(true)
        }

        fn random(&self) -> Result<f64, RuntimeError> {
            Ok(0.5)
        }

        fn random_uuid(&self) -> Result<String, RuntimeError> {
            Ok(String::new())
        }

        fn time_ms(&self) -> i64 {
            0
        }

        fn set_status(&self, _value: Payload) -> Result<(), RuntimeError> {
            Ok(())
        }

        fn trace(&self, _line: String) -> Result<(), RuntimeError> {
            Ok(())
        }
    }

    /// The main fiber waits for two branches. All three clean up.
    fn waits_for_two(rules: Rules) -> Desk {
        let desk = Desk::new(rules);
        let main = desk.clone();
        desk.spawn(async move {
            let branches = [("a", "undo a"), ("b", "undo b")];
            let branches = branches.map(|(step, cleanup)| main.spawn(main.clone().guarded(step, cleanup)));
            let outcome = main.fibers.all(&branches).await;
            main.cleaned(outcome, "undo main").await
        });
        assert_eq!(desk.open(), ["a", "b"]);
        desk.cancel();
        desk
    }

    #[test]
    fn told_fiber_gets_its_error_after_the_cleanup_that_it_waits_for() {
        let desk = waits_for_two(Rules::Scoped);
        assert_eq!(desk.open(), ["undo a", "undo b"]);
        desk.fire("undo b");
        assert_eq!(desk.open(), ["undo a"]);
        desk.fire("undo a");
        assert_eq!(desk.open(), ["undo main"]);
        desk.fire("undo main");
        assert_eq!(desk.fibers.run(), Some(Err(Stop::Cancelled)));
        desk.fibers.clear();
    }

    #[test]
    fn flat_rules_end_with_the_main_fiber() {
        let desk = waits_for_two(Rules::Flat);
        assert_eq!(desk.open(), ["undo a", "undo b", "undo main"]);
        desk.fire("undo main");
        assert_eq!(desk.fibers.run(), Some(Err(Stop::Cancelled)));
        desk.fibers.clear();
    }

    #[test]
    fn second_request_does_not_interrupt_the_cleanup() {
        let desk = waits_for_two(Rules::Scoped);
        assert_eq!(desk.open(), ["undo a", "undo b"]);
        desk.cancel();
        assert_eq!(desk.open(), ["undo a", "undo b"]);
        assert_eq!(desk.asked.get(), 1);
        desk.fibers.clear();
    }

    #[test]
    fn told_fiber_settles_after_what_it_owns() {
        let desk = Desk::new(Rules::Scoped);
        let main = desk.clone();
        desk.spawn(async move {
            let owner = main.clone();
            // The fiber settles at once, and the fiber that it made goes on.
            main.spawn(async move {
                owner.spawn(owner.clone().guarded("a", "undo a"));
                Ok(0)
            });
            main.step("main").await
        });
        assert_eq!(desk.open(), ["a", "main"]);
        desk.cancel();
        assert_eq!(desk.open(), ["undo a"]);
        desk.fire("undo a");
        assert_eq!(desk.fibers.run(), Some(Err(Stop::Cancelled)));
        desk.fibers.clear();
    }

    #[test]
    fn race_goes_on_after_its_losers() {
        let desk = Desk::new(Rules::Scoped);
        let main = desk.clone();
        desk.spawn(async move {
            let fibers = [
                main.spawn(main.clone().step("a")),
                main.spawn(main.clone().guarded("b", "undo b")),
            ];
            let winner = main.fibers.race(&fibers).await?;
            main.fibers.cancel_losers(&[fibers[1 - winner]]).await?;
            main.step("after").await
        });
        assert_eq!(desk.open(), ["a", "b"]);
        desk.fire("a");
        assert_eq!(desk.open(), ["undo b"]);
        desk.fire("undo b");
        assert_eq!(desk.open(), ["after"]);
        desk.fire("after");
        assert_eq!(desk.fibers.run(), Some(Ok(1)));
        desk.fibers.clear();
    }

    #[test]
    fn rules_are_asked_for_where_they_make_a_difference() {
        let desk = Desk::new(Rules::Scoped);
        let main = desk.clone();
        desk.spawn(async move {
            let fibers = [main.spawn(main.clone().step("a")), main.spawn(main.clone().step("b"))];
            main.fibers.all(&fibers).await?;
            main.fibers.cancel_losers(&fibers).await?;
            main.guarded("c", "undo c").await
        });
        assert_eq!(desk.open(), ["a", "b"]);
        desk.fire("a");
        desk.fire("b");
        assert_eq!(desk.open(), ["c"]);
        desk.cancel();
        assert_eq!(desk.open(), ["undo c"]);
        assert_eq!((desk.asked.get(), desk.fibers.known_rules()), (0, None));
        desk.fibers.clear();
    }
}

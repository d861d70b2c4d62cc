//! Fibers whose steps are timers that a test fires by name.

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
        let delivered = self.fibers.deliver(Delivery::Cancel {
            reason: None,
            timeout_ms: None,
        });
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

    fn set_polled(&self, _mailbox: Mailbox, _is_polled: bool) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn accept_ask(&self) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn refuse_ask(&self, _ask: String, _error: Payload) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn answer_ask(&self, _ask: String, _answer: Answer) -> Result<(), RuntimeError> {
        Ok(())
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

    fn change_state(&self, _change: &StateChange) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn write_stream(&self, _stream: &str, _entry: &Payload) -> Result<bool, RuntimeError> {
        Ok(true)
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
fn told_fiber_settles_after_its_own_fibers() {
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
fn race_settles_after_its_losers() {
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

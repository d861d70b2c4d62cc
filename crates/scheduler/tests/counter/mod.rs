//! A process that notes the events that it receives, and a function with which a thread waits for a future.

use std::future::Future;
use std::ops::DerefMut;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
use perdure_scheduler::{Control, LaneId, NextAction, Process};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

const UNBROKEN: &str = "no test panics while it holds a lock";

/// A process that needs something before its first step if asked to, and has a step for each event.
pub(crate) struct Counter {
    core: Mutex<Core>,
    needs_first: bool,
}

#[derive(Default)]
pub(crate) struct Core {
    pub(crate) control: Control<u32>,
    /// Events that its steps have taken.
    pub(crate) taken: Vec<u32>,
    pub(crate) is_closed: bool,
}

impl Counter {
    pub(crate) fn new(needs_first: bool) -> Arc<Self> {
        let core = Mutex::new(Core::default());
        Arc::new(Self { core, needs_first })
    }
}

impl Process for Counter {
    type Event = u32;
    type Need = ();
    type Core = Core;
    type Services = ();

    fn lock(&self) -> impl DerefMut<Target = Core> {
        self.core.lock().expect(UNBROKEN)
    }

    fn control(core: &mut Core) -> &mut Control<u32> {
        &mut core.control
    }

    fn init(&self, _: &mut Core) -> Option<()> {
        self.needs_first.then_some(())
    }

    fn keep(&self, core: &mut Core, event: u32) -> bool {
        core.control.put(event);
        true
    }

    fn next(&self, core: &mut Core, (): &()) -> NextAction<()> {
        // Only the wakeup flag remembers the events that come during a step.
        if core.control.is_idle() {
            NextAction::Step
        } else {
            NextAction::Rest
        }
    }

    fn step(&self, core: &mut Core, (): &(), _: LaneId) -> Option<()> {
        core.taken.extend(core.control.take());
        None
    }

    fn close(&self, core: &mut Core, (): &()) {
        core.is_closed = true;
    }
}

/// The bell on which a thread waits for a wake of its future.
struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.has_rung.lock().expect(UNBROKEN) = true;
        self.rings.notify_one();
    }
}

/// Waits for a future on this thread. If a wake is lost, the thread waits for ever.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let bell = Arc::new(Bell {
        has_rung: Mutex::new(false),
        rings: Condvar::new(),
    });
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut has_rung = bell.has_rung.lock().expect(UNBROKEN);
        while !std::mem::take(&mut *has_rung) {
            has_rung = bell.rings.wait(has_rung).expect(UNBROKEN);
        }
    }
}

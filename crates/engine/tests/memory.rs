//! Memory of a sleeping engine. The allocations of this thread alone are counted: the threads of the test runner
//! allocate too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use perdure_engine::{
    ActivityOptions, Awaited, Budget, Command, Completion, Engine, EventId, EventRecord, ExecutionId, ExecutionStarted,
    Mailbox, Message, MessageBody, MessageSeq, Start, StateValues, Step,
};

struct Counting;

thread_local! {
    /// Bytes in use that this thread has allocated, less those that it has freed.
    static USED: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize, sign: isize) {
    let bytes = isize::try_from(bytes).expect("no allocation is larger");
    // A thread that ends still frees.
    let _ = USED.try_with(|used| used.set(used.get() + sign * bytes));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Creates an engine that waits for an event or a timer, after it has run a few steps.
fn sleeping(steps: u64) -> Engine {
    let start = ExecutionStarted {
        name: "order".into(),
        version: "1.0.0".into(),
        input: Some("12".into()),
        seed: 1,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    };
    let history = vec![EventRecord::new(EventId::FIRST, 0, start)];
    let start = Start {
        execution: ExecutionId::FIRST,
        history,
        complete: true,
        fresh: true,
        budget: Budget::default(),
    };
    let mut engine = Engine::new(start).expect("a sound history");
    for step in 0..steps {
        let options = ActivityOptions::default();
        let scheduled = engine
            .issue(Command::ScheduleActivity {
                name: "step".into(),
                input: None,
                options,
            })
            .expect("it is live");
        assert_eq!(engine.next(Awaited::default(), 0), Ok(Step::Wait));
        engine.end_turn();
        engine.offer(Completion::ActivityCompleted {
            scheduled,
            output: Some("a value of some length".into()),
        });
        let body = MessageBody::Mail {
            mailbox: Mailbox::Queue("jobs".into()),
            payload: Some("1".into()),
        };
        engine.offer(Completion::Message(Message {
            seq: MessageSeq(step),
            body,
        }));
        for _ in 0..2 {
            let awaited = Awaited {
                mailboxes: vec![Mailbox::Queue("jobs".into())],
                timers: Vec::new(),
            };
            assert!(matches!(engine.next(awaited, 0), Ok(Step::Deliver { .. })));
        }
    }
    let timer = engine
        .issue(Command::CreateTimer { delay_ms: 86_400_000 })
        .expect("it is live");
    let awaited = Awaited {
        mailboxes: vec![Mailbox::Event("approve".into())],
        timers: vec![timer],
    };
    assert_eq!(engine.next(awaited, 0), Ok(Step::Wait));
    engine.end_turn();
    engine
}

#[test]
fn a_sleeping_engine_is_small() {
    for steps in [0, 1, 500] {
        let before = USED.get();
        let engine = Box::new(sleeping(steps));
        let used = USED.get() - before;
        let itself = size_of_val(&*engine);
        println!("after {steps} steps: {used} bytes, of which the engine itself {itself}");
        assert!(used < 1_536, "{used} bytes");
    }
}

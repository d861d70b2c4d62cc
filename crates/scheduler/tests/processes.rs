//! Processes, the directory in which they are found, and how they end.
#![cfg(not(loom))]

mod counter;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use counter::{Counter, block_on};
use perdure_scheduler::{Class, Directory, Drain, LaneId, Lanes, NextAction, Place, Process, State};

const MAIN: LaneId = LaneId(0);

/// Creates a process that has had its first step and waits.
fn waiting() -> Arc<Counter> {
    let process = Counter::new(false);
    {
        let mut core = process.lock();
        assert_eq!(process.start(&mut core), NextAction::Step);
        assert_eq!(process.begin(&mut core, &(), MAIN), NextAction::Step);
        assert_eq!(process.rest(&mut core, &(), false), NextAction::Rest);
    }
    process
}

#[test]
fn is_pushed_once_however_much_it_is_sent() {
    let process = waiting();
    let mut core = process.lock();
    assert_eq!(process.send(&mut core, &(), 1), NextAction::Step);
    assert_eq!(process.send(&mut core, &(), 2), NextAction::Rest);
    assert_eq!(process.begin(&mut core, &(), MAIN), NextAction::Step);
    assert_eq!(core.taken, [1, 2]);
    assert_eq!(process.rest(&mut core, &(), false), NextAction::Rest, "nothing is left");
}

#[test]
fn a_message_during_a_step_or_a_block_makes_another_step() {
    for blocks in [false, true] {
        let process = waiting();
        let mut core = process.lock();
        assert_eq!(process.send(&mut core, &(), 1), NextAction::Step);
        assert_eq!(process.begin(&mut core, &(), MAIN), NextAction::Step);
        assert!(!blocks || core.control.block());
        assert_eq!(process.wake(&mut core, &()), NextAction::Rest);
        assert_eq!(
            process.rest(&mut core, &(), false),
            NextAction::Step,
            "it was woken meanwhile"
        );
        assert_eq!(process.begin(&mut core, &(), MAIN), NextAction::Step);
        assert_eq!(
            process.rest(&mut core, &(), false),
            NextAction::Rest,
            "the wake was used up"
        );
        assert!(core.control.is_idle());
    }
}

#[test]
fn a_process_with_a_need_is_blocked_until_the_need_is_met() {
    let process = Counter::new(true);
    let mut core = process.lock();
    assert_eq!(process.start(&mut core), NextAction::Needs(()));
    assert_eq!(process.send(&mut core, &(), 1), NextAction::Rest);
    assert_eq!(process.begin(&mut core, &(), MAIN), NextAction::Rest);
    assert!(core.control.resume() && !core.control.resume());
    assert_eq!(process.begin(&mut core, &(), MAIN), NextAction::Step);
    assert_eq!(core.taken, [1]);
}

#[test]
fn nothing_wakes_a_stopped_process() {
    let process = waiting();
    assert_eq!(process.send(&mut process.lock(), &(), 1), NextAction::Step);
    process.stop(&());
    let mut core = process.lock();
    assert!(core.is_closed);
    assert_eq!(process.begin(&mut core, &(), MAIN), NextAction::Rest);
    assert_eq!(process.send(&mut core, &(), 2), NextAction::Rest);
    assert_eq!(process.rest(&mut core, &(), true), NextAction::Rest);
    assert!(!core.control.block() && !core.control.resume());
    assert_eq!(core.control.state(), State::Complete);
    core.control.renew();
    assert_eq!(process.wake(&mut core, &()), NextAction::Step, "what came is kept");
}

#[test]
fn an_event_goes_to_the_process_of_its_id_or_comes_back_as_nobodys() {
    let mut directory: Directory<&str, Counter> = Directory::default();
    assert!(directory.insert("a", waiting()).is_none());
    assert!(directory.is_at_rest());
    let sent = directory.send(&"a", &(), 1).map(|(_, action)| action);
    assert_eq!(sent, Some(NextAction::Step));
    assert!(!directory.is_at_rest());
    assert!(directory.send(&"b", &(), 1).is_none());
    directory.drain().for_each(|process| process.stop(&()));
    assert!(directory.is_at_rest() && directory.get(&"a").is_none());
}

/// A million events for a thousand processes over four lanes: each event is taken exactly once, and then all processes
/// end.
#[test]
fn a_million_events_are_taken_once_each() {
    const EVENTS: u32 = 1_000_000;
    const PROCESSES: u32 = 1_000;
    const LANES: usize = 4;
    let mut directory: Directory<u32, Counter> = Directory::default();
    for id in 0..PROCESSES {
        directory.insert(id, waiting());
    }
    // `None` ends a lane.
    let lanes: Lanes<Option<Arc<Counter>>> = Lanes::new(LANES);
    let drain = Drain::default();
    let steps = AtomicUsize::new(0);
    thread::scope(|scope| {
        for lane in (0..LANES).map(LaneId) {
            let (lanes, drain, steps) = (&lanes, &drain, &steps);
            scope.spawn(move || {
                let me = thread::current();
                lanes.attach(lane, Box::new(move || me.unpark()));
                loop {
                    let Some(job) = lanes.pop(lane) else {
                        thread::park();
                        continue;
                    };
                    let Some(process) = job else { return };
                    let action = process.begin(&mut process.lock(), &(), lane);
                    assert_eq!(action, NextAction::Step, "nobody ends it, and it is queued once");
                    steps.fetch_add(1, SeqCst);
                    let action = process.rest(&mut process.lock(), &(), false);
                    if action == NextAction::Step {
                        // The drain in progress finds it.
                        let _ = lanes.push_from(lane, Place::Any, Class::First, Some(process));
                    }
                    drain.tell();
                }
            });
        }
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let (directory, lanes) = (&directory, &lanes);
                scope.spawn(move || {
                    for event in (producer..EVENTS).step_by(2) {
                        let (process, action) = directory.send(&(event % PROCESSES), &(), event).expect("it is there");
                        if action == NextAction::Step {
                            lanes.push(Place::Any, Class::First, Some(Arc::clone(process)));
                        }
                    }
                })
            })
            .collect();
        for producer in producers {
            producer.join().expect("it has sent all");
        }
        drain.begin();
        block_on(drain.over(|| directory.is_at_rest()));
        assert!(lanes.is_empty());
        (0..LANES).for_each(|lane| lanes.push(Place::At(LaneId(lane)), Class::Later, None));
    });
    let mut taken: Vec<u32> = directory
        .iter()
        .flat_map(|process| process.lock().taken.clone())
        .collect();
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..EVENTS));
    assert!(steps.load(SeqCst) <= EVENTS as usize, "no step without an event");
}

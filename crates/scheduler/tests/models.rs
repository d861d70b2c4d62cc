//! Every order in which threads can come to the protocols of this crate, with few jobs and small capacities:
//! `RUSTFLAGS="--cfg loom" cargo test -p perdure-scheduler --release --test models`.
#![cfg(loom)]

mod counter;

use counter::{Counter, block_on};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;
use perdure_scheduler::{Class, Directory, Drain, LaneId, Lanes, NextAction, Place, Process};

const MAIN: LaneId = LaneId(0);
const OTHER: LaneId = LaneId(1);

/// Maximum number of preemptions in one run: switches away from a thread that could go on. More of them find nothing
/// else here and take hours.
const PREEMPTIONS_MAX: usize = 3;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(model);
}

/// Creates lanes whose threads were attached and have found no job yet. Counts how often each lane is woken.
fn lanes(count: usize) -> (Arc<Lanes<u32>>, Vec<Arc<AtomicUsize>>) {
    let lanes = Arc::new(Lanes::new(count));
    let wakes: Vec<_> = (0..count).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    for (n, wakes) in wakes.iter().enumerate() {
        let wakes = Arc::clone(wakes);
        lanes.attach(
            LaneId(n),
            Box::new(move || {
                wakes.fetch_add(1, SeqCst);
            }),
        );
    }
    (lanes, wakes)
}

fn drain(lanes: &Lanes<u32>, id: LaneId) -> Vec<u32> {
    std::iter::from_fn(|| lanes.pop(id)).collect()
}

fn sorted(jobs: impl IntoIterator<Item = Vec<u32>>) -> Vec<u32> {
    let mut jobs: Vec<u32> = jobs.into_iter().flatten().collect();
    jobs.sort_unstable();
    jobs
}

/// L3: a lane that parks while a job is pushed to it either takes the job or is woken for it.
#[test]
fn park_against_push() {
    for place in [Place::At(MAIN), Place::Any] {
        for count in [1, 2] {
            check(move || {
                let (lanes, wakes) = lanes(count);
                // The lane is at work: it takes this job and then finds none.
                lanes.push(Place::At(MAIN), Class::First, 0);
                wakes[0].store(0, SeqCst);
                let pusher = Arc::clone(&lanes);
                let push = thread::spawn(move || pusher.push(place, Class::First, 1));
                let mut taken = drain(&lanes, MAIN);
                push.join().unwrap();
                if taken == [0] {
                    let woken: Vec<usize> = wakes.iter().map(|wakes| wakes.load(SeqCst)).collect();
                    let id = woken.iter().position(|n| *n > 0).expect("somebody is woken");
                    taken.extend(drain(&lanes, LaneId(id)));
                }
                assert_eq!(taken, [0, 1]);
            });
        }
    }
}

/// L4: a job that one lane has taken for itself is run once, by that lane or by a thief.
#[test]
fn steal_against_pop() {
    check(|| {
        let (lanes, _) = lanes(2);
        assert!(lanes.push_from(MAIN, Place::Any, Class::Later, 1));
        assert!(!lanes.push_from(MAIN, Place::Any, Class::Later, 2));
        let thief = Arc::clone(&lanes);
        let stolen = thread::spawn(move || drain(&thief, OTHER));
        let own = drain(&lanes, MAIN);
        let stolen = stolen.join().unwrap();
        // A job that a thief took in advance and did not run is there for the first lane that looks.
        let rest = [drain(&lanes, MAIN), drain(&lanes, OTHER)];
        assert_eq!(sorted([own, stolen].into_iter().chain(rest)), [1, 2]);
    });
}

/// L5: a job for any lane does not wait while a lane that could run it sleeps without being woken.
#[test]
fn no_lane_sleeps_while_a_job_waits_for_any() {
    check(|| {
        let (lanes, wakes) = lanes(2);
        for id in [MAIN, OTHER] {
            lanes.push(Place::At(id), Class::First, 0);
        }
        wakes.iter().for_each(|wakes| wakes.store(0, SeqCst));
        let other = Arc::clone(&lanes);
        let looks = thread::spawn(move || drain(&other, OTHER));
        // This lane is busy with the first job, and asks for another one.
        assert_eq!(lanes.pop(MAIN), Some(0));
        assert!(!lanes.push_from(MAIN, Place::Any, Class::Later, 1));
        let first = looks.join().unwrap();
        let is_asked = wakes[1].load(SeqCst) > 0;
        assert!(first == [0, 1] || is_asked);
        assert_eq!(sorted([first, drain(&lanes, OTHER), drain(&lanes, MAIN)]), [0, 1]);
    });
}

/// A lane whose thread ends leaves no job behind without waking another lane.
#[test]
fn detach_against_push() {
    check(|| {
        let (lanes, wakes) = lanes(2);
        let pusher = Arc::clone(&lanes);
        let push = thread::spawn(move || pusher.push(Place::Any, Class::First, 1));
        let pinned = lanes.detach(OTHER);
        push.join().unwrap();
        assert_eq!(pinned, []);
        assert!(wakes[0].load(SeqCst) > 0, "the one that is left is woken");
        assert_eq!(drain(&lanes, MAIN), [1]);
    });
}

/// Jobs are ids of processes, of which there is one.
const ONE: u32 = 1;

/// Creates a directory with one process, which is to have its first step, or needs something before.
fn directory(needs_first: bool) -> Arc<Directory<u32, Counter>> {
    let mut directory = Directory::default();
    directory.insert(ONE, Counter::new(needs_first));
    Arc::new(directory)
}

fn send(directory: &Directory<u32, Counter>, lanes: &Lanes<u32>, event: u32) {
    let (_, action) = directory.send(&ONE, &(), event).expect("it is there");
    if action == NextAction::Step {
        lanes.push(Place::Any, Class::First, ONE);
    }
}

/// Runs the steps that wait.
fn run(directory: &Directory<u32, Counter>, lanes: &Lanes<u32>) {
    while lanes.pop(MAIN).is_some() {
        let process = directory.get(&ONE).expect("it is there");
        let action = process.begin(&mut process.lock(), &(), MAIN);
        assert_eq!(action, NextAction::Step, "queued at most once");
        // Other threads come to the process here, while its code runs.
        let action = process.rest(&mut process.lock(), &(), false);
        if action == NextAction::Step {
            lanes.push(Place::Any, Class::First, ONE);
        }
    }
}

fn taken(directory: &Directory<u32, Counter>) -> Vec<u32> {
    let mut taken = directory.get(&ONE).expect("it is there").lock().taken.clone();
    taken.sort_unstable();
    taken
}

/// L1, L2 and L6: two threads send while a step begins, runs and ends; no event is lost and none is taken twice.
#[test]
fn send_against_step() {
    check(|| {
        let (directory, (lanes, _)) = (directory(false), lanes(1));
        let process = directory.get(&ONE).expect("it is there");
        assert_eq!(process.start(&mut process.lock()), NextAction::Step);
        lanes.push(Place::Any, Class::First, ONE);
        let (others, queue) = (Arc::clone(&directory), Arc::clone(&lanes));
        let other = thread::spawn(move || send(&others, &queue, 1));
        run(&directory, &lanes);
        send(&directory, &lanes, 2);
        run(&directory, &lanes);
        other.join().unwrap();
        run(&directory, &lanes);
        assert_eq!(taken(&directory), [1, 2]);
        assert!(directory.is_at_rest());
    });
}

/// L1, L2 and L6 for a blocked process: events that come before it is resumed wait for its step.
#[test]
fn send_against_resume() {
    check(|| {
        let (directory, (lanes, _)) = (directory(true), lanes(1));
        let process = directory.get(&ONE).expect("it is there");
        assert_eq!(process.start(&mut process.lock()), NextAction::Needs(()));
        let (others, queue) = (Arc::clone(&directory), Arc::clone(&lanes));
        let giver = thread::spawn(move || {
            let process = others.get(&ONE).expect("it is there");
            let is_ready = process.lock().control.resume();
            assert!(is_ready, "nobody else has given it that");
            queue.push(Place::Any, Class::First, ONE);
        });
        send(&directory, &lanes, 1);
        run(&directory, &lanes);
        giver.join().unwrap();
        run(&directory, &lanes);
        assert_eq!(taken(&directory), [1]);
        assert!(directory.is_at_rest());
    });
}

/// A process that is ended while an event is sent to it has the event or not, and has no further step.
#[test]
fn send_against_stop() {
    check(|| {
        let (directory, (lanes, _)) = (directory(false), lanes(1));
        let (others, queue) = (Arc::clone(&directory), Arc::clone(&lanes));
        let other = thread::spawn(move || send(&others, &queue, 1));
        let process = directory.get(&ONE).expect("it is there");
        process.stop(&());
        other.join().unwrap();
        drain(&lanes, MAIN).into_iter().for_each(|_| {
            let action = process.begin(&mut process.lock(), &(), MAIN);
            assert_eq!(action, NextAction::Rest, "it is over");
        });
        assert!(process.lock().is_closed && directory.is_at_rest());
    });
}

/// L7: the waiter of the drain is told when the last step is over, no matter when its event was sent. If a wake is
/// lost, the waiter waits for ever.
#[test]
fn drain_against_send() {
    check(|| {
        let (directory, (lanes, _)) = (directory(false), lanes(1));
        let draining = Arc::new(Drain::default());
        send(&directory, &lanes, 1);
        let (others, queue, teller) = (Arc::clone(&directory), Arc::clone(&lanes), Arc::clone(&draining));
        let lane = thread::spawn(move || {
            // The sender sends nothing new once the end has begun.
            if !teller.has_begun() {
                send(&others, &queue, 2);
            }
            run(&others, &queue);
            teller.tell();
        });
        draining.begin();
        block_on(draining.over(|| directory.is_at_rest()));
        assert!(taken(&directory).contains(&1), "it was under way");
        lane.join().unwrap();
        assert!(matches!(&*taken(&directory), [1] | [1, 2]));
    });
}

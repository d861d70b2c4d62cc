//! Every order in which threads can come to the protocols of this crate, with few jobs and small capacities:
//! `RUSTFLAGS="--cfg loom" cargo test -p perdure-scheduler --release --test models`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;
use perdure_scheduler::{Class, LaneId, Lanes, Place, Process};

const MAIN: LaneId = LaneId(0);
const OTHER: LaneId = LaneId(1);

/// Changes from one thread to another where that could go on, in one run. More find nothing else here and take hours.
const PREEMPTIONS_MAX: usize = 3;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(model);
}

/// Lanes whose threads were attached and found nothing yet, and how often each was woken.
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

/// L3: a lane that goes to sleep while something is pushed to it either takes it or is woken for it.
#[test]
fn park_against_push() {
    for place in [Place::At(MAIN), Place::Any] {
        for count in [1, 2] {
            check(move || {
                let (lanes, wakes) = lanes(count);
                // It is at work: it takes this and then finds nothing.
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

/// L4: what one lane has taken for itself is run once, by it or by a thief.
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
        // What a thief has taken along and not come to is there for the first that looks.
        let rest = [drain(&lanes, MAIN), drain(&lanes, OTHER)];
        assert_eq!(sorted([own, stolen].into_iter().chain(rest)), [1, 2]);
    });
}

/// L5: a job for any lane does not wait while one that could run it sleeps unasked.
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
        // This one is busy with the first, and asks for another.
        assert_eq!(lanes.pop(MAIN), Some(0));
        assert!(!lanes.push_from(MAIN, Place::Any, Class::Later, 1));
        let first = looks.join().unwrap();
        let is_asked = wakes[1].load(SeqCst) > 0;
        assert!(first == [0, 1] || is_asked);
        assert_eq!(sorted([first, drain(&lanes, OTHER), drain(&lanes, MAIN)]), [0, 1]);
    });
}

/// A lane whose thread ends leaves nothing behind that nobody is told of.
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

/// L1 and L2: whatever happens while a process runs is seen by a step that begins after it.
#[test]
fn wakeup_flag() {
    check(|| {
        // What happened, and what a step has seen of it.
        let shared = Arc::new(Mutex::new((Process::default(), 0_u32, 0_u32)));
        let (lanes, _) = lanes(1);
        let tell = |shared: &Mutex<(Process, u32, u32)>, lanes: &Lanes<u32>| {
            let mut locked = shared.lock().unwrap();
            locked.1 += 1;
            if locked.0.notify() {
                drop(locked);
                lanes.push(Place::Any, Class::First, 1);
            }
        };
        let (teller, told) = (Arc::clone(&shared), Arc::clone(&lanes));
        let other = thread::spawn(move || tell(&teller, &told));
        tell(&shared, &lanes);
        let run = || {
            while lanes.pop(MAIN).is_some() {
                let happened = {
                    let mut locked = shared.lock().unwrap();
                    assert!(locked.0.begin(), "queued at most once");
                    locked.1
                };
                let mut locked = shared.lock().unwrap();
                locked.2 = happened;
                if locked.0.end(false) {
                    drop(locked);
                    lanes.push(Place::Any, Class::First, 1);
                }
            }
        };
        run();
        other.join().unwrap();
        run();
        let locked = shared.lock().unwrap();
        assert_eq!((locked.1, locked.2), (2, 2), "nothing is missed");
    });
}

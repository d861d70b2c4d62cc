//! The lanes of a runtime: the queues into which jobs go, and the order in which a lane takes them.

use std::sync::atomic::Ordering::Relaxed;

use crate::deque::Shared;
use crate::lane::{Class, Lane, LaneId, LaneStats, PASSED_OVER_MAX, Pinned, Wake};

/// Number of jobs after which a lane takes a shared job before its own ones.
const SHARED_EVERY: u64 = if cfg!(loom) { 2 } else { 61 };

/// Lanes that may run a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Any lane.
    Any,
    /// This lane alone.
    At(LaneId),
}

/// Lanes, each with a thread that may be parked.
pub struct Lanes<J> {
    lanes: Box<[Lane<J>]>,
    /// Jobs for any lane, by class.
    shared: [Shared<J>; 3],
}

/// Takes the next job of a single lane, all under one lock.
fn next_alone<J>(lane: &Lane<J>) -> Option<J> {
    let mut pinned = lane.pinned.lock();
    let begun = |pinned: &mut Pinned<J>| pinned.pop(Class::First).or_else(|| pinned.pop(Class::Later));
    if lane.passed_over.load(Relaxed) < PASSED_OVER_MAX
        && let Some(job) = begun(&mut pinned)
    {
        lane.passed_over.fetch_add(u64::from(pinned.has(Class::New)), Relaxed);
        return Some(job);
    }
    lane.passed_over.store(0, Relaxed);
    pinned.pop(Class::New).or_else(|| begun(&mut pinned))
}

impl<J> Lanes<J> {
    /// Creates `count` lanes, at least one.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            lanes: (0..count.max(1)).map(|_| Lane::default()).collect(),
            shared: std::array::from_fn(|_| Shared::default()),
        }
    }

    /// Number of lanes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    fn lane(&self, id: LaneId) -> &Lane<J> {
        &self.lanes[id.0]
    }

    /// Sets the function that wakes the thread of a lane. Until then the jobs pushed to the lane wait. A previous
    /// thread may have left without draining it.
    pub fn attach(&self, id: LaneId, wake: Wake) {
        let lane = self.lane(id);
        lane.attach(Some(wake));
        lane.park();
        if self.has_work_for(id) && lane.unpark() {
            lane.wake();
        }
    }

    /// Stops waking the thread of a lane, until it is attached again. The jobs of the lane stay.
    pub fn silence(&self, id: LaneId) {
        self.lane(id).attach(None);
    }

    /// Removes the thread of a lane. The jobs that the lane has taken for itself go back to all lanes. Returns the jobs
    /// that only this lane may run, which the caller must handle.
    #[must_use]
    pub fn detach(&self, id: LaneId) -> Vec<J> {
        let lane = self.lane(id);
        lane.attach(None);
        for (class, own) in [Class::First, Class::Later].into_iter().zip(&*lane.own.lock()) {
            while let Some(job) = own.pop() {
                self.push(Place::Any, class, job);
            }
        }
        // A push may have chosen this lane to be woken for a shared job.
        if self.waiting_for_any() > 0 {
            self.wake_one(None);
        }
        lane.pinned.lock().drain().collect()
    }

    /// Adds a job, from any thread, and wakes a lane that may run it if one is parked (L3, L5).
    pub fn push(&self, place: Place, class: Class, job: J) {
        match self.place(place) {
            Place::At(id) => {
                let lane = self.lane(id);
                lane.pinned.lock().push(class, job);
                if lane.unpark() {
                    lane.wake();
                }
            }
            Place::Any => {
                self.shared[class as usize].push(job);
                self.wake_one(None);
            }
        }
    }

    /// Adds a job from the thread of lane `from`. `true`: that lane was parked and may run the job, and the caller must
    /// ensure that it is drained.
    #[must_use]
    pub fn push_from(&self, from: LaneId, place: Place, class: Class, job: J) -> bool {
        let lane = self.lane(from);
        match self.place(place) {
            Place::At(id) if id == from => {
                lane.pinned.lock().push(class, job);
                lane.unpark()
            }
            Place::Any if class != Class::New => {
                let is_alone = {
                    let own = &lane.own.lock()[class as usize];
                    own.push(job);
                    lane.others.iter().map(|others| others.len()).sum::<usize>() == 1
                };
                let is_next = lane.unpark();
                // The lane takes that job at once, and other lanes may have the jobs behind it.
                if !is_next || !is_alone {
                    self.wake_one(Some(from));
                }
                is_next
            }
            place => {
                self.push(place, class, job);
                false
            }
        }
    }

    /// Returns the place of a job. A single lane has nothing to share.
    fn place(&self, place: Place) -> Place {
        if self.lanes.len() == 1 {
            Place::At(LaneId(0))
        } else {
            place
        }
    }

    /// Wakes a parked lane. It tries the last lane first: the first lane runs on the thread that other work shares.
    fn wake_one(&self, but: Option<LaneId>) {
        for (n, lane) in self.lanes.iter().enumerate().rev() {
            if but != Some(LaneId(n)) && lane.is_attached() && lane.unpark() {
                return lane.wake();
            }
        }
    }

    /// Takes the next job of a lane, on its thread. If none is left, the lane is parked, and the next push wakes it.
    pub fn pop(&self, id: LaneId) -> Option<J> {
        let lane = self.lane(id);
        loop {
            if let Some(job) = self.pop_unparked(id) {
                return Some(job);
            }
            lane.park();
            if !self.has_work_for(id) {
                return None;
            }
            // A job came in between. Its push may have woken this lane, which costs one look at empty queues.
            lane.unpark();
        }
    }

    /// Takes a job as [`pop`](Self::pop) does, but does not park the lane if none is left: its thread looks again soon,
    /// and no push wakes it.
    pub fn pop_unparked(&self, id: LaneId) -> Option<J> {
        let job = self.next(id)?;
        self.lane(id).taken.fetch_add(1, Relaxed);
        Some(job)
    }

    fn next(&self, id: LaneId) -> Option<J> {
        let lane = self.lane(id);
        if self.lanes.len() == 1 {
            return next_alone(lane);
        }
        if lane.passed_over.load(Relaxed) < PASSED_OVER_MAX
            && let Some(job) = self.begun(id)
        {
            let has_new = lane.pinned.lock().has(Class::New) || self.shared[Class::New as usize].len() > 0;
            lane.passed_over.fetch_add(u64::from(has_new), Relaxed);
            return Some(job);
        }
        lane.passed_over.store(0, Relaxed);
        let new = lane.pinned.lock().pop(Class::New);
        new.or_else(|| self.shared[Class::New as usize].take_one())
            .or_else(|| self.begun(id))
    }

    /// Takes the next job of the classes `First` and `Later`: a step of work under way, or a job that such work asked
    /// for.
    fn begun(&self, id: LaneId) -> Option<J> {
        let lane = self.lane(id);
        let own = lane.own.lock();
        let looks_around = lane.taken.load(Relaxed).is_multiple_of(SHARED_EVERY);
        for class in [Class::First, Class::Later] {
            let (own, shared) = (&own[class as usize], &self.shared[class as usize]);
            let pinned = lane.pinned.lock().pop(class);
            let job = pinned
                .or_else(|| if looks_around { shared.take_one() } else { None })
                .or_else(|| own.pop())
                .or_else(|| shared.take(own));
            if job.is_some() {
                return job;
            }
        }
        // Begins with the next lane, so that not all lanes steal from the same one.
        let count = self.lanes.len();
        for n in 1..count {
            let victim = &self.lanes[(id.0 + n) % count];
            for (own, others) in own.iter().zip(&victim.others) {
                if let Some(job) = others.steal(own) {
                    lane.steals.fetch_add(1, Relaxed);
                    return Some(job);
                }
            }
        }
        None
    }

    fn has_work_for(&self, id: LaneId) -> bool {
        self.lane(id).pinned.lock().len() > 0
            || self.shared.iter().any(|jobs| jobs.len() > 0)
            || self
                .lanes
                .iter()
                .any(|lane| lane.others.iter().any(|jobs| jobs.len() > 0))
    }

    /// True if a lane is parked: its thread owes it nothing.
    #[must_use]
    pub fn is_parked(&self, id: LaneId) -> bool {
        self.lane(id).is_parked()
    }

    /// Number of jobs that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| {
            let own: usize = lane.others.iter().map(|jobs| jobs.len()).sum();
            lane.pinned.lock().len() + own
        });
        lanes.sum::<usize>() + self.waiting_for_any()
    }

    /// True if no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of jobs that wait for any lane and that no lane has taken for itself.
    #[must_use]
    pub fn waiting_for_any(&self) -> usize {
        self.shared.iter().map(Shared::len).sum()
    }

    /// Counters and queue lengths of each lane.
    #[must_use]
    pub fn stats(&self) -> Vec<LaneStats> {
        self.lanes.iter().map(Lane::stats).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    const MAIN: LaneId = LaneId(0);
    const ONE: LaneId = LaneId(1);

    /// Creates lanes that count how often each of them is woken.
    fn counted(count: usize) -> (Lanes<u32>, Vec<Arc<AtomicUsize>>) {
        let lanes = Lanes::new(count);
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

    fn all(lanes: &Lanes<u32>, id: LaneId) -> Vec<u32> {
        std::iter::from_fn(|| lanes.pop(id)).collect()
    }

    #[test]
    fn a_lane_is_woken_once_for_a_batch() {
        let (lanes, wakes) = counted(1);
        lanes.push(Place::Any, Class::First, 1);
        lanes.push(Place::At(MAIN), Class::First, 2);
        assert_eq!(wakes[0].load(SeqCst), 1);
        assert_eq!(all(&lanes, MAIN), [1, 2]);
        lanes.push(Place::Any, Class::First, 3);
        assert_eq!(wakes[0].load(SeqCst), 2);
    }

    #[test]
    fn new_work_waits_for_work_under_way_but_not_for_ever() {
        for count in [1, 2] {
            let (lanes, _) = counted(count);
            lanes.push(Place::Any, Class::New, 0);
            lanes.push(Place::Any, Class::Later, 2);
            lanes.push(Place::Any, Class::First, 1);
            assert_eq!(all(&lanes, MAIN), [1, 2, 0], "{count}");
            lanes.push(Place::Any, Class::New, 0);
            let others = u32::try_from(PASSED_OVER_MAX).expect("a small number") + 1;
            (1..=others).for_each(|n| lanes.push(Place::Any, Class::First, n));
            let order = all(&lanes, MAIN);
            assert_eq!(
                order.iter().position(|n| *n == 0),
                Some(PASSED_OVER_MAX as usize),
                "{count}"
            );
            assert_eq!(order.len(), PASSED_OVER_MAX as usize + 2);
        }
    }

    #[test]
    fn its_own_thread_is_told_instead_of_woken() {
        for count in [1, 2] {
            let (lanes, wakes) = counted(count);
            assert!(lanes.push_from(MAIN, Place::Any, Class::First, 1));
            assert!(!lanes.push_from(MAIN, Place::At(MAIN), Class::First, 2));
            assert_eq!(wakes[0].load(SeqCst), 0);
            let mut jobs = all(&lanes, MAIN);
            jobs.sort_unstable();
            assert_eq!(jobs, [1, 2]);
        }
    }

    #[test]
    fn jobs_pushed_before_a_thread_is_attached_wake_it() {
        let lanes = Lanes::new(2);
        lanes.push(Place::At(ONE), Class::First, 1);
        lanes.push(Place::Any, Class::First, 2);
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        lanes.attach(
            ONE,
            Box::new(move || {
                counter.fetch_add(1, SeqCst);
            }),
        );
        assert_eq!(wakes.load(SeqCst), 1);
        assert_eq!(all(&lanes, ONE), [1, 2]);
    }

    #[test]
    fn only_its_lane_runs_a_pinned_job() {
        let (lanes, wakes) = counted(3);
        lanes.push(Place::At(ONE), Class::First, 1);
        assert_eq!(wakes.iter().map(|n| n.load(SeqCst)).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(
            (lanes.pop(MAIN), lanes.pop(LaneId(2)), lanes.pop(ONE)),
            (None, None, Some(1))
        );
    }

    /// A busy lane must not keep the jobs behind its current one from an idle lane.
    #[test]
    fn an_idle_lane_is_woken_for_jobs_of_a_busy_lane_and_steals_half_of_them() {
        let (lanes, wakes) = counted(2);
        assert!(lanes.push_from(MAIN, Place::Any, Class::Later, 0));
        assert_eq!(wakes[1].load(SeqCst), 0, "it comes to that one at once");
        assert_eq!(lanes.pop(MAIN), Some(0));
        for n in 1..=4 {
            assert!(!lanes.push_from(MAIN, Place::Any, Class::Later, n));
        }
        assert_eq!(wakes[1].load(SeqCst), 1);
        // The thief takes the oldest two, of which one is run and the other one waits.
        let stolen = lanes.pop(ONE);
        assert!(matches!(stolen, Some(1 | 2)), "{stolen:?}");
        assert_eq!((lanes.stats()[1].taken, lanes.stats()[1].steals), (1, 1));
        assert_eq!(
            lanes.pop(MAIN),
            Some(4),
            "the last one first: what it needs is still at hand"
        );
        let mut rest = all(&lanes, ONE);
        rest.extend(stolen);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2, 3], "it stole what was left, too");
    }

    #[test]
    fn a_lane_takes_some_along_and_leaves_the_others() {
        let (lanes, _) = counted(2);
        (0..40).for_each(|n| lanes.push(Place::Any, Class::First, n));
        // The first job comes alone: at first the lane looks at the shared queue.
        assert_eq!((lanes.pop(ONE), lanes.pop(ONE)), (Some(0), Some(1)));
        assert_eq!((lanes.stats()[1].taken, lanes.waiting_for_any()), (16, 22));
        assert_eq!(lanes.pop(MAIN), Some(18));
    }

    /// A lane that kept pushing jobs to itself once never took any other job.
    #[test]
    fn jobs_that_a_lane_makes_for_itself_keep_it_from_no_other() {
        let (lanes, _) = counted(2);
        lanes.push(Place::Any, Class::Later, 1);
        lanes.push(Place::At(MAIN), Class::Later, 2);
        let _ = lanes.push_from(MAIN, Place::Any, Class::Later, 0);
        let mut seen = Vec::new();
        for _ in 0..2 * SHARED_EVERY {
            match lanes.pop(MAIN) {
                Some(0) => assert!(!lanes.push_from(MAIN, Place::Any, Class::Later, 0)),
                other => seen.extend(other),
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    }

    #[test]
    fn a_lane_whose_thread_is_gone_leaves_its_jobs_to_others() {
        let (lanes, wakes) = counted(2);
        for n in 1..=3 {
            let _ = lanes.push_from(ONE, Place::Any, Class::Later, n);
        }
        lanes.push(Place::At(ONE), Class::First, 9);
        assert_eq!(lanes.detach(ONE), [9]);
        let before = wakes[1].load(SeqCst);
        let mut rest = all(&lanes, MAIN);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2, 3]);
        assert!(lanes.is_empty());
        lanes.push(Place::Any, Class::First, 4);
        assert_eq!(wakes[1].load(SeqCst), before, "nobody is there");
        assert_eq!(all(&lanes, MAIN), [4]);
    }

    /// A million jobs of every kind over four lanes, of which one comes and goes: each is run exactly once.
    #[test]
    fn a_million_jobs_are_run_once_each() {
        const JOBS: u32 = 1_000_000;
        const LANES: usize = 4;
        let lanes: Arc<Lanes<u32>> = Arc::new(Lanes::new(LANES));
        let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..JOBS).map(|_| AtomicUsize::new(0)).collect());
        let left = Arc::new(AtomicUsize::new(JOBS as usize));
        std::thread::scope(|scope| {
            for n in 0..LANES {
                let (lanes, runs, left) = (Arc::clone(&lanes), Arc::clone(&runs), Arc::clone(&left));
                scope.spawn(move || {
                    let me = std::thread::current();
                    lanes.attach(LaneId(n), Box::new(move || me.unpark()));
                    let mut taken = 0_u32;
                    while left.load(SeqCst) > 0 {
                        let Some(job) = lanes.pop(LaneId(n)) else {
                            // Only a wake ends this, and the last job wakes all lanes.
                            std::thread::park();
                            continue;
                        };
                        if job == u32::MAX {
                            return;
                        }
                        taken += 1;
                        // Some jobs ask for others, which no other thread has pushed.
                        if job % 4 == 1 {
                            let _ = lanes.push_from(LaneId(n), Place::Any, Class::Later, job + 1);
                        }
                        runs[job as usize].fetch_add(1, SeqCst);
                        if left.fetch_sub(1, SeqCst) == 1 {
                            (0..LANES).for_each(|other| lanes.push(Place::At(LaneId(other)), Class::Later, u32::MAX));
                            return;
                        }
                        if n == LANES - 1 && taken.is_multiple_of(10_000) {
                            for job in lanes.detach(LaneId(n)) {
                                lanes.push(Place::Any, Class::First, job);
                            }
                            let me = std::thread::current();
                            lanes.attach(LaneId(n), Box::new(move || me.unpark()));
                        }
                    }
                });
            }
            for producer in 0..2 {
                let lanes = Arc::clone(&lanes);
                scope.spawn(move || {
                    for job in (producer..JOBS).step_by(2).filter(|job| job % 4 != 2) {
                        let place = match job % 8 {
                            0 => Place::At(LaneId(job as usize / 8 % (LANES - 1))),
                            _ => Place::Any,
                        };
                        let class = [Class::First, Class::Later, Class::New][job as usize % 3];
                        lanes.push(place, class, job);
                    }
                });
            }
        });
        assert_eq!(runs.iter().filter(|runs| runs.load(SeqCst) != 1).count(), 0);
    }
}

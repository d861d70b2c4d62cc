//! The queue that one thread drains.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Which jobs go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Steps of what is under way, and what tells the thread something.
    First,
    /// What they asked for.
    Later,
    /// New work: it begins when what is under way has nothing to do, so that work ends before more is begun; but no later than after
    /// `PASSED_OVER_MAX` other jobs.
    New,
}

/// So many jobs may go before new work that waits.
const PASSED_OVER_MAX: usize = 64;

/// A queue of jobs with a thread that may be parked.
pub struct Lane<J> {
    state: Mutex<LaneState<J>>,
    wake: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

struct LaneState<J> {
    first: VecDeque<J>,
    later: VecDeque<J>,
    new: VecDeque<J>,
    /// Jobs that went before new work in a row.
    passed_over: usize,
    parked: bool,
}

impl<J> Default for Lane<J> {
    fn default() -> Self {
        let state = LaneState {
            first: VecDeque::new(),
            later: VecDeque::new(),
            new: VecDeque::new(),
            passed_over: 0,
            parked: true,
        };
        Self {
            state: Mutex::new(state),
            wake: Mutex::new(None),
        }
    }
}

impl<J> LaneState<J> {
    fn len(&self) -> usize {
        self.first.len() + self.later.len() + self.new.len()
    }

    fn next(&mut self) -> Option<J> {
        if self.passed_over < PASSED_OVER_MAX
            && let Some(job) = self.first.pop_front().or_else(|| self.later.pop_front())
        {
            self.passed_over += usize::from(!self.new.is_empty());
            return Some(job);
        }
        self.passed_over = 0;
        let LaneState { first, later, new, .. } = self;
        new.pop_front()
            .or_else(|| first.pop_front())
            .or_else(|| later.pop_front())
    }
}

impl<J> Lane<J> {
    /// Say how the thread is woken. Until then pushed jobs wait. A thread before this one may have left without draining the lane.
    pub fn attach(&self, wake: Box<dyn Fn() + Send + Sync>) {
        *self.wake.lock() = Some(wake);
        let mut state = self.state.lock();
        state.parked = state.len() == 0;
        let is_parked = state.parked;
        drop(state);
        if !is_parked {
            self.unpark();
        }
    }

    /// Add a job, from any thread, and wake the lane if it was parked (L3).
    pub fn push(&self, class: Class, job: J) {
        if self.push_quietly(class, job) {
            self.unpark();
        }
    }

    /// Add a job from the lane's own thread. `true`: the lane was parked, and the caller must see to it that it is drained.
    #[must_use]
    pub fn push_quietly(&self, class: Class, job: J) -> bool {
        let mut state = self.state.lock();
        match class {
            Class::First => state.first.push_back(job),
            Class::Later => state.later.push_back(job),
            Class::New => state.new.push_back(job),
        }
        std::mem::replace(&mut state.parked, false)
    }

    /// The next job; with none left the lane is parked, and the next push wakes it.
    pub fn pop(&self) -> Option<J> {
        let mut state = self.state.lock();
        let job = state.next();
        state.parked = job.is_none();
        job
    }

    /// Whether it is parked: its thread owes it nothing.
    pub fn is_parked(&self) -> bool {
        self.state.lock().parked
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many jobs wait.
    pub fn len(&self) -> usize {
        self.state.lock().len()
    }

    fn unpark(&self) {
        if let Some(wake) = &*self.wake.lock() {
            wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn counted() -> (Lane<u32>, Arc<AtomicUsize>) {
        let (lane, wakes) = (Lane::default(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&wakes);
        lane.attach(Box::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        (lane, wakes)
    }

    #[test]
    fn is_woken_once_for_a_batch() {
        let (lane, wakes) = counted();
        lane.push(Class::First, 1);
        lane.push(Class::First, 2);
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        assert_eq!((lane.pop(), lane.pop(), lane.pop()), (Some(1), Some(2), None));
        lane.push(Class::First, 3);
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn new_work_waits_for_what_is_under_way_but_not_for_ever() {
        let lane = Lane::default();
        lane.push(Class::New, 0);
        lane.push(Class::Later, 2);
        lane.push(Class::First, 1);
        assert_eq!(
            (lane.pop(), lane.pop(), lane.pop(), lane.pop()),
            (Some(1), Some(2), Some(0), None)
        );
        lane.push(Class::New, 0);
        for n in 1..=PASSED_OVER_MAX + 1 {
            lane.push(Class::First, n);
        }
        let order: Vec<usize> = std::iter::from_fn(|| lane.pop()).collect();
        assert_eq!(order.iter().position(|n| *n == 0), Some(PASSED_OVER_MAX));
        assert_eq!(order.len(), PASSED_OVER_MAX + 2);
    }

    #[test]
    fn its_own_thread_is_told_instead_of_woken() {
        let (lane, wakes) = counted();
        assert!(lane.push_quietly(Class::First, 1));
        assert!(!lane.push_quietly(Class::First, 2));
        assert_eq!(wakes.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn steps_go_before_new_work() {
        let (lane, _) = counted();
        lane.push(Class::Later, 1);
        lane.push(Class::First, 2);
        assert_eq!((lane.pop(), lane.pop()), (Some(2), Some(1)));
    }

    #[test]
    fn what_was_pushed_before_a_thread_is_attached_wakes_it() {
        let lane = Lane::default();
        lane.push(Class::First, 1);
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        lane.attach(Box::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
    }

    /// Its lane was not parked, so no push woke the next thread.
    #[test]
    fn a_thread_that_left_in_the_middle_does_not_keep_the_next_from_being_woken() {
        let (lane, _) = counted();
        lane.push(Class::First, 1);
        assert_eq!(lane.pop(), Some(1));
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        lane.attach(Box::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        lane.push(Class::First, 2);
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn many_producers_lose_nothing() {
        let (lane, _) = counted();
        std::thread::scope(|scope| {
            for t in 0..4 {
                let lane = &lane;
                scope.spawn(move || (0..1_000).for_each(|n| lane.push(Class::First, t * 1_000 + n)));
            }
        });
        let mut seen: Vec<u32> = std::iter::from_fn(|| lane.pop()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..4_000).collect::<Vec<_>>());
    }
}

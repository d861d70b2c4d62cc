//! The queue that all lanes share, and the deque that each lane fills for itself and others steal from.

/// Jobs that a lane takes from the shared queue in advance, besides the one that it runs next.
const TAKE_ALONG_MAX: usize = if cfg!(loom) { 1 } else { 16 };

#[cfg(not(loom))]
mod imp {
    use crossbeam_deque::{Injector, Steal, Stealer, Worker};

    use super::TAKE_ALONG_MAX;

    /// The shared queue: first in, first out.
    pub(crate) struct Shared<J>(Injector<J>);

    impl<J> Default for Shared<J> {
        fn default() -> Self {
            Self(Injector::new())
        }
    }

    impl<J> Shared<J> {
        pub(crate) fn push(&self, job: J) {
            self.0.push(job);
        }

        /// Takes one job.
        pub(crate) fn take_one(&self) -> Option<J> {
            settled(|| self.0.steal())
        }

        /// Takes one job, and moves some more to the deque of the lane that takes it.
        pub(crate) fn take(&self, own: &LocalDeque<J>) -> Option<J> {
            settled(|| self.0.steal_batch_with_limit_and_pop(&own.0, 1 + TAKE_ALONG_MAX))
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }

    /// The own deque of a lane: last in, first out; for one thread at a time.
    pub(crate) struct LocalDeque<J>(Worker<J>);

    impl<J> Default for LocalDeque<J> {
        fn default() -> Self {
            Self(Worker::new_lifo())
        }
    }

    impl<J> LocalDeque<J> {
        pub(crate) fn push(&self, job: J) {
            self.0.push(job);
        }

        pub(crate) fn pop(&self) -> Option<J> {
            self.0.pop()
        }

        pub(crate) fn others(&self) -> StealHandle<J> {
            StealHandle(self.0.stealer())
        }
    }

    /// The own deque of a lane, as other lanes see it.
    pub(crate) struct StealHandle<J>(Stealer<J>);

    impl<J> StealHandle<J> {
        /// Steals half of the jobs: returns one, and moves the others to the deque of the lane that steals.
        pub(crate) fn steal(&self, own: &LocalDeque<J>) -> Option<J> {
            settled(|| self.0.steal_batch_and_pop(&own.0))
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }

    fn settled<J>(steal: impl Fn() -> Steal<J>) -> Option<J> {
        loop {
            match steal() {
                Steal::Success(job) => return Some(job),
                Steal::Empty => return None,
                // Another lane was quicker, and took the job.
                Steal::Retry => {}
            }
        }
    }
}

/// The same queues behind locks. The library has models of its own; the models here check how this crate uses it.
#[cfg(loom)]
mod imp {
    use std::collections::VecDeque;

    use loom::sync::{Arc, Mutex, MutexGuard};

    use super::TAKE_ALONG_MAX;

    fn lock<J>(queue: &Mutex<VecDeque<J>>) -> MutexGuard<'_, VecDeque<J>> {
        queue.lock().expect("no model panics while it holds a lock")
    }

    pub(crate) struct Shared<J>(Mutex<VecDeque<J>>);

    impl<J> Default for Shared<J> {
        fn default() -> Self {
            Self(Mutex::new(VecDeque::new()))
        }
    }

    impl<J> Shared<J> {
        pub(crate) fn push(&self, job: J) {
            lock(&self.0).push_back(job);
        }

        pub(crate) fn take_one(&self) -> Option<J> {
            lock(&self.0).pop_front()
        }

        pub(crate) fn take(&self, own: &LocalDeque<J>) -> Option<J> {
            let mut jobs = lock(&self.0);
            let job = jobs.pop_front()?;
            for _ in 0..TAKE_ALONG_MAX {
                let Some(more) = jobs.pop_front() else { break };
                own.push(more);
            }
            Some(job)
        }

        pub(crate) fn len(&self) -> usize {
            lock(&self.0).len()
        }
    }

    pub(crate) struct LocalDeque<J>(Arc<Mutex<VecDeque<J>>>);

    impl<J> Default for LocalDeque<J> {
        fn default() -> Self {
            Self(Arc::new(Mutex::new(VecDeque::new())))
        }
    }

    impl<J> LocalDeque<J> {
        pub(crate) fn push(&self, job: J) {
            lock(&self.0).push_back(job);
        }

        pub(crate) fn pop(&self) -> Option<J> {
            lock(&self.0).pop_back()
        }

        pub(crate) fn others(&self) -> StealHandle<J> {
            StealHandle(Arc::clone(&self.0))
        }
    }

    pub(crate) struct StealHandle<J>(Arc<Mutex<VecDeque<J>>>);

    impl<J> StealHandle<J> {
        pub(crate) fn steal(&self, own: &LocalDeque<J>) -> Option<J> {
            let stolen: VecDeque<J> = {
                let mut jobs = lock(&self.0);
                let half = jobs.len().div_ceil(2);
                jobs.drain(..half).collect()
            };
            let mut stolen = stolen.into_iter();
            let job = stolen.next();
            stolen.for_each(|more| own.push(more));
            job
        }

        pub(crate) fn len(&self) -> usize {
            lock(&self.0).len()
        }
    }
}

pub(crate) use imp::*;

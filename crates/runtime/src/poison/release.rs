//! Attempts and tasks that are withheld while a worker gives instances and tasks back.
//!
//! - **B1** Between a request to give back and its answer, the store may have carried the request out, and another
//!   worker may have recorded the completion of a step by then. So no attempt begins meanwhile unless the request keeps
//!   its instance or task. The attempt has its slot. It begins when the answer has come, unless the answer takes it
//!   away.
//! - **B2** The store gives back all that the worker has at that moment. That includes a task that the worker took
//!   after it decided what to keep, and one whose acquisition is not answered yet. So a task is taken on only while no
//!   request is open, and only if none was opened since the task was asked for, or since the store last said that the
//!   task is this worker's.
//! - **B3** If it is unknown whether a request was carried out, the session ends: the attempts that are withheld may be
//!   running elsewhere, and so may those that come with an answer that is still under way.

use std::sync::Arc;

use perdure_provider::{CommitOutcome, ProviderError, ReleaseMost, ReleasedMost};

use crate::activity::attempts::Activities;
use crate::log::Level;
use crate::session::session::Session;
use crate::state::attempt::{AbortReason, ActivityToken};
use crate::worker::release_requests::{Kept, Open};

/// A request to give back. It is open until this is dropped.
pub(crate) struct Request<'s> {
    session: &'s Arc<Session>,
    number: u64,
}

impl Request<'_> {
    /// Notes what the request keeps. From here on all other attempts are withheld (B1).
    pub(crate) fn keep(&self, request: &ReleaseMost) {
        let kept = Kept {
            instances: request.kept.clone(),
            tasks: request.kept_tasks.clone(),
        };
        let mut requests = self.session.giving_back.requests.lock();
        if let Some(open) = requests.open.iter_mut().find(|open| open.number == self.number) {
            open.kept = Some(kept);
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let giving_back = &self.session.giving_back;
        let withheld = {
            let mut requests = giving_back.requests.lock();
            let answered = requests.open.iter().position(|open| open.number == self.number);
            answered.map(|at| requests.open.swap_remove(at).withheld)
        };
        let activities = self.session.activities.lock();
        for token in withheld.into_iter().flatten() {
            self.session.hand_out(&activities, token);
        }
        drop(activities);
        giving_back.over.notify_one();
    }
}

impl Session {
    /// Opens a request to give back. This comes before the caller decides what to keep: a task that is acquired later
    /// is not taken on (B2).
    pub(crate) fn open_request(self: &Arc<Self>) -> Request<'_> {
        let mut requests = self.giving_back.requests.lock();
        let number = requests.count;
        requests.count += 1;
        requests.open.push(Open {
            number,
            kept: None,
            withheld: Vec::new(),
        });
        Request { session: self, number }
    }

    /// Gives back all that the request does not keep, and forgets what the store took.
    pub(crate) async fn give_back_to_store(
        self: &Arc<Self>,
        open: Request<'_>,
        request: ReleaseMost,
    ) -> Result<(), ProviderError> {
        let kept_tasks = request.kept_tasks.clone();
        let given: ReleasedMost = match self.shared.store.provider.release_most(request).await {
            Ok(given) => given,
            Err(error) => {
                if error.outcome == CommitOutcome::Unknown {
                    self.is_in_doubt(&error);
                }
                return Err(error);
            }
        };
        // This happens while the request is open, so that no attempt that the store took begins.
        let mut lost = self.activities.lock().borrowed();
        lost.retain(|task| !kept_tasks.contains(task));
        self.give_up_borrowed(lost, AbortReason::LeaseLost);
        self.given_back(given);
        drop(open);
        Ok(())
    }

    fn is_in_doubt(self: &Arc<Self>, error: &ProviderError) {
        let message = format!(
            "worker {} starts over, because it cannot know what it has given back: {error}",
            self.worker
        );
        self.shared.log(Level::Warn, message);
        self.end(AbortReason::LeaseLost);
    }

    /// True if an attempt that is about to begin has to wait for the answer to a request (B1). The request then
    /// withholds the attempt.
    pub(crate) fn withholds(&self, activities: &Activities, token: ActivityToken) -> bool {
        let Some(attempt) = activities.get(token) else {
            return false;
        };
        let mut requests = self.giving_back.requests.lock();
        let takes = |open: &&mut Open| open.kept.as_ref().is_some_and(|kept| !kept.has(&attempt.origin));
        let asked = requests.open.iter_mut().find(takes);
        asked.map(|open| open.withheld.push(token)).is_some()
    }
}

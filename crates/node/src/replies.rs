//! Replies to requests, in the order in which they were answered.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_runtime::RuntimeError;

use crate::errors::to_json;
use crate::frame::checked;
use crate::port::Wake;

/// An answered request.
pub(crate) struct Answer {
    pub(crate) request: f64,
    pub(crate) result: Result<Option<String>, RuntimeError>,
}

impl Answer {
    /// Returns true with the text of the result, or false with the error as JSON.
    pub(crate) fn into_text(self) -> (bool, Option<String>) {
        let checked = |text| checked(text, "the reply of the store");
        match self.result.and_then(|text| text.map(checked).transpose()) {
            Ok(text) => (true, text),
            Err(error) => (false, Some(to_json(&error))),
        }
    }
}

/// The queue of answers of one store.
#[derive(Clone, Default)]
pub(crate) struct Replies(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    wake: Option<Wake>,
    /// True if the wake function was called and the queue was not emptied since.
    woken: bool,
}

impl Replies {
    pub(crate) fn attach(&self, wake: Wake) {
        let mut state = self.0.lock();
        state.wake = Some(wake);
        state.woken = false;
        Self::call_if_answered(&mut state);
    }

    /// Stops waking the thread: no thread asks for replies any more.
    pub(crate) fn detach(&self) {
        self.0.lock().wake = None;
    }

    /// Returns a reply that answers `request`; `text` makes the text of its result.
    pub(crate) fn to<T>(
        &self,
        request: f64,
        text: impl FnOnce(T) -> Option<String> + Send + 'static,
    ) -> perdure_runtime::Reply<T> {
        let this = self.clone();
        Box::new(move |result| {
            this.push(Answer {
                request,
                result: result.map(text),
            })
        })
    }

    pub(crate) fn push(&self, answer: Answer) {
        let mut state = self.0.lock();
        state.answers.push_back(answer);
        Self::call_if_answered(&mut state);
    }

    /// Wakes the thread before an answer is there, so that the answer may come while the thread wakes up.
    pub(crate) fn announce(&self) {
        Self::call(&mut self.0.lock());
    }

    pub(crate) fn next(&self) -> Option<Answer> {
        let mut state = self.0.lock();
        let answer = state.answers.pop_front();
        state.woken = answer.is_some();
        answer
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().answers.is_empty()
    }

    fn call_if_answered(state: &mut State) {
        if !state.answers.is_empty() {
            Self::call(state);
        }
    }

    fn call(state: &mut State) {
        if let Some(wake) = &state.wake
            && !state.woken
        {
            state.woken = true;
            wake.call();
        }
    }
}

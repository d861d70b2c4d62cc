//! Callers of requests to a store, and the replies to them.

use perdure_runtime::Reply;

use crate::replies::Replies;

/// The caller of a request, to whom the reply goes.
pub(crate) struct Caller<'r> {
    pub(crate) replies: &'r Replies,
    /// Number of the handle of the store, which makes the request's number unique in the process.
    pub(crate) store: u32,
    pub(crate) request: f64,
}

impl Caller<'_> {
    /// Returns the reply without a text.
    pub(crate) fn done(&self) -> Reply<()> {
        self.replies.to(self.request, |()| None)
    }

    /// Returns the reply whose text is made of the result.
    pub(crate) fn text<T>(&self, text: impl FnOnce(T) -> String + Send + 'static) -> Reply<T> {
        self.replies.to(self.request, move |result| Some(text(result)))
    }

    /// Returns the reply whose text is a number.
    pub(crate) fn number<T: ToString>(&self) -> Reply<T> {
        self.text(|number: T| number.to_string())
    }

    pub(crate) const fn wait_id(&self) -> (u32, u64) {
        (self.store, self.request as u64)
    }
}

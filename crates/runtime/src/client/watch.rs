//! Waits for a change in the store: the end of an instance or a change of its custom status or its state, the answer to
//! an ask, or an entry of a stream.
//!
//! If the change happens in this process, the commit that brings it tells the waits. Otherwise the store's sign of a
//! foreign change makes them look. One query serves all waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_provider::{
    AskName, AskState, InstanceKey, InstanceStatus, Provider, ProviderError, ProviderErrorKind, Status, StreamName,
    StreamState,
};
use tokio::sync::Notify;

use crate::error::RuntimeError;
use crate::options::{RETRY_DELAYS, STATUS_PAGE};
use crate::platform::retry::is_final;

/// The condition that ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaiting {
    /// The instance has ended.
    End,
    /// The instance has ended or is suspended.
    EndOrSuspension,
    /// The version of its custom status is above this one, or the instance has ended.
    StatusAfter(u64),
    /// The version of its state is above this one, or the instance has ended.
    StateAfter(u64),
}

/// What waits look at.
pub(crate) trait Watched: 'static {
    /// Name of it.
    type Key: Ord + Clone + Send + Sync;
    /// The state of it.
    type Value: Clone + Send + Sync;
    /// The condition that ends a wait.
    type Awaiting: Copy + Send;

    /// Reads the states of some, in order; `None` where there is none. The answer may cover only the first of them.
    fn read(
        provider: Arc<dyn Provider>,
        keys: Vec<Self::Key>,
    ) -> impl Future<Output = Result<Vec<Option<Self::Value>>, ProviderError>> + Send;

    /// Returns true if a state ends a wait.
    fn is_over(awaiting: Self::Awaiting, value: Option<&Self::Value>) -> bool;
}

/// Instances, by id.
pub(crate) struct Instances;

impl Watched for Instances {
    type Key = String;
    type Value = InstanceStatus;
    type Awaiting = Awaiting;

    async fn read(
        provider: Arc<dyn Provider>,
        keys: Vec<String>,
    ) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        provider.statuses(keys).await
    }

    fn is_over(awaiting: Awaiting, status: Option<&InstanceStatus>) -> bool {
        let Some(status) = status else { return true };
        status.status.is_terminal()
            || match awaiting {
                Awaiting::End => false,
                Awaiting::EndOrSuspension => status.status == Status::Suspended,
                Awaiting::StatusAfter(version) => status.custom_status_version > version,
                Awaiting::StateAfter(version) => status.state_version > version,
            }
    }
}

/// The condition that ends a wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitingAnswer {
    /// The ask is on its way to the store, so it may not be there yet.
    Unwritten,
    /// The ask is not open, or gone.
    Written,
}

/// Asks. A wait ends when its ask is no longer open.
pub(crate) struct Asks;

impl Watched for Asks {
    type Key = AskName;
    type Value = AskState;
    type Awaiting = AwaitingAnswer;

    async fn read(provider: Arc<dyn Provider>, keys: Vec<AskName>) -> Result<Vec<Option<AskState>>, ProviderError> {
        provider.asks(keys).await
    }

    fn is_over(awaiting: AwaitingAnswer, state: Option<&AskState>) -> bool {
        match state {
            Some(state) => *state != AskState::Open,
            None => awaiting == AwaitingAnswer::Written,
        }
    }
}

impl Watch<Asks> {
    /// Marks the asks of an instance, which may have ended.
    pub(crate) fn mark_asks_of(&self, instance: &str) {
        let first = AskName {
            instance: instance.to_owned(),
            ask: String::new(),
        };
        self.mark_from(first, |name| name.instance == instance);
    }
}

/// The condition that ends a wait for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AwaitingEntry {
    /// Index of the entry.
    pub(crate) index: u64,
    /// The instance. A wait is over when another one has its id.
    pub(crate) key: InstanceKey,
}

/// Streams. A wait ends when its entry is there, or cannot come any more.
pub(crate) struct Streams;

impl Watched for Streams {
    type Key = StreamName;
    type Value = StreamState;
    type Awaiting = AwaitingEntry;

    async fn read(
        provider: Arc<dyn Provider>,
        keys: Vec<StreamName>,
    ) -> Result<Vec<Option<StreamState>>, ProviderError> {
        provider.streams(keys).await
    }

    fn is_over(AwaitingEntry { index, key }: AwaitingEntry, state: Option<&StreamState>) -> bool {
        state
            .is_none_or(|state| state.key != key || state.next > index || state.is_closed || state.status.is_terminal())
    }
}

impl Watch<Streams> {
    /// Marks the streams of an instance, which may have ended.
    pub(crate) fn mark_streams_of(&self, instance: &str) {
        let first = StreamName {
            instance: instance.to_owned(),
            stream: String::new(),
        };
        self.mark_from(first, |name| name.instance == instance);
    }
}

/// The callback that receives the state that ended a wait; `None` if there is nothing of that name.
pub(crate) type WaitDone<T> = Box<dyn FnOnce(Result<Option<T>, RuntimeError>) + Send>;

/// Name of a wait, given by the caller: the caller's number, and the number of the wait there.
pub type WaitId = (u32, u64);

struct Waiter<W: Watched> {
    id: WaitId,
    /// Position among all waits. A read that began before this wait came says nothing about it.
    number: u64,
    awaiting: W::Awaiting,
    /// Position of its condition. A read that began before it, and found nothing, says nothing about it.
    awaiting_since: u64,
    /// True if a read found nothing of that name, which did not end the wait.
    was_absent: bool,
    done: WaitDone<W::Value>,
}

struct State<W: Watched> {
    waiters: BTreeMap<W::Key, Vec<Waiter<W>>>,
    key_of: HashMap<WaitId, W::Key>,
    dirty: BTreeSet<W::Key>,
    /// Those whose states could not be read together. Each of them is read by itself.
    suspects: Vec<W::Key>,
    /// Number of waits and conditions that were ever added.
    added: u64,
}

impl<W: Watched> State<W> {
    fn take_page(&mut self) -> Vec<W::Key> {
        if let Some(suspect) = self.suspects.pop() {
            return vec![suspect];
        }
        // Those whose waits were told meanwhile have no waits left.
        let State { waiters, dirty, .. } = self;
        dirty.retain(|key| waiters.contains_key(key));
        let page: Vec<W::Key> = self.dirty.iter().take(STATUS_PAGE).cloned().collect();
        for key in &page {
            self.dirty.remove(key);
        }
        page
    }
}

/// The waits of one process on one store.
pub(crate) struct Watch<W: Watched> {
    state: Mutex<State<W>>,
    changed: Notify,
}

impl<W: Watched> Default for Watch<W> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                waiters: BTreeMap::new(),
                key_of: HashMap::new(),
                dirty: BTreeSet::new(),
                suspects: Vec::new(),
                added: 0,
            }),
            changed: Notify::new(),
        }
    }
}

impl<W: Watched> Watch<W> {
    /// Adds a wait. A [`mark_changed`](Self::mark_changed) must follow, unless it is known that nothing can have
    /// happened yet.
    pub(crate) fn add(&self, id: WaitId, key: W::Key, awaiting: W::Awaiting, done: WaitDone<W::Value>) {
        let mut state = self.state.lock();
        let number = state.added;
        state.added += 1;
        state.key_of.insert(id, key.clone());
        state.waiters.entry(key).or_default().push(Waiter {
            id,
            number,
            awaiting,
            awaiting_since: number,
            was_absent: false,
            done,
        });
    }

    /// Forgets a wait. Its `done` is never called.
    pub(crate) fn remove(&self, id: WaitId) {
        drop(self.take(id));
    }

    /// Replaces the condition of a wait.
    pub(crate) fn set_awaiting(&self, id: WaitId, awaiting: W::Awaiting) {
        let mut state = self.state.lock();
        let State {
            waiters,
            key_of,
            dirty,
            added,
            ..
        } = &mut *state;
        let Some(key) = key_of.get(&id) else { return };
        let waiters = waiters.get_mut(key).into_iter().flatten();
        let Some(waiter) = waiters.into_iter().find(|waiter| waiter.id == id) else {
            return;
        };
        (waiter.awaiting, waiter.awaiting_since) = (awaiting, *added);
        *added += 1;
        // The new condition may have been met since.
        if waiter.was_absent && dirty.insert(key.clone()) {
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Ends a wait with an error.
    pub(crate) fn fail(&self, id: WaitId, error: RuntimeError) {
        if let Some(waiter) = self.take(id) {
            (waiter.done)(Err(error));
        }
    }

    fn take(&self, id: WaitId) -> Option<Waiter<W>> {
        let mut state = self.state.lock();
        let key = state.key_of.remove(&id)?;
        let waiters = state.waiters.get_mut(&key)?;
        let taken = waiters.extract_if(.., |waiter| waiter.id == id).next();
        if waiters.is_empty() {
            state.waiters.remove(&key);
        }
        taken
    }

    /// Returns true if something has waits.
    pub(crate) fn awaits(&self, key: &W::Key) -> bool {
        self.state.lock().waiters.contains_key(key)
    }

    /// Tells the waits the state after a change.
    pub(crate) fn changed(&self, key: &W::Key, value: W::Value) {
        self.settle(key, u64::MAX, &Ok(Some(value)));
    }

    /// Marks one that may have changed.
    pub(crate) fn mark_changed(&self, key: &W::Key) {
        let mut state = self.state.lock();
        if state.waiters.contains_key(key) && state.dirty.insert(key.clone()) {
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Marks those that have waits, from `first` on for as long as they `belong`.
    pub(crate) fn mark_from(&self, first: W::Key, belongs: impl Fn(&W::Key) -> bool) {
        let mut state = self.state.lock();
        let State { waiters, dirty, .. } = &mut *state;
        let keys = waiters.range(first..).map(|(key, _)| key);
        let mut marked = keys.take_while(|key| belongs(key)).cloned().peekable();
        if marked.peek().is_some() {
            dirty.extend(marked);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Marks everything that has waits, because any of it may have changed.
    pub(crate) fn mark_all_changed(&self) {
        let mut state = self.state.lock();
        if state.waiters.is_empty() {
            return;
        }
        let State { waiters, dirty, .. } = &mut *state;
        dirty.extend(waiters.keys().cloned());
        drop(state);
        self.changed.notify_one();
    }

    /// Serves the waits until the store is closed.
    pub(crate) async fn run(self: Arc<Self>, provider: Arc<dyn Provider>) {
        let mut delay = RETRY_DELAYS.0;
        loop {
            let (page, asked) = {
                let mut state = self.state.lock();
                (state.take_page(), state.added)
            };
            if page.is_empty() {
                self.changed.notified().await;
                continue;
            }
            match W::read(Arc::clone(&provider), page.clone()).await {
                Ok(values) => {
                    delay = RETRY_DELAYS.0;
                    // The answer may cover only the first ones, if more would be too large for one answer.
                    let untold = page.iter().skip(values.len()).cloned();
                    self.state.lock().dirty.extend(untold);
                    for (key, value) in page.iter().zip(values) {
                        self.settle(key, asked, &Ok(value));
                    }
                }
                Err(error) if !is_final(&error) => {
                    self.state.lock().dirty.extend(page);
                    crate::platform::time::sleep(delay).await;
                    delay = (delay * 2).min(RETRY_DELAYS.1);
                }
                // One state that cannot be read must not end the waits for the others.
                Err(error) if page.len() > 1 && error.kind != ProviderErrorKind::Closed => {
                    self.state.lock().suspects.extend(page);
                }
                Err(error) => {
                    for key in &page {
                        self.settle(key, asked, &Err(error.clone().into()));
                    }
                }
            }
        }
    }

    /// Ends the waits that are over by an answer, among the first `asked` waits. An error ends all of them.
    fn settle(&self, key: &W::Key, asked: u64, answer: &Result<Option<W::Value>, RuntimeError>) {
        let is_over = |awaiting| {
            let value = answer.as_ref().map(Option::as_ref);
            value.map_or(true, |value| W::is_over(awaiting, value))
        };
        let settled = {
            let mut state = self.state.lock();
            let Some(waiters) = state.waiters.get_mut(key) else {
                return;
            };
            let is_absent = matches!(answer, Ok(None));
            let counts = |waiter: &Waiter<W>| {
                waiter.number < asked && (!is_absent || waiter.awaiting_since < asked) && is_over(waiter.awaiting)
            };
            let settled: Vec<Waiter<W>> = waiters.extract_if(.., |waiter| counts(waiter)).collect();
            // Nothing may be there by now, or the wait may be over.
            let looks_again = is_absent && waiters.iter().any(|waiter| is_over(waiter.awaiting));
            if is_absent {
                waiters.iter_mut().for_each(|waiter| waiter.was_absent = true);
            }
            if waiters.is_empty() {
                state.waiters.remove(key);
            }
            if looks_again {
                state.dirty.insert(key.clone());
            }
            for waiter in &settled {
                state.key_of.remove(&waiter.id);
            }
            settled
        };
        for waiter in settled {
            (waiter.done)(answer.clone());
        }
    }

    /// Returns the number of waits and of the entries kept for them.
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        state.waiters.len() + state.key_of.len() + state.dirty.len() + state.suspects.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use perdure_engine::Answer;

    use super::*;

    type Told = Receiver<Result<Option<AskState>, RuntimeError>>;

    fn name() -> AskName {
        AskName {
            instance: "i".into(),
            ask: "a".into(),
        }
    }

    /// Adds a wait for an ask that is on its way to the store.
    fn asking(watch: &Watch<Asks>, id: WaitId) -> Told {
        let (tell, told) = channel();
        let done = Box::new(move |answer| tell.send(answer).expect("the test waits for it"));
        watch.add(id, name(), AwaitingAnswer::Unwritten, done);
        told
    }

    /// Begins a read. Returns what is passed with its result.
    fn read(watch: &Watch<Asks>) -> u64 {
        let mut state = watch.state.lock();
        state.take_page();
        state.added
    }

    fn is_marked(watch: &Watch<Asks>) -> bool {
        !watch.state.lock().dirty.is_empty()
    }

    #[test]
    fn an_ask_that_is_on_its_way_is_not_missing() {
        let watch = Watch::<Asks>::default();
        let told = asking(&watch, (0, 1));
        let asked = read(&watch);
        watch.settle(&name(), asked, &Ok(None));
        assert!(told.try_recv().is_err() && !is_marked(&watch));
        // What came meanwhile may have been missed.
        watch.set_awaiting((0, 1), AwaitingAnswer::Written);
        assert!(is_marked(&watch));
        let asked = read(&watch);
        watch.settle(&name(), asked, &Ok(None));
        assert_eq!(told.try_recv(), Ok(Ok(None)));
        assert_eq!(watch.len(), 0);
    }

    #[test]
    fn a_read_from_before_an_ask_was_written_does_not_miss_it() {
        let watch = Watch::<Asks>::default();
        let told = asking(&watch, (0, 1));
        let asked = read(&watch);
        watch.set_awaiting((0, 1), AwaitingAnswer::Written);
        watch.settle(&name(), asked, &Ok(None));
        assert!(told.try_recv().is_err() && is_marked(&watch));
        let asked = read(&watch);
        watch.settle(&name(), asked, &Ok(Some(AskState::Open)));
        assert!(told.try_recv().is_err() && !is_marked(&watch));
        let answered = AskState::Answered(Answer::Value(None));
        watch.changed(&name(), answered.clone());
        assert_eq!(told.try_recv(), Ok(Ok(Some(answered))));
    }

    #[test]
    fn a_read_from_before_an_ask_was_written_may_find_its_answer() {
        let watch = Watch::<Asks>::default();
        let told = asking(&watch, (0, 1));
        let asked = read(&watch);
        watch.set_awaiting((0, 1), AwaitingAnswer::Written);
        let ended = AskState::Ended {
            status: Status::Completed,
        };
        watch.settle(&name(), asked, &Ok(Some(ended.clone())));
        assert_eq!(told.try_recv(), Ok(Ok(Some(ended))));
    }

    #[test]
    fn the_asks_of_an_instance_are_marked_together() {
        let watch = Watch::<Asks>::default();
        let _told = asking(&watch, (0, 1));
        watch.mark_asks_of("h");
        assert!(!is_marked(&watch));
        watch.mark_asks_of("i");
        assert!(is_marked(&watch));
        watch.remove((0, 1));
        read(&watch);
        assert_eq!(watch.len(), 0);
    }
}

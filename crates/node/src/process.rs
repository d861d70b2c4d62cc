//! State that the threads of this process share. Each thread has an addon of its own, and finds a runtime or a store of
//! another thread by its number.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use perdure_runtime::{Runtime, Store};

use crate::errors::argument;

/// Objects by number, for as long as they are in use.
pub(crate) struct ObjectRegistry<T>(LazyLock<Mutex<State<T>>>);

struct State<T> {
    last: u32,
    things: HashMap<u32, Weak<T>>,
}

pub(crate) static RUNTIMES: ObjectRegistry<Runtime> = ObjectRegistry::new();
pub(crate) static STORES: ObjectRegistry<Store> = ObjectRegistry::new();

impl<T> ObjectRegistry<T> {
    const fn new() -> Self {
        Self(LazyLock::new(|| {
            Mutex::new(State {
                last: 0,
                things: HashMap::new(),
            })
        }))
    }

    /// Gives an object a number of its own, which is never used again in this process.
    pub(crate) fn number(&self, thing: &Arc<T>) -> u32 {
        let mut state = self.0.lock();
        state.things.retain(|_, thing| thing.strong_count() > 0);
        state.last += 1;
        let number = state.last;
        state.things.insert(number, Arc::downgrade(thing));
        number
    }

    pub(crate) fn get(&self, number: u32) -> napi::Result<Arc<T>> {
        let thing = self.0.lock().things.get(&number).and_then(Weak::upgrade);
        thing.ok_or_else(|| argument(format!("nothing has the number {number} any more")))
    }
}

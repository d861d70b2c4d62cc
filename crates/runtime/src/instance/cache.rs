//! The cache of generators that are kept alive while their instances wait. It keeps as many as its limit, and drops a
//! generator that was not used for a while and is soon made again. Generators in use stay. An evicted instance
//! comes back by replay.

use std::sync::Arc;
use std::time::Duration;

use perdure_engine::Engine;
use perdure_scheduler::Class;

use crate::instance::instances::Instances;
use crate::instance::table::Table;
use crate::lane::job::Queued;
use crate::options::{CACHE_IDLE_EVENTS, CACHE_IDLE_MS, EVICTED_MAX, HISTORY_PAGE, TRIM_MAX};
use crate::state::Instance;

/// Returns the approximate number of bytes of the first page of an instance's history.
fn page_bytes(engine: &Engine) -> usize {
    usize::try_from(engine.history_bytes()).map_or(HISTORY_PAGE.bytes, |bytes| bytes.min(HISTORY_PAGE.bytes))
}

/// Evicts unused generators until the session ends.
pub(crate) async fn run(instances: Arc<Instances>) {
    loop {
        instances.cache_used.notified().await;
        while let Some(wait) = instances.evict_idle() {
            crate::platform::time::sleep(wait).await;
        }
    }
}

impl Instances {
    /// Notes that an instance has a generator and is used now.
    pub(crate) fn touch(&self, table: &mut Table, instance: &Arc<Instance>) {
        if table.touch(instance, self.now_ms()) {
            self.cache_used.notify_one();
        }
    }

    /// Evicts the generators that the cache has no room for. Each call looks at only a few, because each turn calls
    /// this again, and a cache that is smaller than the number of running instances must not cost every turn a walk
    /// over all of it.
    pub(crate) fn trim(&self, table: &mut Table) {
        for _ in 0..TRIM_MAX {
            let Some(instance) = table.take_surplus(self.shared.options.cached_instances_max) else {
                return;
            };
            self.evict(table, &instance);
        }
    }

    /// Evicts the generators that were not used for [`CACHE_IDLE_MS`], until [`CACHE_KEPT`] are left. A generator that
    /// takes long to replay counts as used again. Returns the time until the next such call; `None`: no call is needed
    /// before the cache is [used](Self::touch).
    ///
    /// [`CACHE_KEPT`]: crate::options::CACHE_KEPT
    fn evict_idle(&self) -> Option<Duration> {
        let mut table = self.table.lock();
        let before = self.now_ms() - CACHE_IDLE_MS;
        for _ in 0..EVICTED_MAX {
            let Some(instance) = table.take_idle(before) else { break };
            if instance.lock().next_event_id.0 > CACHE_IDLE_EVENTS {
                self.touch(&mut table, &instance);
            } else {
                self.evict(&mut table, &instance);
            }
        }
        let used_ms = table.look_again()?;
        Some(Duration::from_millis(u64::try_from(used_ms - before).unwrap_or(0)))
    }

    /// Drops the generator of an instance that was taken out of the cache, or puts the instance back because it is in
    /// use.
    fn evict(&self, table: &mut Table, instance: &Arc<Instance>) {
        let mut core = instance.lock();
        let is_released = table.is_released(instance);
        if core.control.is_idle() || is_released {
            if core.engine.as_ref().is_some_and(Engine::has_inline_activity) {
                // The activity's function is a closure of the generator. The generator stays for the next attempt, and
                // does not count until its next turn.
                return;
            }
            core.page_bytes = core.engine.as_ref().map_or(0, page_bytes);
            core.engine = None;
            if let Some(lane) = instance.unpin() {
                // The drop is queued before anything can load the instance again: its next turn on this lane must find
                // no generator.
                self.shared.push(Class::First, Queued::Drop(instance.token, lane));
            }
            drop(core);
            if is_released {
                table.remove(instance);
            }
        } else if table.owns(instance) {
            self.touch(table, instance);
        }
    }
}

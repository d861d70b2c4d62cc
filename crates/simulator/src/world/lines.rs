//! The queues of instances: their limits, and L2 for what waits in them.

use std::time::Duration;

use tokio::time::Instant;

use super::liveness::CLAIMED_MS;
use super::{FreeSlots, World};

impl World<'_> {
    /// Sets the limits of the queues before anything runs: a start into a queue that is not there is refused.
    pub(super) async fn set_queues(&self) {
        for queue in &self.plan.queues {
            let (name, settings) = (queue.name, queue.settings.clone());
            self.log.say(
                "world",
                format_args!("sets the limits of {name}: {}", settings.to_text()),
            );
            let set = self
                .observer
                .provider
                .set_queue(name.to_owned(), settings.clone())
                .await;
            set.expect("the store answers");
            self.witness.sets_limits(name, settings);
        }
    }

    /// L2: no instance waits in line for a slot that is free while workers are there and nothing holds them up.
    pub(super) fn check_lines(&mut self) {
        let mut free_slots = FreeSlots::new();
        if self.has_idle_worker() {
            for (queue, facts) in self.witness.takeable() {
                let before = self.free_slots.get(&queue).filter(|(before, _)| *before == facts);
                let since = before.map_or_else(Instant::now, |(_, since)| *since);
                if since.elapsed() > Duration::from_millis(CLAIMED_MS) {
                    let ms = since.elapsed().as_millis();
                    self.witness.report(format!(
                        "L2: a slot of {queue} has been free for {ms} ms, and instances wait"
                    ));
                }
                free_slots.insert(queue, (facts, since));
            }
        }
        self.free_slots = free_slots;
    }
}

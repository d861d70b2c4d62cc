//! Patches: changes of the code that an execution has from the point on at which history says so.

use super::{Engine, Phase};
use crate::{Bug, Command, EventId, Fault, NoteEvent, is_planted};

/// Patch that is recorded before the timer of [`Engine::grace_timer`].
const GRACE_PATCH: &str = "perdure.cancelGrace";

impl Engine {
    /// Returns true if this execution has a patch of its code. It has the patch unless it passed this point before the
    /// patch was there.
    ///
    /// Recorded history always reaches up to a wait (E3), so code that asks while it is replaying was here before, and
    /// had the patch only if the patch is recorded. An execution that has the patch keeps it. The answer false is kept
    /// once the engine is live; while it replays, each call looks into history again, and becomes true where the patch
    /// is recorded. A recorded patch that the code no longer asks for is no mismatch; the commands that the code issues
    /// instead are compared as always. Code that has ended gets no new patch.
    pub fn patched(&mut self, patch: &str) -> bool {
        let known = self.patches.get(patch).copied();
        let has_it = match (&self.phase, known) {
            (_, Some(true)) => return true,
            (Phase::Replaying(_), _) if is_planted(Bug::PatchedForAll) => true,
            (Phase::Replaying(_), _) => self.replay_patch(patch),
            (Phase::Live, None) => {
                self.turn.commands = self.turn.commands.saturating_add(1);
                self.record(NoteEvent::PatchApplied { patch: patch.into() }, self.time_ms);
                true
            }
            _ => false,
        };
        self.patches.insert(patch.into(), has_it);
        has_it
    }

    /// Returns the text that this execution has drawn under a name. At the first time it is drawn, and recorded as the
    /// patch `name` followed by the text. From then on, and in a replay, it is the recorded one. `None`: a replay
    /// passes this point, and history has none there.
    pub fn drawn(&mut self, name: &str, draw: impl FnOnce() -> String) -> Option<String> {
        let of_name = |patch: &str| patch.strip_prefix(name).map(str::to_owned);
        let known = self.patches.iter().filter(|&(_, &has_it)| has_it);
        if let Some(drawn) = known.map(|(patch, _)| patch).find_map(|patch| of_name(patch)) {
            return Some(drawn);
        }
        let drawn = match &self.phase {
            Phase::Replaying(queue) => queue.next_patches().find_map(of_name)?,
            _ => draw(),
        };
        self.patched(&format!("{name}{drawn}")).then_some(drawn)
    }

    /// Returns true if history holds the patch at this point. The patches recorded before it, which the code no longer
    /// asks for, are passed over.
    fn replay_patch(&mut self, patch: &str) -> bool {
        let Phase::Replaying(queue) = &self.phase else {
            unreachable!("only called while replaying")
        };
        let Some(before) = queue.next_patches().position(|next| next == patch) else {
            return false;
        };
        for _ in 0..=before {
            let note = self.pop_if(|_: &NoteEvent| true).expect("it was just found");
            self.apply_note(note.id, note.event);
        }
        true
    }

    /// Creates the timer that limits how long the execution may go on once it is cancelled. The timer is due `delay_ms`
    /// from now; `None`: the code has no such limit. If the time limit of the instance has cancelled it, its own grace
    /// period counts. A replay takes the timer that history holds, or none if history holds none. A limit that the code
    /// has changed since then applies to later cancellations.
    ///
    /// # Errors
    ///
    /// [`Fault`] as in [`issue`](Self::issue).
    pub fn grace_timer(&mut self, delay_ms: Option<i64>) -> Result<Option<EventId>, Fault> {
        let deadline = self.deadline.as_deref().filter(|deadline| deadline.has_passed);
        let grace_ms = deadline.and_then(|deadline| deadline.limit.grace_ms);
        let delay_ms = grace_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)).or(delay_ms);
        let is_there = (delay_ms.is_some() || self.is_replaying()) && self.patched(GRACE_PATCH);
        let command = match self.recorded_timer() {
            Some(fire_at_ms) => Some(Command::CreateTimerAt { fire_at_ms }),
            None => delay_ms.map(|delay_ms| Command::CreateTimer { delay_ms }),
        };
        command
            .filter(|_| is_there)
            .map(|command| self.issue(command))
            .transpose()
    }
}

//! Marks of transactions: what tells whether one passed whose COMMIT was not answered.
//!
//! Each transaction under way has a slot of its own, a row of `marks`, in which it leaves a number of its own. Slots are used again, so that
//! there are as many rows as transactions run at once.

use parking_lot::Mutex;
use uuid::Uuid;

/// The statement, or the part of one, that leaves a mark: its slot and its number are the parameter `slot` and the one after it. `rows`: `FROM` what has
/// to be there, or nothing.
pub(crate) fn leaving(slot: usize, rows: &str) -> String {
    let number = slot + 1;
    format!(
        "INSERT INTO {{schema}}.marks (slot, number, time) SELECT ${slot}, ${number}, {{now}} {rows}
  ON CONFLICT (slot) DO UPDATE SET number = excluded.number, time = excluded.time"
    )
}

/// The mark of one transaction.
pub(crate) struct Mark {
    pub(crate) slot: String,
    pub(crate) number: i64,
}

/// Slots that no transaction uses now.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    pub(crate) fn take(&self) -> Mark {
        let free = self.0.lock().pop();
        let Mark { slot, number } = free.unwrap_or_else(|| Mark {
            slot: Uuid::new_v4().simple().to_string(),
            number: 0,
        });
        Mark {
            slot,
            number: number + 1,
        }
    }

    /// The transaction has ended, in whatever way, and that is known. A slot that never comes back was of one that was given up.
    pub(crate) fn give_back(&self, mark: Mark) {
        self.0.lock().push(mark);
    }
}

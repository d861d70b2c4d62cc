//! Marks of transactions: what tells whether one passed whose answer was lost, and keeps one that did not pass from passing later.
//!
//! After a *lost acknowledgement* (the connection was cut, or the answer did not come in time) a transaction has passed, or was rolled back, or **is still to be
//! carried out**: its backend waits for a lock, or a proxy delivers it late. A caller that is told "it failed" and repeats the call would have it twice. So each
//! transaction has a slot of its own, a row of `marks`, and leaves a number of its own in it, and whoever resolves the lost acknowledgement raises that number.
//! How this fits together with turns, acquisitions and the rest, and what else was thought of: `docs/internals/lost-acknowledgements.md`.
//!
//! - **M1** A slot belongs to one transaction at a time, the numbers that are left in it rise, and no row of `marks` is written but by [`leaving`] and [`was_committed`].
//! - **M2** A mark is left by the transaction that it is for, where the row has a lower number or is not there. Where the row has the same or a higher number the statement
//!   fails, and nothing of its transaction takes effect. `ON CONFLICT DO UPDATE` reads the newest version of the row, under its lock, whatever the statement's
//!   snapshot shows: it does not matter where in the statement that is done, nor what the statement waited for before (READ COMMITTED).
//! - **M3** [`was_committed`] reads the number and raises a lower one above that of the transaction, in one statement that commits by itself. "No" is said when that is
//!   committed: by M2 the transaction will then never pass. "Yes" is said when the number is that of the transaction.
//! - **M4** It writes the row in either case. Its own commit comes after the one it tells of, so that its answer is as durable as that commit: where a standby is waited for, both are there.
//! - **M5** The lock of the row, or the unique index where there is no row yet, puts both in order. The transaction has the lock: [`was_committed`] waits for its end, and a
//!   `COMMIT` that comes late still decides. [`was_committed`] has it: the transaction waits, and fails when that commits.
//! - **M6** A call of [`was_committed`] may itself be lost and come to pass late. It changes no number that is as high as its own, and each says the same after the first.
//! - **M7** A slot is used again when the end of its transaction was answered. When that was lost the slot is given up: a late transaction would hold its row.
//!   Rows that nobody has written for [`MARKS_KEPT`] are deleted, so that a transaction may be late by less than that.
//! - **M8** A transaction of several statements leaves its mark first and sends `COMMIT` when that was answered: it has the lock of the row for as long as its end is
//!   open, at most [`IDLE_IN_TRANSACTION_MAX`](crate::options::IDLE_IN_TRANSACTION_MAX) after its last statement. One that never got to its `COMMIT` needs no answer, it has none to lose.
//!
//! After a restart of the server from an older state (a failover that lost commits, a restored backup) rows have lower numbers or are gone: marks are left as ever, and what was lost is told as not committed.

use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::connection::{Connection, Connections};
use crate::error::Failure;
use crate::options::{MARKS_KEPT, OUTCOME_EVERY};
use crate::params::P;

/// The statement, or the part of one, that leaves a mark (M2): its slot and its number are the parameter `slot` and the one after it. `rows`: `FROM` what has
/// to be there, or nothing. The words are for the server's log.
pub(crate) fn leaving(slot: usize, rows: &str) -> String {
    let number = slot + 1;
    format!(
        "INSERT INTO {{schema}}.marks AS m (slot, number, time) SELECT ${slot}, ${number}, {{now}} {rows}
  ON CONFLICT (slot) DO UPDATE SET time = excluded.time, number = CASE WHEN m.number < excluded.number THEN excluded.number
    ELSE ('Perdure takes back what comes after its answer was given up, mark ' || m.slot)::bigint END"
    )
}

/// Raises the number of a slot unless its transaction has passed (M3).
const RESOLVE: &str = "INSERT INTO {schema}.marks AS m (slot, number, time) VALUES ($1, $2::bigint + 1, {now})
  ON CONFLICT (slot) DO UPDATE SET number = CASE WHEN m.number < $2 THEN $2 + 1 ELSE m.number END, time = excluded.time RETURNING number";

/// The mark of one transaction. Dropped, its slot is never used again.
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

    /// The transaction has ended, and the server has said so (M7).
    pub(crate) fn give_back(&self, mark: Mark) {
        self.0.lock().push(mark);
    }
}

/// Whether a transaction passed whose answer was lost; if not, it never will (M3). Asked until the server says, or the store is closed: then it is not known.
pub(crate) async fn was_committed(connections: &Arc<Connections>, mark: &Mark) -> Result<bool, Failure> {
    loop {
        let asked = async {
            let connection = connections.get().await?;
            let params = [P::Text(&mark.slot), P::Int(mark.number)];
            let number: i64 = connection.query_one(RESOLVE, &params).await?.try_get(0)?;
            Ok::<_, Failure>(number)
        };
        match asked.await {
            Ok(number) => return Ok(number == mark.number),
            Err(failure) if connections.is_closed() => return Err(failure.of_unknown_outcome()),
            Err(_) => {}
        }
        crate::time::sleep(OUTCOME_EVERY).await;
    }
}

/// Delete the rows of slots that processes which are gone have left, and of those that were given up (M7).
pub(crate) async fn forget_old(connection: &Connection) -> Result<(), Failure> {
    let kept_ms = i64::try_from(MARKS_KEPT.as_millis()).unwrap_or(i64::MAX);
    connection
        .query("DELETE FROM {schema}.marks WHERE time < {now} - $1", &[P::Int(kept_ms)])
        .await?;
    Ok(())
}

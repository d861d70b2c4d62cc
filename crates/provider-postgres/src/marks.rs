//! Marks of transactions. A mark tells whether a transaction with a lost answer was committed, and keeps a transaction
//! that was not committed from being committed later.
//!
//! After a *lost acknowledgement* (the connection was cut, or the answer did not come in time) a transaction was
//! committed, or was rolled back, or **is still to be carried out**: its backend waits for a lock, or a proxy delivers
//! it late. A caller that is told "it failed" and repeats the call would have it twice. So each transaction has a slot
//! of its own, a row of `marks`, and leaves a number of its own in it. The process that resolves the lost
//! acknowledgement raises that number. For how this fits together with turns, acquisitions and the rest, and for the
//! alternatives, see `docs/internals/lost-acknowledgements.md`.
//!
//! - **M1** A slot belongs to one transaction at a time. The numbers that are left in it rise. Only [`leaving`] and
//!   [`was_committed`] write a row of `marks`.
//! - **M2** A transaction leaves its own mark if the row has a lower number or does not exist. If the row has the same
//!   or a higher number, the statement fails, and nothing of its transaction takes effect. `ON CONFLICT DO UPDATE`
//!   reads the newest version of the row, under its lock, regardless of the statement's snapshot. So it does not matter
//!   where in the statement the mark is left, nor what the statement waited for before (READ COMMITTED).
//! - **M3** [`was_committed`] reads the number and raises a lower one above that of the transaction, in one statement
//!   that commits by itself. It answers "no" when that is committed: by M2 the transaction will then never be
//!   committed. It answers "yes" when the number is that of the transaction.
//! - **M4** [`was_committed`] writes the row in either case. Its own commit comes after the one that it reports, so its
//!   answer is as durable as that commit: where a standby is waited for, both commits are there.
//! - **M5** The lock of the row, or the unique index where there is no row yet, puts both in order. If the transaction
//!   has the lock, [`was_committed`] waits for its end, and a `COMMIT` that comes late still decides. If
//!   [`was_committed`] has the lock, the transaction waits, and fails when [`was_committed`] commits.
//! - **M6** A call of [`was_committed`] may itself be lost and take effect late. It changes no number that is as high
//!   as its own, and each call gives the same answer as the first.
//! - **M7** A slot is used again when the end of its transaction was answered. When that answer was lost, the slot is
//!   given up: a late transaction would hold its row. Rows that were not written for [`MARKS_KEPT`] are deleted, so a
//!   transaction may be late by less than that.
//! - **M8** A transaction of several statements leaves its mark first and sends `COMMIT` when that was answered. It has
//!   the lock of the row for as long as its end is open, at most
//!   [`IDLE_IN_TRANSACTION_MAX`](crate::options::IDLE_IN_TRANSACTION_MAX) after its last statement. A transaction that
//!   never got to its `COMMIT` has no answer to lose.
//!
//! After a restart of the server from an older state (a failover that lost commits, a restored backup) rows have lower
//! numbers or are gone. Marks are left as before, and lost transactions are reported as not committed.

use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::connection::{Connection, Connections};
use crate::error::Failure;
use crate::options::{MARKS_KEPT, OUTCOME_EVERY};
use crate::params::P;
use crate::statement::named;

/// Returns the statement, or the part of one, that leaves a mark (M2). Its parameters are `mark_slot` and
/// `mark_number`. `rows` is a `FROM` clause with the rows that have to exist, or empty. The words of the error are for
/// the server's log.
pub(crate) fn leaving(rows: &str) -> String {
    format!(
        "INSERT INTO {{schema}}.marks AS m (slot, number, time) SELECT $mark_slot, $mark_number, {{now}} {rows}
  ON CONFLICT (slot) DO UPDATE SET time = excluded.time, number =
  CASE WHEN m.number < excluded.number THEN excluded.number
    ELSE ('Perdure takes back what comes after its answer was given up, mark ' || m.slot)::bigint END"
    )
}

/// Raises the number of a slot unless its transaction was committed (M3).
const RESOLVE: &str = "INSERT INTO {schema}.marks AS m (slot, number, time) VALUES ($slot, $number::bigint + 1, {now})
  ON CONFLICT (slot) DO UPDATE SET number = CASE WHEN m.number < $number THEN $number + 1
  ELSE m.number END, time = excluded.time RETURNING number";

/// The mark of one transaction. When it is dropped, its slot is never used again.
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

    /// Frees the slot of a transaction whose end was answered by the server (M7).
    pub(crate) fn return_mark(&self, mark: Mark) {
        self.0.lock().push(mark);
    }
}

/// Returns true if a transaction with a lost answer was committed. If it returns false, the transaction never will be
/// (M3). Asks until the server answers. If the store is closed before that, the outcome is unknown.
pub(crate) async fn was_committed(connections: &Arc<Connections>, mark: &Mark) -> Result<bool, Failure> {
    loop {
        let asked = async {
            let connection = connections.get().await?;
            let row = named!(
                connection.query_one,
                RESOLVE,
                { slot: P::Text(&mark.slot), number: P::Int(mark.number) }
            )
            .await?;
            let number: i64 = row.try_get(0)?;
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

/// Deletes the rows of slots that were given up, and of those that former processes have left (M7).
pub(crate) async fn forget_old(connection: &Connection) -> Result<(), Failure> {
    let kept_ms = i64::try_from(MARKS_KEPT.as_millis()).unwrap_or(i64::MAX);
    connection
        .query("DELETE FROM {schema}.marks WHERE time < {now} - $1", &[P::Int(kept_ms)])
        .await?;
    Ok(())
}

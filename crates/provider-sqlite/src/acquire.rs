//! The acquisition of instances that are due, in order (P3, P4).
//!
//! A reader looks for due instances and measures them. The writer acquires them in a transaction that touches only rows
//! of instances. A reader then reads their data, so that no history holds up a write.
//!
//! The partial index on `(name, version, priority, wake_at)` holds only the active, unowned instances. For each
//! registered orchestration and each priority in use it is read from the longest due on, and no further than the limit
//! plus one. Neither a million sleepers nor a backlog of unregistered orchestrations therefore costs anything.

use std::cmp::Reverse;

use perdure_engine::{EventId, EventRecord, ExecutionId, MessageSeq};
use perdure_provider::{
    Acquire, Acquired, AcquiredInstance, Due, DueInstance, DueRequest, Epoch, InstanceKey, Load, LoadOne, Loaded,
    MessagePage, OPEN_VERSION, PageLimit, Settled, Suspicion,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::admission::{self, FoundQueues, earliest};
use crate::error::Failure;
use crate::registration;
use crate::rows::{integer, number};
use crate::session::Session;
use crate::{history, inbox, queues};

/// A due instance, in the order in which instances are acquired.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DueRow {
    priority: Reverse<i64>,
    wake_at_ms: i64,
    key: i64,
    /// True if the version is open (P17).
    is_open: bool,
}

/// The instances that a request may acquire, with the bytes to load for each.
pub(crate) struct Found {
    due: Vec<(DueRow, usize)>,
    next_wake_at_ms: Option<i64>,
    now_ms: i64,
    queues: FoundQueues,
}

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.queues.is_empty()
    }

    /// Returns the answer to a request that acquires nothing.
    pub(crate) fn into_nothing(self) -> Acquired {
        Acquired {
            instances: Vec::new(),
            next_wake_at_ms: self.next_wake_at_ms,
            now_ms: self.now_ms,
            slots_wanted: false,
        }
    }
}

/// Looks for due instances. This takes no lock: it runs on a reader's connection.
pub(crate) fn find(connection: &Connection, request: &Acquire, now_ms: i64) -> Result<Found, Failure> {
    let limit = request.limit;
    let search = DueSearch {
        worker: &request.worker.0,
        registered: &request.registered,
        limit: limit.rows,
        left_ms: integer(request.left_ms),
        now_ms,
    };
    let (due, mut next_wake_at_ms) = search.find(connection)?;
    let queues = admission::find(connection, request, now_ms)?;
    if let Some(at_ms) = queues.next_at_ms() {
        earliest(&mut next_wake_at_ms, at_ms);
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    for next in due {
        if limit.is_reached(found.len(), bytes) {
            earliest(&mut next_wake_at_ms, next.wake_at_ms);
            continue;
        }
        let size = match page_bytes(connection, next.key, request.history_page) {
            // The load that reads this row reports it.
            Err(failure) if failure.is_undecodable() => 0,
            size => size?,
        };
        bytes += size;
        found.push((next, size));
    }
    Ok(Found {
        due: found,
        next_wake_at_ms,
        now_ms,
        queues,
    })
}

/// Returns the instances that are due, with their messages.
pub(crate) fn due(connection: &Connection, request: &DueRequest, now_ms: i64) -> Result<Due, Failure> {
    let search = DueSearch {
        worker: &request.worker.0,
        registered: &request.registered,
        limit: request.rows,
        left_ms: integer(request.left_ms),
        now_ms,
    };
    let (rows, mut next_wake_at_ms) = search.find(connection)?;
    let queues = admission::find(connection, request, now_ms)?;
    if let Some(at_ms) = queues.next_at_ms() {
        earliest(&mut next_wake_at_ms, at_ms);
    }
    let mut instances = Vec::with_capacity(rows.len());
    for row in rows.iter().take(request.rows) {
        instances.extend(read_due(connection, row.key, request.messages)?);
    }
    Ok(Due {
        instances,
        has_others: rows.len() > request.rows || !queues.is_empty(),
        next_wake_at_ms,
        now_ms,
    })
}

/// Returns an instance that is due. `None`: it is no longer.
fn read_due(connection: &Connection, key: i64, page: PageLimit) -> Result<Option<DueInstance>, Failure> {
    let row = connection
        .prepare_cached("SELECT epoch, next_event_id FROM instances WHERE key = ?1 AND wake_at IS NOT NULL")?
        .query_row([key], |row| Ok((number(row, 0), number(row, 1))))
        .optional()?;
    let Some((epoch, next_event_id)) = row else {
        return Ok(None);
    };
    let messages = match inbox::of_instance(connection, InstanceKey(key), None, page) {
        Ok(page) => page.is_whole().then_some(page.messages),
        // The load that reads this row reports it.
        Err(failure) if failure.is_undecodable() => None,
        Err(failure) => return Err(failure),
    };
    Ok(Some(DueInstance {
        key: InstanceKey(key),
        epoch: Epoch(epoch?),
        next_event_id: EventId(next_event_id?),
        messages,
    }))
}

/// Returns the bytes of the first page of an instance's history, and of the messages and heartbeats that are read with
/// it. SQLite reads no value to give its length.
pub(crate) fn page_bytes(connection: &Connection, key: i64, page: PageLimit) -> Result<usize, Failure> {
    const OF_PAGE: &str = "SELECT coalesce(octet_length(h.payload), 0) + coalesce(octet_length(h.meta), 0)
         FROM instances i CROSS JOIN history h ON h.instance_key = i.key AND h.execution = i.execution
         WHERE i.key = ?1 ORDER BY h.event_id LIMIT ?2";
    const OF_MESSAGES: &str =
        "SELECT coalesce(octet_length(payload), 0) FROM messages WHERE instance_key = ?1 ORDER BY seq LIMIT ?2";
    const OF_HEARTBEATS: &str = "SELECT octet_length(h.details)
         FROM instances i CROSS JOIN heartbeats h ON h.instance_key = i.key AND h.execution = i.execution
         WHERE i.key = ?1 LIMIT ?2";
    let mut all = 0;
    for sql in [OF_PAGE, OF_MESSAGES, OF_HEARTBEATS] {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![key, integer(page.rows as u64)])?;
        let mut bytes = 0;
        while bytes < page.bytes
            && let Some(row) = rows.next()?
        {
            bytes += usize::try_from(number(row, 0)?).unwrap_or(usize::MAX);
        }
        all += bytes;
    }
    Ok(all)
}

/// Makes the worker the owner of the instances found. If others took some of them meanwhile, the writer looks for other
/// due instances in the same transaction.
pub(crate) fn claim(session: &mut Session<'_>, request: &Acquire, found: &Found) -> Result<Acquired, Failure> {
    let mut acquired = Acquired {
        now_ms: session.now_ms(),
        ..Acquired::default()
    };
    // A worker that was removed meanwhile gets nothing: no other worker would ever take its instances over.
    if !registration::is_registered(session, &request.worker)? {
        return Ok(acquired);
    }
    take_all(session, request, found, &mut acquired)?;
    if acquired.instances.len() < found.due.len() {
        let bytes: usize = acquired.instances.iter().map(|instance| instance.page_bytes).sum();
        let left = PageLimit {
            rows: request.limit.rows - acquired.instances.len(),
            bytes: request.limit.bytes.saturating_sub(bytes),
        };
        let rest = Acquire {
            limit: left,
            ..request.clone()
        };
        let found = find(session.connection(), &rest, session.now_ms())?;
        take_all(session, request, &found, &mut acquired)?;
    }
    admission::admit(session, request, &found.queues, &mut acquired)?;
    Ok(acquired)
}

fn take_all(
    session: &mut Session<'_>,
    request: &Acquire,
    found: &Found,
    acquired: &mut Acquired,
) -> Result<(), Failure> {
    let seen = inbox::last(session.connection())?;
    for (due, page_bytes) in &found.due {
        let key = InstanceKey(due.key);
        if due.is_open && !settle(session, request, key)? {
            continue;
        }
        let instance = take(session, request, key, seen, Line::Due)?;
        acquired.instances.extend(instance.map(|instance| AcquiredInstance {
            page_bytes: *page_bytes,
            ..instance
        }));
    }
    acquired.next_wake_at_ms = found.next_wake_at_ms;
    Ok(())
}

/// A search for the due instances of some orchestrations.
struct DueSearch<'s> {
    worker: &'s str,
    registered: &'s [(String, String)],
    limit: usize,
    /// Time for which an instance is left to another worker (P29), ms.
    left_ms: i64,
    now_ms: i64,
}

impl DueSearch<'_> {
    /// Returns the instances that are due, in order, at most `limit + 1` of each priority, and the time at which the
    /// next one is.
    fn find(&self, connection: &Connection) -> Result<(Vec<DueRow>, Option<i64>), Failure> {
        let mut registered = self.registered.to_vec();
        registered.sort_unstable();
        registered.dedup();
        let (mut due, mut next_wake_at_ms) = (Vec::new(), None);
        for (name, version) in &registered {
            self.collect(connection, (name, version), &mut due, &mut next_wake_at_ms)?;
        }
        due.sort_unstable();
        Ok((due, next_wake_at_ms))
    }

    /// Adds the due instances of one orchestration, and notes when the first instance that is not due yet will be.
    fn collect(
        &self,
        connection: &Connection,
        (name, version): (&str, &str),
        due: &mut Vec<DueRow>,
        next_wake_at_ms: &mut Option<i64>,
    ) -> Result<(), Failure> {
        let mut priorities = connection.prepare_cached(
            "SELECT priority FROM instances WHERE wake_at IS NOT NULL AND name = ?1 AND version = ?2 AND priority < ?3
             ORDER BY priority DESC LIMIT 1",
        )?;
        let mut waiting = connection.prepare_cached(
            "SELECT key, wake_at, wake_at > ?4 AND wake_at <= ?5 AND released_by <> ?6
               AND EXISTS (SELECT 1 FROM workers WHERE id = released_by) FROM instances
             WHERE wake_at IS NOT NULL AND name = ?1 AND version = ?2 AND priority = ?3 ORDER BY wake_at, key",
        )?;
        let mut below = i64::MAX;
        while let Some(priority) = priorities
            .query_row(params![name, version, below], |row| row.get(0))
            .optional()?
        {
            below = priority;
            let left_since = self.now_ms.saturating_sub(self.left_ms);
            let mut rows = waiting.query(params![name, version, priority, left_since, self.now_ms, self.worker])?;
            let full = due.len() + self.limit;
            while due.len() <= full
                && let Some(row) = rows.next()?
            {
                let (key, wake_at_ms): (i64, i64) = (row.get(0)?, row.get(1)?);
                if wake_at_ms > self.now_ms {
                    earliest(next_wake_at_ms, wake_at_ms);
                    break;
                }
                if row.get::<_, Option<bool>>(2)? == Some(true) {
                    earliest(next_wake_at_ms, wake_at_ms.saturating_add(self.left_ms));
                    continue;
                }
                due.push(DueRow {
                    priority: Reverse(priority),
                    wake_at_ms,
                    key,
                    is_open: version == OPEN_VERSION,
                });
            }
        }
        Ok(())
    }
}

/// Settles the version of an instance whose version is open. Returns true if the worker acquires the instance, and
/// false if another worker has settled it meanwhile or the worker does not have the version.
fn settle(session: &Session<'_>, request: &Acquire, key: InstanceKey) -> Result<bool, Failure> {
    let name: Option<String> = session.query_optional(
        "SELECT name FROM instances WHERE key = ?1 AND version = ?2 AND owner IS NULL",
        params![key.0, OPEN_VERSION],
        |row| row.get(0),
    )?;
    let Some(name) = name else { return Ok(false) };
    let Settled { version, is_own } = request.settle(&name, &registration::live_orchestrations(session)?);
    session.execute(
        "UPDATE instances SET version = ?2 WHERE key = ?1",
        params![key.0, version],
    )?;
    Ok(is_own)
}

/// The reason for which an instance is acquired.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// The instance is due.
    Due,
    /// The instance gets a slot of its queue.
    Queue,
}

/// Settles the version of an instance in line, which is open. Returns false if the worker is not to run the instance.
pub(crate) fn settle_in_line(session: &Session<'_>, request: &Acquire, key: InstanceKey) -> Result<bool, Failure> {
    let is_own = settle(session, request, key)?;
    session.execute(
        "UPDATE queue_places SET version = (SELECT version FROM instances WHERE key = ?1) WHERE key = ?1",
        params![key.0],
    )?;
    queues::release_next(session, key.into())?;
    Ok(is_own)
}

/// Makes the worker the owner. Returns `None` if another worker is the owner meanwhile, or if the row cannot be read.
/// An unreadable instance is suspended with the reason, because one undecodable row must not keep all the others from
/// being acquired.
pub(crate) fn take(
    session: &mut Session<'_>,
    request: &Acquire,
    key: InstanceKey,
    seen: MessageSeq,
    line: Line,
) -> Result<Option<AcquiredInstance>, Failure> {
    let taken = session.query_optional(
        "UPDATE instances SET owner = ?2, epoch = epoch + 1, wake_at = NULL, probation = 0
         WHERE key = ?1 AND owner IS NULL AND (wake_at <= ?3 OR ?4)
         RETURNING id, name, version, parent_id, execution, epoch, next_event_id, turns, suspicion, tags",
        params![key.0, &*request.worker.0, session.now_ms(), line == Line::Queue],
        |row| {
            Ok(AcquiredInstance {
                key,
                id: row.get(0)?,
                name: row.get(1)?,
                version: row.get(2)?,
                parent_id: row.get(3)?,
                tags: row.get(9)?,
                execution: ExecutionId(number(row, 4)?),
                epoch: Epoch(number(row, 5)?),
                next_event_id: EventId(number(row, 6)?),
                fresh: number(row, 7)? == 0,
                page_bytes: 0,
                history: Vec::new(),
                messages: MessagePage::default(),
                seen,
                heartbeats: Vec::new(),
                tasks: Vec::new(),
                suspicion: Suspicion(row.get(8)?),
            })
        },
    );
    match taken {
        // Perdure writes no due time beside an owner, so another program did: the time is cleared.
        Ok(None) => {
            session.execute(
                "UPDATE instances SET wake_at = NULL WHERE key = ?1 AND owner IS NOT NULL AND wake_at IS NOT NULL",
                params![key.0],
            )?;
            Ok(None)
        }
        Err(failure) if failure.is_undecodable() || failure.is_impossible() => {
            session.execute(
                "UPDATE instances SET status = 'Suspended', owner = NULL, wake_at = NULL, report = ?2 WHERE key = ?1",
                params![
                    key.0,
                    format!("Rows of this instance in the store cannot be read: {failure}")
                ],
            )?;
            Ok(None)
        }
        taken => taken,
    }
}

/// Returns what is stored of the instances, all at one moment.
pub(crate) fn load(connection: &Connection, request: &Load) -> Result<Vec<Result<Loaded, Failure>>, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let mut loaded = Vec::with_capacity(request.instances.len());
    for one in &request.instances {
        loaded.push(match load_one(connection, request, *one) {
            Err(failure) if !failure.is_undecodable() => return Err(failure),
            read => read,
        });
    }
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(loaded)
}

/// Reads the first page of a history, which must be whole.
fn first_page(connection: &Connection, one: LoadOne, page: PageLimit) -> Result<Vec<EventRecord>, Failure> {
    let history = history::read(connection, one.key, one.execution, EventId::FIRST, page)?;
    let recorded = one.next_event_id.0.saturating_sub(1);
    let bytes = history.iter().map(EventRecord::bytes).sum();
    if recorded == 0 || !page.is_reached(history.len(), bytes) && (history.len() as u64) < recorded {
        return Err(Failure::corrupt(format!(
            "instance {} has {recorded} events, and some of them are missing",
            one.key.0
        )));
    }
    Ok(history)
}

fn load_one(connection: &Connection, request: &Load, one: LoadOne) -> Result<Loaded, Failure> {
    let LoadOne {
        key,
        execution,
        history,
        ..
    } = one;
    let history = if history {
        first_page(connection, one, request.history_page)?
    } else {
        Vec::new()
    };
    let of_execution = params![key.0, integer(execution.0)];
    let heartbeats = connection
        .prepare_cached(
            "SELECT event_id, details FROM heartbeats WHERE instance_key = ?1 AND execution = ?2 ORDER BY event_id",
        )?
        .query_map(of_execution, |row| Ok((EventId(number(row, 0)?), row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let tasks = connection
        .prepare_cached("SELECT event_id FROM tasks WHERE instance_key = ?1 AND execution = ?2 ORDER BY event_id")?
        .query_map(of_execution, |row| Ok(EventId(number(row, 0)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Loaded {
        history,
        messages: inbox::of_instance(connection, key, None, request.message_page)?,
        heartbeats,
        tasks,
    })
}

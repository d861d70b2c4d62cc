//! The acquisition of instances that are due, in order (P3, P4).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use perdure_engine::{Bug, EventId, EventRecord, MessageSeq, is_planted};
use perdure_provider::{
    Acquire, Acquired, AcquiredInstance, Due, DueInstance, DueRequest, EntryKey, Epoch, InstanceKey, Load, LoadOne,
    Loaded, MessagePage, OPEN_VERSION, PageLimit, Settled, WorkerId,
};

use crate::admission::{self, Taker};
use crate::rows::InstanceRow;
use crate::tables::{Tables, of_execution};
use crate::{history, inbox, queues, worker};

pub(crate) fn acquire(tables: &mut Tables, request: &Acquire) -> Acquired {
    let mut acquired = Acquired {
        now_ms: tables.now_ms,
        ..Acquired::default()
    };
    // A worker that was removed meanwhile gets nothing: no other worker would ever take its instances over.
    if !tables.is_registered(&request.worker) {
        return acquired;
    }
    let search = Search {
        worker: &request.worker,
        registered: &request.registered,
        left_ms: request.left_ms,
    };
    let (mut due, next_wake_at_ms) = search.find(tables);
    acquired.next_wake_at_ms = next_wake_at_ms;
    let sizes: Vec<usize> = due
        .iter()
        .take(request.limit.rows)
        .map(|(_, _, key)| page_bytes(tables, request, *key))
        .collect();
    let mut bytes = 0;
    let fits = |(taken, size): (usize, &usize)| {
        let fits = !request.limit.is_reached(taken, bytes);
        bytes += size;
        fits
    };
    let taken = sizes.iter().enumerate().map(fits).take_while(|fits| *fits).count();
    let left_behind = due.split_off(taken);
    if let Some(first) = left_behind.iter().map(|(_, wake_at_ms, _)| *wake_at_ms).min() {
        acquired.look_again_at(first);
    }
    let taken = due.into_iter().zip(sizes).filter_map(|((_, _, key), size)| {
        let is_own = settle(tables, request, key);
        is_own.then(|| take(tables, request, key, size))
    });
    acquired.instances = taken.collect();
    let mut taker = FromQueues { request, acquired };
    admission::admit(tables, &mut taker);
    taker.acquired
}

/// Returns the instances that are due, with their messages.
pub(crate) fn due(tables: &Tables, request: &DueRequest) -> Due {
    let search = Search {
        worker: &request.worker,
        registered: &request.registered,
        left_ms: request.left_ms,
    };
    let (due, due_next_ms) = search.find(tables);
    let can_run = |row: &InstanceRow| can_run(search.registered, &row.name, &row.version);
    let (waits, queued_next_ms) = queues::work(tables, can_run);
    let told = |(_, _, key): (_, _, InstanceKey)| {
        let row = tables.instance(key).expect("it is due");
        let page = inbox::of_instance(tables, key, None, request.messages);
        DueInstance {
            key,
            epoch: row.epoch,
            next_event_id: row.next_event_id,
            messages: page.is_whole().then_some(page.messages),
        }
    };
    Due {
        has_others: due.len() > request.rows || waits,
        instances: due.into_iter().take(request.rows).map(told).collect(),
        next_wake_at_ms: due_next_ms.into_iter().chain(queued_next_ms).min(),
        now_ms: tables.now_ms,
    }
}

/// Priority, time and key of an instance that is due, in the order of acquisitions.
type DueEntry = (Reverse<i32>, i64, InstanceKey);

/// A search for instances that are due.
struct Search<'r> {
    worker: &'r WorkerId,
    registered: &'r [(String, String)],
    left_ms: u64,
}

impl Search<'_> {
    /// Returns the instances that are due, in order, and the time at which the next one is.
    fn find(&self, tables: &Tables) -> (Vec<DueEntry>, Option<i64>) {
        let registered = self.registered.iter();
        let registered: BTreeSet<_> = registered.map(|(name, version)| (&**name, &**version)).collect();
        let (mut due, mut next_wake_at_ms) = (Vec::new(), None);
        let mut note = |at_ms: i64| next_wake_at_ms = Some(next_wake_at_ms.map_or(at_ms, |next: i64| next.min(at_ms)));
        for ((wake_at_ms, key), ()) in tables.indexes.due.iter() {
            let row = tables.instance(*key).expect("an entry of an index has its row");
            if !registered.contains(&(&*row.name, &*row.version)) {
                continue;
            }
            if *wake_at_ms > tables.now_ms {
                note(*wake_at_ms);
                break;
            }
            match self.left_until(tables, row, *wake_at_ms) {
                Some(at_ms) => note(at_ms),
                None => due.push((Reverse(row.priority), *wake_at_ms, *key)),
            }
        }
        due.sort_unstable();
        (due, next_wake_at_ms)
    }

    /// Returns the time until which an instance that is due is left to another worker (P29). `None`: it is not.
    fn left_until(&self, tables: &Tables, row: &InstanceRow, wake_at_ms: i64) -> Option<i64> {
        let until_ms = wake_at_ms.saturating_add_unsigned(self.left_ms);
        let is_left = |worker: &WorkerId| worker != self.worker && tables.is_registered(worker);
        (until_ms > tables.now_ms && row.released_by.as_ref().is_some_and(is_left)).then_some(until_ms)
    }
}

/// True if a name and a version are among the registered ones.
fn can_run(registered: &[(String, String)], name: &str, version: &str) -> bool {
    registered.iter().any(|sort| sort.0 == name && sort.1 == version)
}

/// A request that takes instances out of the line.
struct FromQueues<'a> {
    request: &'a Acquire,
    acquired: Acquired,
}

impl Taker for FromQueues<'_> {
    fn worker(&self) -> &WorkerId {
        &self.request.worker
    }

    fn serves(&self, _queue: &str) -> bool {
        true
    }

    fn can_run(&self, name: &str, version: &str) -> bool {
        can_run(&self.request.registered, name, version)
    }

    fn limit(&self) -> PageLimit {
        self.request.limit
    }

    fn taken(&self) -> (usize, usize) {
        let instances = &self.acquired.instances;
        (
            instances.len(),
            instances.iter().map(|instance| instance.page_bytes).sum(),
        )
    }

    fn bytes(&self, tables: &Tables, key: EntryKey) -> usize {
        page_bytes(tables, self.request, in_line(key))
    }

    fn settle(&self, tables: &mut Tables, key: EntryKey) -> bool {
        settle(tables, self.request, in_line(key))
    }

    fn take(&mut self, tables: &mut Tables, key: EntryKey) {
        let size = self.bytes(tables, key);
        let instance = take(tables, self.request, in_line(key), size);
        self.acquired.instances.push(instance);
    }

    fn look_again_at(&mut self, at_ms: i64) {
        self.acquired.look_again_at(at_ms);
    }

    fn want_slots(&mut self) {
        self.acquired.slots_wanted = true;
    }
}

fn in_line(key: EntryKey) -> InstanceKey {
    key.instance().expect("no orchestration has the version of attempts")
}

/// Returns the bytes of the first page of an instance's history, and of the messages and heartbeats that are read with
/// it.
fn page_bytes(tables: &Tables, request: &Acquire, key: InstanceKey) -> usize {
    let execution = tables
        .instance(key)
        .expect("an entry of an index has its row")
        .execution;
    let page = history::read(tables, key, execution, EventId::FIRST, request.history_page);
    let messages = tables
        .messages_after(key, MessageSeq(0))
        .take(request.history_page.rows);
    let heartbeats = tables.heartbeats.range(of_execution(key, execution));
    page.iter().map(EventRecord::bytes).sum::<usize>()
        + messages.map(|(_, body)| body.bytes()).sum::<usize>()
        + heartbeats.map(|(_, kept)| kept.details.len()).sum::<usize>()
}

/// Settles the version of an instance whose version is open (P17). Returns true if the worker acquires the instance.
fn settle(tables: &mut Tables, request: &Acquire, key: InstanceKey) -> bool {
    let row = tables.instance(key).expect("it is due");
    if row.version != OPEN_VERSION {
        return true;
    }
    let Settled { version, is_own } = request.settle(&row.name, &worker::live_orchestrations(tables));
    tables.edit(key, |row| row.version = version);
    queues::release_next(tables, key.into());
    is_own
}

/// Makes the worker the owner.
fn take(tables: &mut Tables, request: &Acquire, key: InstanceKey, page_bytes: usize) -> AcquiredInstance {
    tables.edit(key, |row| {
        row.disown(None);
        row.owner = Some(request.worker.clone());
        row.epoch = Epoch(row.epoch.0 + u64::from(!is_planted(Bug::EpochUsedAgain)));
    });
    let row = tables.instance(key).expect("it was just changed");
    AcquiredInstance {
        key,
        id: row.id.clone(),
        name: row.name.clone(),
        version: row.version.clone(),
        parent_id: row.parent_id.clone(),
        tags: row.tags.clone(),
        execution: row.execution,
        epoch: row.epoch,
        next_event_id: row.next_event_id,
        fresh: row.turns == 0,
        page_bytes,
        history: Vec::new(),
        messages: MessagePage::default(),
        seen: tables.last_seq(),
        heartbeats: Vec::new(),
        tasks: Vec::new(),
        suspicion: row.suspicion,
    }
}

/// Returns what is stored of an instance.
pub(crate) fn load(tables: &Tables, request: &Load, one: LoadOne) -> Loaded {
    let LoadOne { key, execution, .. } = one;
    let own = of_execution(key, execution);
    let heartbeats = tables.heartbeats.range(own.clone());
    let tasks = tables.tasks.range(own);
    let read = || history::read(tables, key, execution, EventId::FIRST, request.history_page);
    Loaded {
        history: if one.history { read() } else { Vec::new() },
        messages: inbox::of_instance(tables, key, None, request.message_page),
        heartbeats: heartbeats
            .map(|((_, _, scheduled), kept)| (*scheduled, kept.details.clone()))
            .collect(),
        tasks: tasks.map(|((_, _, scheduled), _)| *scheduled).collect(),
    }
}

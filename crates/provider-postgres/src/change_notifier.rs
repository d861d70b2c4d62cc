//! Notifications between processes: each tells the others what its commits mean for them, and hears what theirs mean
//! for it.
//!
//! - NOTIFY is sent after the commit and on the connection that listens, never in the transaction: a transaction that
//!   notifies holds a lock of the whole database until it is durable (PostgreSQL, `PreCommit_Notify`). The changes of
//!   a busy process are sent together ([`NotifyPace`]). A change that this process can handle alone is not sent.
//! - A process that dies between the commit and NOTIFY sends nothing. So once a second the listening connection is
//!   asked for the number that the next transaction gets, which costs next to nothing. If the number has risen by more
//!   than the transactions of this process, anything may have changed. The question also shows that the connection is
//!   alive.
//! - Without notifications, that question is the only source of changes.
//! - A server that does not answer the question in [`PULSE_MAX`] counts as silent. The next connection is made to
//!   another host, if there is one, and all others follow it ([`Hosts`](crate::hosts::Hosts)). Other hosts are also
//!   tried if the server answers the question but not a commit: a former primary whose standby was promoted waits for
//!   it for ever. While a server waits for a standby, no commit is given up.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_provider::{AfterTurn, Change, ChangeListener, Outcome, Receiving, TurnCommit, WorkerId, Write};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Row};
use tokio_util::sync::CancellationToken;

use crate::connection::Connections;
use crate::error::Failure;
use crate::hosts::{Driver, SpawnDriver};
use crate::notify_pace::NotifyPace;
use crate::options::{NOTIFY_WORKERS_MAX, PULSE_EVERY, PULSE_MAX, RECONNECT_EVERY};
use crate::time::sleep;

/// Sends and hears the notifications of a process.
pub(crate) struct ChangeNotifier {
    connections: Arc<Connections>,
    /// Name of the channel.
    channel: String,
    /// Name of this handle. Notifications with this name are its own, and are ignored.
    name: String,
    listeners: Mutex<Vec<Arc<ChangeListener>>>,
    untold: Mutex<Change>,
    pace: Mutex<NotifyPace>,
    wanted: Notify,
    ending: CancellationToken,
}

impl ChangeNotifier {
    pub(crate) fn new(connections: Arc<Connections>, name: String) -> Arc<Self> {
        let notifier = Arc::new(Self {
            channel: channel(&connections.schema),
            connections,
            name,
            listeners: Mutex::default(),
            untold: Mutex::default(),
            pace: Mutex::default(),
            wanted: Notify::new(),
            ending: CancellationToken::new(),
        });
        let weak = Arc::downgrade(&notifier);
        notifier.connections.lineage.on_change(Box::new(move || {
            if let Some(notifier) = weak.upgrade() {
                notifier.notify_listeners(&Change {
                    leases: true,
                    ..Change::anything()
                });
            }
        }));
        notifier
    }

    pub(crate) fn add_listener(&self, listener: ChangeListener) {
        self.listeners.lock().push(Arc::new(listener));
    }

    pub(crate) fn add_worker(&self, worker: &WorkerId) {
        self.connections.lineage.add_worker(worker);
    }

    pub(crate) fn remove_worker(&self, worker: &WorkerId) {
        self.connections.lineage.remove_worker(worker);
    }

    /// Tells other processes what a durable batch means for them.
    pub(crate) fn written(&self, writes: &[Write], outcomes: &[Outcome]) {
        let mut change = Change::default();
        for (write, outcome) in writes.iter().zip(outcomes) {
            self.add(&mut change, write, outcome);
        }
        self.tell(change);
    }

    /// Tells other processes of a change.
    pub(crate) fn tell(&self, change: Change) {
        if change == Change::default() || !self.connections.capabilities().notifies {
            return;
        }
        merge(&mut self.untold.lock(), change);
        self.pace.lock().changed(Instant::now());
        self.wanted.notify_one();
    }

    fn add(&self, change: &mut Change, write: &Write, outcome: &Outcome) {
        if let Some(terminated) = outcome.terminated() {
            self.add_terminated(change, terminated);
        }
        if let Some(Outcome::Delivered { owner, .. }) = outcome.terminated() {
            self.receives(change, owner.as_ref());
        }
        match outcome {
            Outcome::Started { claimed: None, .. } => change.work = true,
            Outcome::Joined { .. } => {
                change.work |= matches!(write, Write::KeyedStart(keyed) if keyed.rule.moves_due_time());
            }
            Outcome::Started { turn: Some(turn), .. } => {
                if let Write::Start(instance) = write
                    && let Some(first) = &instance.first_turn
                {
                    self.add_turn(change, first, turn);
                }
            }
            Outcome::Delivered { owner, .. } => self.receives(change, owner.as_ref()),
            Outcome::Terminated { .. } => self.add_terminated(change, outcome),
            Outcome::Suspended { owner, .. } => {
                change.statuses = true;
                self.loses(change, owner.as_ref());
            }
            Outcome::Deleted => change.statuses = true,
            Outcome::Noted if matches!(write, Write::ReleaseInstance(_)) => change.work = true,
            Outcome::Noted if matches!(write, Write::ReleaseTask(_)) => change.tasks = true,
            Outcome::Appended { .. } => change.streams = true,
            Outcome::Resumed => {
                change.work = true;
                change.statuses = true;
            }
            Outcome::Committed { .. } => {
                if let Write::Turn(turn) = write {
                    self.add_turn(change, turn, outcome);
                }
            }
            Outcome::TaskDone { receivers, freed } => {
                change.tasks |= freed;
                for receiver in receivers {
                    self.receives(change, receiver.as_ref());
                }
            }
            _ => {}
        }
    }

    fn add_terminated(&self, change: &mut Change, outcome: &Outcome) {
        if let Outcome::Terminated {
            owner,
            receivers,
            stopped,
            ..
        } = outcome
        {
            change.statuses = true;
            change.tasks |= !stopped.is_empty();
            for receiver in receivers {
                self.receives(change, receiver.as_ref());
            }
            self.loses(change, owner.as_ref());
        }
    }

    fn add_turn(&self, change: &mut Change, turn: &TurnCommit, outcome: &Outcome) {
        change.statuses |= turn.changes_status();
        change.streams |= !turn.appends.is_empty();
        change.work |= matches!(&turn.after, AfterTurn::ContinueAsNew(next) if !next.hold);
        if let Outcome::Committed {
            others: Some(others), ..
        } = outcome
        {
            change.work |= others
                .started
                .iter()
                .any(|started| matches!(started, Outcome::Started { .. }));
            change.tasks |= !others.stopped.is_empty();
            change.statuses |= others.ended;
            for receiver in &others.receivers {
                self.receives(change, receiver.as_ref());
            }
            for terminated in others.terminated() {
                self.add_terminated(change, terminated);
            }
        }
        change.tasks |= turn
            .cross_instance
            .as_ref()
            .is_some_and(|others| !others.offers.is_empty());
    }

    /// Notifies the owner, which finds in its inbox that the instance was taken from it (P15).
    fn loses(&self, change: &mut Change, owner: Option<&WorkerId>) {
        if owner.is_some() {
            self.receives(change, owner);
        }
    }

    fn receives(&self, change: &mut Change, owner: Option<&WorkerId>) {
        let Some(owner) = owner else {
            change.work = true;
            return;
        };
        if !self.connections.lineage.has_worker(owner) {
            merge_receiving(&mut change.messages, Receiving::These(vec![owner.clone()]));
        }
    }

    fn notify_listeners(&self, change: &Change) {
        let listeners = self.listeners.lock().clone();
        for listener in listeners {
            listener(change);
        }
    }

    /// Runs the task that listens and notifies, until it is told to [end](Self::end).
    pub(crate) async fn run(self: Arc<Self>) {
        let mut last = TransactionCounts::default();
        while !self.ending.is_cancelled() {
            // Returns when the connection breaks, or when the task is to end.
            let _ = self.live(&mut last).await;
            self.connections.set_awaits_standby(false);
            self.rest(RECONNECT_EVERY).await;
        }
    }

    /// Ends the task. It sends the changes that are still unsent, and then nothing more.
    pub(crate) fn end(&self) {
        self.ending.cancel();
    }

    /// Sleeps, but returns at once when the task is to end.
    async fn rest(&self, duration: Duration) {
        tokio::select! {
            () = sleep(duration) => {}
            () = self.ending.cancelled() => {}
        }
    }

    /// Listens and notifies on one connection until it breaks, or the task is to end.
    async fn live(self: &Arc<Self>, last: &mut TransactionCounts) -> Result<(), Failure> {
        let spawn: SpawnDriver<'_> = &|driver| tokio::spawn(Arc::clone(self).receive_notifications(driver));
        let connecting = self.connections.hosts.connect(spawn, "");
        let (client, _hearing) = tokio::select! {
            connected = connecting => connected?,
            () = self.ending.cancelled() => return Ok(()),
        };
        if self.connections.capabilities().notifies {
            let listen = format!("LISTEN {}", self.channel);
            in_time(async { Ok(client.batch_execute(&listen).await?) }).await?;
        }
        // From here on no change is missed. Changes before this moment may have been, so everything is looked at.
        self.notify_listeners(&Change::anything());
        let telling = async {
            loop {
                let is_ending = tokio::select! {
                    () = self.ending.cancelled() => true,
                    () = self.wanted.notified() => false,
                };
                let wait = self.pace.lock().wait(Instant::now());
                if !is_ending && !wait.is_zero() {
                    self.rest(wait).await;
                }
                let untold = std::mem::take(&mut *self.untold.lock());
                if untold != Change::default()
                    && let Err(failure) = in_time(self.send(&client, &untold)).await
                {
                    merge(&mut self.untold.lock(), untold);
                    self.wanted.notify_one();
                    return Err(failure);
                }
                self.pace.lock().sent(Instant::now());
                if is_ending {
                    return Ok(());
                }
            }
        };
        let looking = async {
            loop {
                let own = self.connections.own_transactions();
                let question = if self.connections.lineage.tells_log() {
                    NEXT_TRANSACTION_AND_LOG
                } else {
                    NEXT_TRANSACTION
                };
                let asked = async { Ok(client.query_typed(question, &[]).await?) };
                let asked = in_time(asked).await;
                if matches!(asked, Err(Failure::Found(..))) {
                    self.connections.hosts.found_silent();
                }
                self.compare_counts(last, asked?.first(), own)?;
                if !self.connections.capabilities().keeps_sessions {
                    in_time(self.connections.lineage.check(&client)).await?;
                }
                self.check_slow_statements(&client, spawn).await?;
                sleep(PULSE_EVERY).await;
            }
        };
        tokio::select! {
            told = telling => told,
            broken = looking => broken,
        }
    }

    async fn send(&self, client: &Client, change: &Change) -> Result<(), Failure> {
        let told = self.written_out(change);
        client
            .query_typed(
                "SELECT pg_notify($1, $2)",
                &[(&self.channel, Type::TEXT), (&told, Type::TEXT)],
            )
            .await?;
        Ok(())
    }

    async fn receive_notifications(self: Arc<Self>, mut driver: Driver) {
        while let Some(Ok(message)) = poll_fn(|context| driver.poll_message(context)).await {
            if let AsyncMessage::Notification(told) = message
                && let Some(change) = self.read(told.payload())
            {
                self.pace.lock().heard(Instant::now());
                self.notify_listeners(&change);
            }
        }
    }

    /// Finds out why statements wait too long, if some do, and looks for a server elsewhere.
    async fn check_slow_statements(&self, client: &Client, spawn: SpawnDriver<'_>) -> Result<(), Failure> {
        let mut awaits_standby = false;
        if self.connections.has_slow() {
            let asked = async { Ok(client.query_typed(AWAITS_STANDBY, &[]).await?) };
            awaits_standby = !in_time(asked).await?.is_empty();
            self.connections.hosts.look_elsewhere(spawn).await;
        }
        self.connections.set_awaits_standby(awaits_standby);
        Ok(())
    }

    /// Compares with the last look. `own` counts transactions that had ended before this look: all of them are below
    /// the number.
    fn compare_counts(&self, last: &mut TransactionCounts, row: Option<&Row>, own: u64) -> Result<(), Failure> {
        let next: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
        if let Some(log) = row.filter(|row| row.len() > 1) {
            self.connections.lineage.note_log_position(log.try_get(1)?);
        }
        let now = TransactionCounts {
            next: next.and_then(|next| next.parse().ok()).unwrap_or(0),
            own,
        };
        let before = std::mem::replace(last, now);
        if now.next.wrapping_sub(before.next) != now.own - before.own {
            self.notify_listeners(&Change::anything());
        }
        Ok(())
    }

    /// Writes a change as `sender what workers`. `what` has a letter for each kind of change, and `*` for messages of
    /// any worker.
    fn written_out(&self, change: &Change) -> String {
        let letters = [
            (change.work, 'w'),
            (change.tasks, 't'),
            (change.statuses, 's'),
            (change.streams, 'e'),
        ];
        let mut text = format!("{} ", self.name);
        text.extend(letters.iter().filter(|(is_so, _)| *is_so).map(|(_, letter)| *letter));
        match &change.messages {
            Receiving::None => {}
            Receiving::These(workers) if workers.len() <= NOTIFY_WORKERS_MAX => {
                text.push('m');
                for worker in workers {
                    text.push(' ');
                    text.push_str(&worker.0);
                }
            }
            Receiving::These(_) | Receiving::Any => text.push('*'),
        }
        text
    }

    /// Reads a change. `None`: the notification is this handle's own.
    fn read(&self, told: &str) -> Option<Change> {
        let mut parts = told.split(' ');
        if parts.next() == Some(&self.name) {
            return None;
        }
        let Some(what) = parts.next() else {
            return Some(Change::anything());
        };
        let messages = if what.contains('*') {
            Receiving::Any
        } else if what.contains('m') {
            Receiving::These(parts.map(|worker| WorkerId(worker.into())).collect())
        } else {
            Receiving::None
        };
        Some(Change {
            work: what.contains('w'),
            tasks: what.contains('t'),
            statuses: what.contains('s'),
            streams: what.contains('e'),
            leases: false,
            messages,
        })
    }
}

/// The result of a look.
#[derive(Clone, Copy, Default)]
struct TransactionCounts {
    /// Number of the next transaction.
    next: u64,
    /// Number of transactions of this process that had ended.
    own: u64,
}

/// Gives a row while commits wait for a synchronous standby that does not confirm them. Under load a transaction waits
/// for some ms.
const AWAITS_STANDBY: &str = "SELECT FROM pg_catalog.pg_stat_activity
  WHERE datname = current_database() AND wait_event = 'SyncRep'
  AND state_change < clock_timestamp() - interval '1 second' LIMIT 1";

const NEXT_TRANSACTION_AND_LOG: &str =
    "SELECT pg_snapshot_xmax(pg_current_snapshot())::text, (pg_current_wal_flush_lsn() - '0/0')::bigint";

const NEXT_TRANSACTION: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";

/// Returns the channel of a schema, whose quoted name it takes. Names of channels have up to 63 bytes, as those of
/// schemas, and belong to a database.
pub(crate) fn channel(schema: &str) -> String {
    // FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/): the same in every process and version.
    let hash = schema.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("perdure_{hash:016x}")
}

fn merge(into: &mut Change, change: Change) {
    into.work |= change.work;
    into.tasks |= change.tasks;
    into.statuses |= change.statuses;
    into.streams |= change.streams;
    into.leases |= change.leases;
    merge_receiving(&mut into.messages, change.messages);
}

fn merge_receiving(into: &mut Receiving, more: Receiving) {
    match (into, more) {
        (Receiving::Any, _) | (_, Receiving::None) => {}
        (Receiving::These(known), Receiving::These(more)) => {
            for worker in more {
                if !known.contains(&worker) {
                    known.push(worker);
                }
            }
        }
        (into, more) => *into = more,
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(PULSE_MAX, work)
        .await
        .unwrap_or_else(|_| Err(Failure::silent()))
}

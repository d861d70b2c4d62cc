//! Waking across processes: each tells the others what its commits mean for them, and hears what theirs mean for it.
//!
//! - NOTIFY is sent after the commit and on the connection that listens, never in the transaction: a transaction that notifies holds a
//!   lock of the whole database until it is durable (PostgreSQL, `PreCommit_Notify`). What several commits have to tell goes together,
//!   at most once every [`NOTIFY_EVERY`]; what a process can do alone is told to nobody.
//! - A process that dies between the two tells nothing. So once a second the listening connection is asked for the number that the next
//!   transaction gets: that costs next to nothing, and when it has risen by more than the transactions of this process, anything may have
//!   changed. The question also shows that the connection still lives.
//! - Without notifications that question is all there is.
//! - A server that does not answer the question in [`PULSE_MAX`] is taken to be silent: the next connection is made to another host, if there is one, and
//!   all others follow it ([`Hosts`](crate::hosts::Hosts)). So they do when it answers, but not to what is to be committed: a former primary whose
//!   standby was promoted waits for it for ever. While it waits for a standby, nobody gives a commit up.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_provider::{AfterTurn, Change, ChangeListener, Outcome, Receiving, TurnCommit, WorkerId, Write};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Row};
use tokio_util::sync::CancellationToken;

use crate::connection::Connections;
use crate::error::Failure;
use crate::hosts::{Carrier, Carry};
use crate::options::{NOTIFY_EVERY, NOTIFY_WORKERS_MAX, PULSE_EVERY, PULSE_MAX, RECONNECT_EVERY};
use crate::time::sleep;

/// What a process tells and hears.
pub(crate) struct Waker {
    connections: Arc<Connections>,
    /// Name of the channel.
    channel: String,
    /// Name of this handle: what it told itself is no news.
    name: String,
    listeners: Mutex<Vec<Arc<ChangeListener>>>,
    untold: Mutex<Change>,
    wanted: Notify,
    ending: CancellationToken,
}

impl Waker {
    pub(crate) fn new(connections: Arc<Connections>, name: String) -> Arc<Self> {
        let waker = Arc::new(Self {
            channel: channel(&connections.schema),
            connections,
            name,
            listeners: Mutex::default(),
            untold: Mutex::default(),
            wanted: Notify::new(),
            ending: CancellationToken::new(),
        });
        let weak = Arc::downgrade(&waker);
        waker.connections.lineage.on_change(Box::new(move || {
            if let Some(waker) = weak.upgrade() {
                waker.heard(&Change {
                    leases: true,
                    ..Change::anything()
                });
            }
        }));
        waker
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

    /// Tell others what a durable batch means for them.
    pub(crate) fn written(&self, writes: &[Write], outcomes: &[Outcome]) {
        let mut change = Change::default();
        for (write, outcome) in writes.iter().zip(outcomes) {
            self.add(&mut change, write, outcome);
        }
        self.tell(change);
    }

    /// Tell others.
    pub(crate) fn tell(&self, change: Change) {
        if change == Change::default() || !self.connections.habits().notifies {
            return;
        }
        merge(&mut self.untold.lock(), change);
        self.wanted.notify_one();
    }

    fn add(&self, change: &mut Change, write: &Write, outcome: &Outcome) {
        match outcome {
            Outcome::Started { claimed: None, .. } => change.work = true,
            Outcome::Started { turn: Some(turn), .. } => {
                if let Write::Start(instance) = write
                    && let Some(first) = &instance.first_turn
                {
                    self.add_turn(change, first, turn);
                }
            }
            Outcome::Delivered { owner, .. } => self.receives(change, owner.as_ref()),
            Outcome::Terminated {
                owner,
                receivers,
                stopped,
                ..
            } => {
                change.statuses = true;
                change.tasks |= !stopped.is_empty();
                for receiver in receivers {
                    self.receives(change, receiver.as_ref());
                }
                self.loses(change, owner.as_ref());
            }
            Outcome::Suspended { owner, .. } => {
                change.statuses = true;
                self.loses(change, owner.as_ref());
            }
            Outcome::Deleted => change.statuses = true,
            Outcome::Noted if matches!(write, Write::LetGo(_)) => change.work = true,
            Outcome::Noted if matches!(write, Write::LetGoTask(_)) => change.tasks = true,
            Outcome::Resumed => {
                change.work = true;
                change.statuses = true;
            }
            Outcome::Committed { .. } => {
                if let Write::Turn(turn) = write {
                    self.add_turn(change, turn, outcome);
                }
            }
            Outcome::Told { receivers } => {
                for receiver in receivers {
                    self.receives(change, receiver.as_ref());
                }
            }
            _ => {}
        }
    }

    fn add_turn(&self, change: &mut Change, turn: &TurnCommit, outcome: &Outcome) {
        let is_seen =
            turn.custom_status.is_some() || matches!(turn.after, AfterTurn::End { .. } | AfterTurn::Suspend { .. });
        change.statuses |= is_seen;
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
        }
        change.tasks |= turn.to_others.as_ref().is_some_and(|others| !others.offers.is_empty());
    }

    /// The owner finds in its inbox that the instance was taken from it (P15).
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

    fn heard(&self, change: &Change) {
        let listeners = self.listeners.lock().clone();
        for listener in listeners {
            listener(change);
        }
    }

    /// Body of the task that listens and tells, until it is to [end](Self::end).
    pub(crate) async fn run(self: Arc<Self>) {
        let mut last = Seen::default();
        while !self.ending.is_cancelled() {
            // It ends when the connection breaks, or this is to end.
            let _ = self.live(&mut last).await;
            self.connections.set_awaits_standby(false);
            self.rest(RECONNECT_EVERY).await;
        }
    }

    /// Tell what is still to be told, and then nothing more.
    pub(crate) fn end(&self) {
        self.ending.cancel();
    }

    /// Wait, but not for what is to end.
    async fn rest(&self, duration: Duration) {
        tokio::select! {
            () = sleep(duration) => {}
            () = self.ending.cancelled() => {}
        }
    }

    /// Hear and tell on a connection until it breaks, or this is to end.
    async fn live(self: &Arc<Self>, last: &mut Seen) -> Result<(), Failure> {
        let carry: Carry<'_> = &|carrier| tokio::spawn(Arc::clone(self).hear(carrier));
        let connecting = self.connections.hosts.connect(carry, "");
        let (client, _hearing) = tokio::select! {
            connected = connecting => connected?,
            () = self.ending.cancelled() => return Ok(()),
        };
        if self.connections.habits().notifies {
            let listen = format!("LISTEN {}", self.channel);
            in_time(async { Ok(client.batch_execute(&listen).await?) }).await?;
        }
        // From here on nothing is missed; what came before is asked for.
        self.heard(&Change::anything());
        let telling = async {
            loop {
                let is_ending = tokio::select! {
                    () = self.ending.cancelled() => true,
                    () = self.wanted.notified() => false,
                };
                let untold = std::mem::take(&mut *self.untold.lock());
                if untold != Change::default()
                    && let Err(failure) = in_time(self.send(&client, &untold)).await
                {
                    merge(&mut self.untold.lock(), untold);
                    self.wanted.notify_one();
                    return Err(failure);
                }
                if is_ending {
                    return Ok(());
                }
                self.rest(NOTIFY_EVERY).await;
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
                self.saw(last, asked?.first(), own)?;
                if !self.connections.habits().keeps_sessions {
                    in_time(self.connections.lineage.heed(&client)).await?;
                }
                self.see_to_slow(&client, carry).await?;
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

    async fn hear(self: Arc<Self>, mut carrier: Carrier) {
        while let Some(Ok(message)) = poll_fn(|context| carrier.poll_message(context)).await {
            if let AsyncMessage::Notification(told) = message
                && let Some(change) = self.read(told.payload())
            {
                self.heard(&change);
            }
        }
    }

    /// See why statements wait, if some do.
    async fn see_to_slow(&self, client: &Client, carry: Carry<'_>) -> Result<(), Failure> {
        let mut awaits_standby = false;
        if self.connections.has_slow() {
            let asked = async { Ok(client.query_typed(AWAITS_STANDBY, &[]).await?) };
            awaits_standby = !in_time(asked).await?.is_empty();
            self.connections.hosts.look_elsewhere(carry).await;
        }
        self.connections.set_awaits_standby(awaits_standby);
        Ok(())
    }

    /// Compare with the last look. `own` counts transactions that had ended before this one: they are all below the number.
    fn saw(&self, last: &mut Seen, row: Option<&Row>, own: u64) -> Result<(), Failure> {
        let next: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
        if let Some(log) = row.filter(|row| row.len() > 1) {
            self.connections.lineage.saw_log(log.try_get(1)?);
        }
        let now = Seen {
            next: next.and_then(|next| next.parse().ok()).unwrap_or(0),
            own,
        };
        let before = std::mem::replace(last, now);
        if now.next.wrapping_sub(before.next) != now.own - before.own {
            self.heard(&Change::anything());
        }
        Ok(())
    }

    /// `sender what workers`: `what` has a letter for each thing that may have changed, and `*` for messages of anybody.
    fn written_out(&self, change: &Change) -> String {
        let letters = [(change.work, 'w'), (change.tasks, 't'), (change.statuses, 's')];
        let mut text = format!("{} ", self.name);
        text.extend(letters.iter().filter(|(is_so, _)| *is_so).map(|(_, letter)| *letter));
        match &change.messages {
            Receiving::Nobody => {}
            Receiving::These(workers) if workers.len() <= NOTIFY_WORKERS_MAX => {
                text.push('m');
                for worker in workers {
                    text.push(' ');
                    text.push_str(&worker.0);
                }
            }
            Receiving::These(_) | Receiving::Anybody => text.push('*'),
        }
        text
    }

    /// `None`: it is this handle's own.
    fn read(&self, told: &str) -> Option<Change> {
        let mut parts = told.split(' ');
        if parts.next() == Some(&self.name) {
            return None;
        }
        let Some(what) = parts.next() else {
            return Some(Change::anything());
        };
        let messages = if what.contains('*') {
            Receiving::Anybody
        } else if what.contains('m') {
            Receiving::These(parts.map(|worker| WorkerId(worker.into())).collect())
        } else {
            Receiving::Nobody
        };
        Some(Change {
            work: what.contains('w'),
            tasks: what.contains('t'),
            statuses: what.contains('s'),
            leases: false,
            messages,
        })
    }
}

/// What a look found.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Number of the next transaction.
    next: u64,
    /// How many transactions of this process had ended.
    own: u64,
}

/// A row, while commits wait for a synchronous standby that does not confirm them. A transaction under load waits for some ms.
const AWAITS_STANDBY: &str = "SELECT FROM pg_catalog.pg_stat_activity
  WHERE datname = current_database() AND wait_event = 'SyncRep' AND state_change < clock_timestamp() - interval '1 second' LIMIT 1";

const NEXT_TRANSACTION_AND_LOG: &str =
    "SELECT pg_snapshot_xmax(pg_current_snapshot())::text, (pg_current_wal_flush_lsn() - '0/0')::bigint";

const NEXT_TRANSACTION: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";

/// The channel of a schema. Channels are names of up to 63 bytes, as schemas are, and belong to a database.
fn channel(schema: &str) -> String {
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
    into.leases |= change.leases;
    merge_receiving(&mut into.messages, change.messages);
}

fn merge_receiving(into: &mut Receiving, more: Receiving) {
    match (into, more) {
        (Receiving::Anybody, _) | (_, Receiving::Nobody) => {}
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

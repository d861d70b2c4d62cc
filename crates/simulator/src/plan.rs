//! The plan of a run: all events and their times, drawn from the seed before anything begins.

use std::collections::BTreeSet;

use fastrand::Rng;
use perdure_provider::{ProviderErrorKind, QueueSettings};

use crate::code::Edition;
use crate::guards;
use crate::program::{Kind, Origin, PlannedMessage, Programs, programs};

/// The chance of each fault, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultRates {
    /// A call takes up to 800 ms.
    pub(crate) slow: u16,
    /// A call takes up to 12 s.
    pub(crate) stuck: u16,
    /// A call fails before it reaches the store.
    pub(crate) failing: u16,
    /// A notification is lost.
    pub(crate) deaf: u16,
    /// Messages come again.
    pub(crate) repeating: u16,
    /// The connection is cut while the store holds a batch back, which it writes later.
    pub(crate) late: u16,
    /// A worker acquires instances or tasks in the store, and the answer is an error.
    pub(crate) unanswered: u16,
    /// A call about workers and what is theirs is carried out, and the answer is an error: registrations, renewals,
    /// releases, takeovers, give-backs and resumptions.
    pub(crate) unconfirmed: u16,
    /// The second message of an instance comes before the first, whose transaction has the higher number.
    pub(crate) overtaking: u16,
}

/// The moment in a call at which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the call reaches the store.
    Before,
    /// When the call is carried out and not answered.
    Between,
    /// When the call is answered.
    After,
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Start(usize),
    PlannedMessage(PlannedMessage),
    /// A message that no code waits for.
    Noise(usize, i64),
    /// An ask, with its id.
    Ask(usize, i64),
    Cancel(usize),
    Terminate(usize),
    Suspend(usize),
    Resume(usize),
    /// Sets limits of a queue, by their place in the plan.
    Limits(usize),
    /// Pauses a queue, by its place in the plan, or ends its pause.
    Pause(usize, bool),
}

/// A fault, or an action on processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL. The process begins anew after `down_ms`.
    Kill { slot: usize, down_ms: u64 },
    /// SIGKILL in the middle of a call of the store.
    Crash { slot: usize, calls: u64, moment: Moment },
    /// SIGSTOP, and SIGCONT after `ms`.
    Stop { slot: usize, ms: u64 },
    /// The store cannot be reached for `ms`.
    Outage { ms: u64 },
    /// The store answers, and refuses every call, or every call that writes, for `ms`.
    Refusal { ms: u64, refusal: Refusal },
    /// The clock of a machine is set.
    Jump { slot: usize, ms: i64 },
    /// The process is shut down and begins anew with another edition of the code.
    Deploy {
        slot: usize,
        edition: Edition,
        timeout_ms: u64,
        down_ms: u64,
    },
    /// The thread of a lane is busy.
    Block { slot: usize, lane: usize, ms: u64 },
    /// The thread of a lane ends, and another one comes.
    LoseThread { slot: usize, lane: usize, down_ms: u64 },
    /// The chances of faults from here on.
    Rates(FaultRates),
}

/// The way in which a store refuses its service: without a login, as a standby, with a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: ProviderErrorKind,
    /// True if calls that only read are answered.
    pub(crate) lets_read: bool,
}

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Request(Request),
    Fault(Fault),
}

/// The place of a process, in which another one begins when it is gone, for the whole run.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) host: String,
    pub(crate) threads: usize,
    /// The error of its machine's clock, ms.
    pub(crate) off_ms: i64,
    pub(crate) edition: Edition,
    /// True if the process only makes requests, and runs nothing.
    pub(crate) is_client: bool,
    /// True if the process runs the activities of the queue that not every worker serves.
    pub(crate) serves_queue: bool,
    pub(crate) activity_concurrency: usize,
    pub(crate) orchestration_concurrency: usize,
    pub(crate) cached_instances_max: usize,
}

/// A queue of a plan.
#[derive(Clone, Debug)]
pub(crate) struct PlannedQueue {
    pub(crate) name: &'static str,
    /// Its limits at the beginning.
    pub(crate) settings: QueueSettings,
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) programs: Programs,
    /// The queues of instances.
    pub(crate) queues: Vec<PlannedQueue>,
    /// Limits that queues get later, each with the place of its queue.
    pub(crate) limits: Vec<(usize, QueueSettings)>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) lease_ms: u64,
    pub(crate) turn_deadline_ms: u64,
    /// The acts and their times, ms. Their places are their numbers, by which a plan can be made smaller.
    pub(crate) acts: Vec<(u64, Act)>,
    /// The time from which on there are no faults, ms.
    pub(crate) quiet_ms: u64,
}

/// The longest time that a request of a dead process may still be on its way, ms.
pub(crate) const LATE_MS: u64 = 30_000;
/// The longest time without progress after the faults have ended, ms. It is the sum of the longest timer or attempt of
/// any program, twice the longest of lease, poll and backoff (L1), and twice the time that a client waits before it
/// asks again.
pub(crate) const PATIENCE_MS: u64 = 20_000 + 2 * 16_000 + 2 * LATE_MS;
/// The longest time of a whole run, ms.
pub(crate) const RUN_MS: u64 = 3_600_000;

/// The most places of a worker that has few, so that its instances wait for each other.
pub(crate) const FEW_PLACES_MAX: usize = 3;
/// The longest time after its start at which a program is cancelled that is there for that, ms.
const CANCEL_MS: u64 = 4_000;
/// The longest time that the store may be gone or a process down, ms.
const DOWN_MS: u64 = 20_000;
/// Sets the random numbers of [`Plan::later_faults`] apart from those of the rest.
const LATER_FAULTS: u64 = 0x001a_7e5d;
/// Does the same for [`Plan::lost_confirmations`].
const LOST_CONFIRMATIONS: u64 = 0x0dea_dacc;
/// Does the same for [`Plan::overtaking`].
const OVERTAKING: u64 = 0x0be4_1d04;
/// Does the same for [`Plan::guards`]. The number is chosen so that the seeds that the tests keep, and those that are
/// the first to find the rarest planted bugs, have no guarded blocks.
const GUARDS: u64 = 0x0151_af61;
/// Does the same for [`Plan::places`]. The number is chosen so that no worker of the seeds that the tests keep has few
/// places.
const PLACES: u64 = 0x0009_1cce;

/// Does the same for [`Plan::queues`]. The number is chosen so that the seeds that the tests keep, and those that are
/// the first to find the rarest planted bugs, have no queues.
const QUEUES: u64 = 0x0091_28a4;
/// Does the same for [`Plan::hurried`]. The number is chosen so that the seeds that the tests keep have no such
/// programs.
const HURRIED: u64 = 0x00a1_b5ae;
const LIMITED_ATTEMPTS: u64 = 0x00a7_7e3b;
/// Does the same for [`Plan::batches`]. The number is chosen so that the seeds that the tests keep have no batches.
const BATCHES: u64 = 0x00ba_7dcb;
/// Does the same for [`Plan::pauses`].
const PAUSES: u64 = 0x00b7_4f29;
/// Does the same for [`Plan::asks`]. The number is chosen so that the seeds that the tests keep have no asks.
const ASKS: u64 = 0x01d0_609d;
/// The number of the first ask. No message has such a high one.
const FIRST_ASK: i64 = 1_000_000_000_000;

impl Plan {
    /// The plan of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let tops = rng.usize(2..=10);
        let programs = programs(&mut rng, tops);
        let slots = slots(&mut rng);
        let mut plan = Self {
            seed,
            programs,
            queues: Vec::new(),
            limits: Vec::new(),
            slots,
            lease_ms: rng.u64(2_000..16_000),
            turn_deadline_ms: rng.u64(500..5_000),
            acts: Vec::new(),
            quiet_ms: rng.u64(2_000..60_000),
        };
        plan.requests(&mut rng);
        // One plan in eight has no faults: a violation there needs none.
        if rng.u8(..8) > 0 {
            plan.faults(&mut rng);
            plan.later_faults(&mut Rng::with_seed(seed ^ LATER_FAULTS));
            plan.lost_confirmations(&mut Rng::with_seed(seed ^ LOST_CONFIRMATIONS));
            plan.overtaking(&mut Rng::with_seed(seed ^ OVERTAKING));
        }
        plan.guards(&mut Rng::with_seed(seed ^ GUARDS));
        plan.queues(&mut Rng::with_seed(seed ^ QUEUES));
        plan.limited_attempts(&mut Rng::with_seed(seed ^ LIMITED_ATTEMPTS));
        plan.hurried(&mut Rng::with_seed(seed ^ HURRIED));
        plan.batches(&mut Rng::with_seed(seed ^ BATCHES));
        plan.pauses(&mut Rng::with_seed(seed ^ PAUSES));
        plan.places(&mut Rng::with_seed(seed ^ PLACES));
        plan.asks(&mut Rng::with_seed(seed ^ ASKS));
        plan.acts.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Gives few places to some workers of one plan in four.
    fn places(&mut self, rng: &mut Rng) {
        if rng.u8(..4) > 0 {
            return;
        }
        for slot in &mut self.slots {
            if rng.u8(..3) > 0 {
                slot.orchestration_concurrency = rng.usize(1..=FEW_PLACES_MAX);
            }
        }
    }

    /// Adds clients that ask the programs which they start, to half of the plans.
    fn asks(&mut self, rng: &mut Rng) {
        if rng.bool() {
            return;
        }
        let mut ask = FIRST_ASK;
        for (place, program) in self.programs.all.iter().enumerate() {
            if program.origin != Origin::Client || program.kind == Kind::Poison {
                continue;
            }
            for _ in 0..rng.usize(0..=4) {
                let at = rng.u64(..self.quiet_ms);
                self.acts.push((at, Act::Request(Request::Ask(place, ask))));
                ask += 1;
            }
        }
    }

    /// The plan without some of its acts.
    pub(crate) fn without(&self, acts: &BTreeSet<usize>) -> Self {
        let mut plan = self.clone();
        plan.acts = self
            .acts
            .iter()
            .enumerate()
            .filter(|(place, _)| !acts.contains(place))
            .map(|(_, act)| *act)
            .collect();
        plan
    }

    /// The parts that can be left out of the plan by themselves, each as places of acts. A part is a fault, all
    /// requests for a program that sends no message which another one waits for, or one request that is no start and
    /// no feed.
    pub(crate) fn parts(&self) -> Vec<Vec<usize>> {
        let program_of = |act: &Act| match act {
            Act::Request(Request::PlannedMessage(feed)) => Some(feed.to),
            Act::Request(
                Request::Start(program)
                | Request::Noise(program, _)
                | Request::Ask(program, _)
                | Request::Cancel(program)
                | Request::Terminate(program)
                | Request::Suspend(program)
                | Request::Resume(program),
            ) => Some(*program),
            Act::Request(Request::Limits(_) | Request::Pause(..)) | Act::Fault(_) => None,
        };
        let mut parts = Vec::new();
        for (place, (_, act)) in self.acts.iter().enumerate() {
            match act {
                Act::Request(Request::Start(program)) if !self.programs.sends(*program) => {
                    let acts = self.acts.iter().enumerate();
                    let its = acts.filter(|(_, (_, act))| program_of(act) == Some(*program));
                    parts.push(its.map(|(place, _)| place).collect());
                }
                Act::Request(Request::Start(_) | Request::PlannedMessage(_)) => {}
                _ => parts.push(vec![place]),
            }
        }
        parts
    }

    fn requests(&mut self, rng: &mut Rng) {
        let half = self.quiet_ms / 2;
        for (place, program) in self.programs.all.iter().enumerate() {
            if program.origin != Origin::Client {
                continue;
            }
            let at = rng.u64(..half);
            self.acts.push((at, Act::Request(Request::Start(place))));
            if program.is_free && rng.u8(..3) > 0 {
                let request = if rng.bool() {
                    Request::Cancel(place)
                } else {
                    Request::Terminate(place)
                };
                self.acts.push((at + rng.u64(1..half), Act::Request(request)));
            }
            if rng.u8(..8) == 0 {
                let suspended = at + rng.u64(1..half);
                self.acts.push((suspended, Act::Request(Request::Suspend(place))));
                self.acts
                    .push((suspended + rng.u64(1..5_000), Act::Request(Request::Resume(place))));
            }
            if rng.u8(..6) == 0 {
                let noise = Request::Noise(place, -i64::try_from(place).expect("few"));
                self.acts.push((at + rng.u64(1..half), Act::Request(noise)));
            }
        }
        for feed in &self.programs.from_clients {
            self.acts
                .push((rng.u64(..self.quiet_ms), Act::Request(Request::PlannedMessage(*feed))));
        }
    }

    fn faults(&mut self, rng: &mut Rng) {
        for _ in 0..rng.usize(0..=10) {
            let at = rng.u64(..self.quiet_ms);
            let fault = self.fault(rng);
            self.acts.push((at, Act::Fault(fault)));
        }
        if rng.bool() {
            self.acts.push((0, Act::Fault(Fault::Rates(rates(rng)))));
            self.acts
                .push((self.quiet_ms / 2, Act::Fault(Fault::Rates(rates(rng)))));
        }
    }

    /// Adds faults that were introduced after the others. They are drawn by themselves, and half of the plans have
    /// none, so that most seeds keep their runs.
    fn later_faults(&mut self, rng: &mut Rng) {
        if rng.bool() {
            return;
        }
        for _ in 0..rng.usize(0..=2) {
            let refusal = Refusal {
                kind: REFUSALS[rng.usize(..REFUSALS.len())],
                lets_read: rng.bool(),
            };
            let ms = rng.u64(1_000..5_000);
            self.acts
                .push((rng.u64(..self.quiet_ms), Act::Fault(Fault::Refusal { ms, refusal })));
        }
        let (late, unanswered) = (share(rng, 100), share(rng, 50));
        self.add_rates(|rates| (rates.late, rates.unanswered) = (late, unanswered));
    }

    /// Adds a fault that was introduced after the [later ones](Self::later_faults), to a quarter of the plans.
    fn lost_confirmations(&mut self, rng: &mut Rng) {
        if rng.bool() {
            return;
        }
        let unconfirmed = share(rng, 200);
        if unconfirmed > 0 {
            self.add_rates(|rates| rates.unconfirmed = unconfirmed);
        }
    }

    /// Adds a fault that was introduced after the [lost confirmations](Self::lost_confirmations), to a quarter of the
    /// plans.
    fn overtaking(&mut self, rng: &mut Rng) {
        if rng.bool() {
            return;
        }
        let overtaking = share(rng, 1_000);
        if overtaking > 0 {
            self.add_rates(|rates| rates.overtaking = overtaking);
        }
    }

    /// Adds guarded blocks, and clients that cancel in the middle of them, to half of the plans. The other plans keep
    /// their runs.
    fn guards(&mut self, rng: &mut Rng) {
        if rng.bool() {
            return;
        }
        let before = self.programs.all.len();
        guards::add(&mut self.programs, rng);
        for program in before..self.programs.all.len() {
            let start = rng.u64(..self.quiet_ms / 2);
            let cancel = start + rng.u64(1..CANCEL_MS);
            self.acts.push((start, Act::Request(Request::Start(program))));
            self.acts.push((cancel, Act::Request(Request::Cancel(program))));
            if rng.u8(..4) == 0 {
                let suspend = start + rng.u64(1..CANCEL_MS);
                let resume = suspend + rng.u64(1..CANCEL_MS);
                self.acts.push((suspend, Act::Request(Request::Suspend(program))));
                self.acts.push((resume, Act::Request(Request::Resume(program))));
            }
        }
        for place in 0..self.acts.len() {
            if let (at, act @ Act::Request(Request::Cancel(_))) = self.acts[place]
                && rng.bool()
            {
                self.acts.push((at + rng.u64(1..CANCEL_MS), act));
            }
        }
    }

    /// Adds a fault to all rates of the plan, or to the whole run if the plan has no rates.
    fn add_rates(&mut self, change: impl Fn(&mut FaultRates)) {
        let mut has_weather = false;
        for (_, act) in &mut self.acts {
            if let Act::Fault(Fault::Rates(rates)) = act {
                change(rates);
                has_weather = true;
            }
        }
        if !has_weather {
            let mut rates = FaultRates::default();
            change(&mut rates);
            self.acts.push((0, Act::Fault(Fault::Rates(rates))));
        }
    }

    fn fault(&self, rng: &mut Rng) -> Fault {
        let slot = rng.usize(..self.slots.len());
        let threads = self.slots[slot].threads;
        let down_ms = match rng.u8(..4) {
            0 => rng.u64(1_000..DOWN_MS),
            _ => rng.u64(1..1_000),
        };
        match rng.u8(..20) {
            0..=3 => Fault::Kill { slot, down_ms },
            4..=9 => Fault::Crash {
                slot,
                calls: rng.u64(1..40),
                moment: [Moment::Before, Moment::Between, Moment::After][rng.usize(..3)],
            },
            10..=12 => Fault::Stop {
                slot,
                ms: rng.u64(100..2 * self.lease_ms),
            },
            13 => Fault::Outage {
                ms: rng.u64(100..2 * self.lease_ms),
            },
            14 => Fault::Jump {
                slot,
                ms: rng.i64(-3_600_000..3_600_000),
            },
            15 | 16 => Fault::Deploy {
                slot,
                edition: [Edition::Old, Edition::New, Edition::Wrong][rng.usize(..3)],
                timeout_ms: rng.u64(0..3_000),
                down_ms,
            },
            17 => Fault::Block {
                slot,
                lane: rng.usize(..=threads),
                ms: rng.u64(100..2 * self.turn_deadline_ms),
            },
            _ if threads > 0 => Fault::LoseThread {
                slot,
                lane: rng.usize(1..=threads),
                down_ms,
            },
            _ => Fault::Kill { slot, down_ms },
        }
    }
}

fn slots(rng: &mut Rng) -> Vec<Slot> {
    let workers = rng.usize(1..=4);
    (0..=workers)
        .map(|place| Slot {
            host: format!("host-{}", rng.u8(..2)),
            threads: if rng.bool() { 0 } else { rng.usize(1..=2) },
            off_ms: if rng.u8(..3) == 0 {
                rng.i64(-3_600_000..3_600_000)
            } else {
                0
            },
            edition: if rng.bool() { Edition::Old } else { Edition::New },
            is_client: place == workers,
            serves_queue: place == 0 || rng.bool(),
            activity_concurrency: if rng.u8(..3) == 0 { rng.usize(1..=3) } else { 100 },
            orchestration_concurrency: 20_000,
            cached_instances_max: if rng.u8(..3) == 0 { rng.usize(0..=3) } else { 10_000 },
        })
        .collect()
}

/// The errors with which a store refuses any call.
const REFUSALS: [ProviderErrorKind; 5] = [
    ProviderErrorKind::Unavailable,
    ProviderErrorKind::CannotOpen,
    ProviderErrorKind::Busy,
    ProviderErrorKind::Io,
    ProviderErrorKind::Full,
];

/// A number below `most`, or 0.
fn share(rng: &mut Rng, most: u16) -> u16 {
    if rng.bool() { rng.u16(..most) } else { 0 }
}

fn rates(rng: &mut Rng) -> FaultRates {
    FaultRates {
        slow: share(rng, 100),
        stuck: share(rng, 10),
        failing: share(rng, 100),
        deaf: share(rng, 1_000),
        repeating: share(rng, 500),
        ..FaultRates::default()
    }
}

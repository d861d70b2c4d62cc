//! Random programs, and the result that each of them must have.
//!
//! A program is a tree of operations, run by [`Code`](crate::code::Code) as the driver runs a generator. Each operation
//! has a value, a number that depends on nothing that a fault can change, so the output of an instance is known before
//! it runs. An operation that happens at another time, in another process or again must not change it. If the outcome
//! is a matter of luck, as in a race, the operation has the same value for each winner.

use std::sync::Arc;

use fastrand::Rng;

use crate::terms::Terms;

/// Operations that come one after the other.
pub(crate) type Block = Arc<Vec<Op>>;

/// One step of a program.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Runs an activity and waits for it.
    Activity(Work),
    /// Runs an activity whose attempts wait only for a short time, and waits for it. It may be late, or not.
    Hurried(Work),
    /// Runs an activity with the current random numbers, UUIDs and time as its input, and waits for it.
    Draw(Work),
    /// Sleeps, ms.
    Timer(i64),
    /// Waits for an event of this name.
    Event(&'static str),
    /// Waits for a message of this queue.
    Dequeue(&'static str),
    /// Starts a child and waits for its end.
    Child { program: usize, tag: u32 },
    /// Starts a detached instance, and waits until the start is durable.
    Detached { program: usize },
    /// Starts an instance whose id is in use: its own.
    Taken,
    /// Sends a message, and waits until it is durable.
    Send(PlannedMessage),
    /// Waits for all of these.
    All(Vec<Block>),
    /// Waits for all of these and one more, which is the first and fails.
    AllFails(Vec<Block>),
    /// Waits for the first of these.
    Race { branches: Vec<Block>, cancel_losers: bool },
    /// Gives up a block after so many ms.
    Timeout(i64, Block),
    /// Schedules an activity, sleeps, and gives it up.
    Cancel(Work, i64),
    /// Starts a fiber beside the rest of this block. The end of the block waits for it.
    Fiber(Block),
    /// Runs a block with a cleanup that takes steps.
    Guarded(Box<Guard>),
    /// Sets the custom status.
    Status(u32),
    /// Changes a value of the state. The number decides which one, and if it is set or deleted.
    State(u32),
    /// Writes an entry to a stream. The number decides which one.
    Stream(u32),
    /// Writes a line to the log.
    Trace(u32),
    /// Code that was changed under running instances: the old block, and the new one behind a patch.
    Patch { id: u32, old: Block, new: Block },
    /// Runs an activity in one edition of the code alone, without a patch: a mistake.
    Slip(Work),
}

/// One activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Names the activity within its program. Its value is a number made of the tag.
    pub(crate) tag: u32,
    /// The time that an attempt takes, ms.
    pub(crate) ms: u64,
    /// The number of attempts that fail before one succeeds.
    pub(crate) fails: u32,
    /// The number of attempts that never end by themselves, before the others.
    pub(crate) hangs: u32,
    /// True if the last attempt fails, too.
    pub(crate) is_fatal: bool,
    /// True if its attempts send heartbeats.
    pub(crate) sends_heartbeats: bool,
    /// True if its attempts append entries to a stream.
    pub(crate) writes_entries: bool,
    pub(crate) is_inline: bool,
    /// True if the activity is for a queue that not every worker serves.
    pub(crate) is_queued: bool,
    /// True if the activity is for a queue that no worker serves.
    pub(crate) is_lost: bool,
    /// The longest time for which an attempt waits to begin, ms. 0: there is none.
    pub(crate) start_within_ms: u64,
    pub(crate) priority: i32,
}

/// A block with a cleanup. Its own steps are activities, so that history tells how far each block came.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// The first step of the block.
    pub(crate) enter: Work,
    pub(crate) body: Block,
    /// The first step of the cleanup, which comes if the block is cancelled.
    pub(crate) undo: Work,
    /// The rest of the cleanup.
    pub(crate) cleanup: Block,
    /// The last step, with or without a cancellation.
    pub(crate) close: Work,
}

/// A message that a program waits for, sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedMessage {
    /// The program that waits for the message.
    pub(crate) to: usize,
    /// True for an event, false for a queue.
    pub(crate) is_event: bool,
    /// Name of the event or queue.
    pub(crate) mailbox: &'static str,
    /// The payload, which no other message has.
    pub(crate) number: i64,
}

/// The origin of an instance of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client starts the instance.
    Client,
    /// Another program starts the instance and waits for it.
    Parent,
    /// Another program starts the instance.
    Detached,
}

/// The behaviour of a program besides its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// The program throws in the end.
    Throws,
    /// The process dies with each turn of the program: it must be suspended in the end, as a poison pill.
    Poison,
    /// The first turn of the program holds its thread for too long.
    Blocking,
    /// The program goes on until its time limit cancels it.
    Overdue,
}

/// An orchestration.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    /// The number of executions that follow each other.
    pub(crate) rounds: u32,
    pub(crate) body: Block,
    /// True if the program runs an activity when it is cancelled.
    pub(crate) cleans_up: bool,
    /// True if a client may cancel or terminate the program, because no other program waits for anything that it does.
    pub(crate) is_free: bool,
    /// True if its new edition has the scoped rules for cancelled fibers. A program without them has no guarded blocks.
    pub(crate) is_scoped: bool,
    /// When and through which queue its instances come to run.
    pub(crate) terms: Terms,
}

/// The value of each operation that may have more than one outcome.
pub(crate) const STEP: i64 = 1;
pub(crate) const RACE: i64 = 5;
pub(crate) const FATAL: i64 = 7;
pub(crate) const CHILD_FAILED: i64 = 11;
pub(crate) const ALL_FAILED: i64 = 13;
pub(crate) const TIMEOUT: i64 = 17;

impl Work {
    /// The result of the activity when it succeeds.
    pub(crate) fn value(self) -> i64 {
        i64::from(self.tag) * 31 % 1_009
    }

    /// The number that the activity adds to the output.
    fn outcome(self) -> i64 {
        if self.is_fatal { FATAL } else { self.value() }
    }
}

impl Op {
    /// The number that the operation adds to the output, with or without faults.
    fn value(&self, programs: &[Program]) -> i64 {
        let sum = |blocks: &[Block]| blocks.iter().map(|block| value_of(block, programs)).sum();
        match self {
            Op::Activity(work) | Op::Draw(work) => work.outcome(),
            Op::Timer(_) | Op::Taken | Op::Send(_) | Op::Hurried(_) | Op::Cancel(..) | Op::Detached { .. } => STEP,
            Op::Child { program, .. } => match programs[*program].kind {
                Kind::Throws => CHILD_FAILED,
                _ => output(*program, programs, &[]),
            },
            Op::All(blocks) => sum(blocks),
            Op::Fiber(block) => value_of(block, programs),
            Op::Guarded(guard) => guard.enter.value() + value_of(&guard.body, programs) + guard.close.value(),
            Op::AllFails(_) => ALL_FAILED,
            Op::Race { .. } => RACE,
            Op::Timeout(..) => TIMEOUT,
            // A message counts by its payload. The other operations count nothing.
            Op::Event(_)
            | Op::Dequeue(_)
            | Op::Status(_)
            | Op::State(_)
            | Op::Stream(_)
            | Op::Trace(_)
            | Op::Patch { .. }
            | Op::Slip(_) => 0,
        }
    }
}

fn value_of(block: &Block, programs: &[Program]) -> i64 {
    block.iter().map(|op| op.value(programs)).sum()
}

/// The output of an instance that is not cancelled.
pub(crate) fn output(program: usize, programs: &[Program], feeds: &[PlannedMessage]) -> i64 {
    let Program { rounds, body, .. } = &programs[program];
    let fed: i64 = feeds
        .iter()
        .filter(|feed| feed.to == program)
        .map(|feed| feed.number)
        .sum();
    i64::from(*rounds) * value_of(body, programs) + fed
}

/// Programs, and the messages that clients have to send to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) all: Vec<Program>,
    /// Every message that some program waits for.
    pub(crate) feeds: Vec<PlannedMessage>,
    /// The messages among them that no program sends.
    pub(crate) from_clients: Vec<PlannedMessage>,
    /// The last tag of any activity, message or patch.
    pub(crate) tag: u32,
}

impl Programs {
    /// True if a program, or one that it starts, sends a message that another one waits for.
    pub(crate) fn sends(&self, program: usize) -> bool {
        self.block_sends(&self.all[program].body)
    }

    fn block_sends(&self, block: &Block) -> bool {
        block.iter().any(|op| match op {
            Op::Send(_) => true,
            // A detached instance waits for messages of its own.
            Op::Detached { .. } => true,
            Op::Child { program, .. } => self.sends(*program),
            Op::All(blocks) | Op::AllFails(blocks) | Op::Race { branches: blocks, .. } => {
                blocks.iter().any(|block| self.block_sends(block))
            }
            Op::Timeout(_, block) | Op::Fiber(block) => self.block_sends(block),
            Op::Guarded(guard) => self.block_sends(&guard.body),
            _ => false,
        })
    }
}

/// Makes programs.
struct Maker<'a> {
    rng: &'a mut Rng,
    made: Programs,
    tag: u32,
    /// The operations that are allowed in the program that is made now.
    allowed: Allowed,
    /// Messages that earlier programs wait for and that have no sender so far.
    open: Vec<PlannedMessage>,
    to: usize,
    rounds: u32,
}

#[derive(Clone, Copy)]
struct Allowed {
    /// True if the program may wait for messages, because it has one instance.
    messages: bool,
    /// True if other programs may wait for its operations, because no client may cancel it.
    duties: bool,
    /// True if the program may start others.
    starts: bool,
}

const EVENTS: [&str; 3] = ["approve", "paid", "shipped"];
const QUEUES: [&str; 2] = ["orders", "mails"];

/// Makes programs, of which clients start `tops`.
pub(crate) fn programs(rng: &mut Rng, tops: usize) -> Programs {
    let mut maker = Maker {
        rng,
        made: Programs::default(),
        tag: 0,
        allowed: Allowed {
            messages: false,
            duties: false,
            starts: false,
        },
        open: Vec::new(),
        to: 0,
        rounds: 1,
    };
    for _ in 0..tops {
        maker.top();
    }
    maker.made.from_clients = maker.open;
    maker.made.tag = maker.tag;
    maker.made
}

/// The time of a timer, ms.
pub(crate) fn duration(rng: &mut Rng) -> i64 {
    match rng.u8(..10) {
        0..=5 => rng.i64(0..200),
        6..=8 => rng.i64(200..3_000),
        _ => rng.i64(3_000..20_000),
    }
}

/// An activity without a tag.
pub(crate) fn work(rng: &mut Rng) -> Work {
    let one_in = |rng: &mut Rng, n: u8| rng.u8(..n) == 0;
    let ms = if one_in(rng, 12) {
        rng.u64(1_000..8_000)
    } else {
        rng.u64(0..120)
    };
    Work {
        ms,
        fails: if one_in(rng, 4) { rng.u32(1..=3) } else { 0 },
        hangs: u32::from(one_in(rng, 12)),
        is_fatal: one_in(rng, 10),
        sends_heartbeats: one_in(rng, 6),
        writes_entries: one_in(rng, 6),
        is_inline: one_in(rng, 8),
        is_queued: one_in(rng, 8),
        priority: if one_in(rng, 6) { rng.i32(-3..=3) } else { 0 },
        ..Work::default()
    }
}

impl Maker<'_> {
    fn top(&mut self) {
        let is_free = self.rng.u8(..3) == 0;
        let rounds = if self.rng.u8(..4) == 0 { self.rng.u32(2..=4) } else { 1 };
        let kind = match self.rng.u8(..40) {
            0 => Kind::Poison,
            1 => Kind::Blocking,
            2..=4 => Kind::Throws,
            _ => Kind::Plain,
        };
        let allowed = Allowed {
            messages: true,
            duties: !is_free && rounds == 1 && kind != Kind::Poison,
            starts: kind != Kind::Poison,
        };
        self.program(Origin::Client, kind, rounds, allowed, is_free);
    }

    /// Makes a program and returns its number.
    fn program(&mut self, origin: Origin, kind: Kind, rounds: u32, allowed: Allowed, is_free: bool) -> usize {
        let number = self.made.all.len();
        // Takes its place first: programs that it starts come after it.
        self.made.all.push(Program {
            origin,
            kind,
            rounds,
            body: Block::default(),
            cleans_up: self.rng.bool(),
            is_free,
            is_scoped: false,
            terms: Terms::default(),
        });
        let outer = (self.allowed, self.to, self.rounds);
        (self.allowed, self.to, self.rounds) = (allowed, number, rounds);
        let depth = if origin == Origin::Client { 2 } else { 1 };
        let len = self.rng.usize(1..=6);
        let body = self.block(depth, len, false);
        (self.allowed, self.to, self.rounds) = outer;
        self.made.all[number].body = body;
        number
    }

    fn block(&mut self, depth: u32, len: usize, is_idle: bool) -> Block {
        let ops = (0..len).map(|_| self.op(depth, is_idle)).collect();
        Arc::new(ops)
    }

    fn blocks(&mut self, depth: u32, is_idle: bool) -> Vec<Block> {
        let count = self.rng.usize(2..=4);
        (0..count)
            .map(|_| {
                let len = self.rng.usize(1..=3);
                self.block(depth - 1, len, is_idle)
            })
            .collect()
    }

    /// Makes an operation. With `is_idle` it may be given up at any time, so no other program may wait for anything
    /// that it does.
    fn op(&mut self, depth: u32, is_idle: bool) -> Op {
        let Allowed {
            messages,
            duties,
            starts,
        } = self.allowed;
        loop {
            return match self.rng.u8(..32) {
                0..=5 => Op::Activity(self.work()),
                6 => Op::Draw(Work {
                    is_inline: false,
                    ..self.work()
                }),
                7 | 8 => Op::Timer(self.duration()),
                9 | 10 if messages && !is_idle => self.message(true),
                11 | 12 if messages && !is_idle => self.message(false),
                // No program sends this event: the wait is given up, or is in vain.
                9 | 10 if is_idle && messages => Op::Event("never"),
                13 | 14 if starts && depth > 0 => self.child(),
                15 if duties && !is_idle => self.detached(),
                16 => Op::Taken,
                17 | 18 if duties && !is_idle && !self.open.is_empty() => self.send(),
                19 | 20 if depth > 0 => Op::All(self.blocks(depth, is_idle)),
                21 if depth > 0 => Op::AllFails(self.blocks(depth, true)),
                22 | 23 if depth > 0 => {
                    let mut branches = self.blocks(depth, true);
                    // The others may wait for something that never comes.
                    branches.push(Arc::new(vec![Op::Timer(self.duration())]));
                    Op::Race {
                        branches,
                        cancel_losers: self.rng.bool(),
                    }
                }
                24 if depth > 0 => {
                    let len = self.rng.usize(1..=3);
                    let ms = self.duration();
                    Op::Timeout(ms, self.block(depth - 1, len, true))
                }
                25 => Op::Cancel(self.work(), self.duration()),
                26 if depth > 0 => {
                    let len = self.rng.usize(1..=3);
                    Op::Fiber(self.block(depth - 1, len, is_idle))
                }
                27 if self.rng.bool() => Op::Status(self.next_tag()),
                27 => Op::State(self.next_tag()),
                28 if self.rng.bool() => Op::Stream(self.next_tag()),
                28 => Op::Trace(self.next_tag()),
                29 => self.patch(),
                30 if !is_idle => Op::Slip(self.plain_work()),
                _ => continue,
            };
        }
    }

    fn next_tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }

    fn duration(&mut self) -> i64 {
        duration(self.rng)
    }

    fn plain_work(&mut self) -> Work {
        Work {
            tag: self.next_tag(),
            ms: 1,
            ..Work::default()
        }
    }

    fn work(&mut self) -> Work {
        let work = work(self.rng);
        Work {
            tag: self.next_tag(),
            ..work
        }
    }

    fn message(&mut self, is_event: bool) -> Op {
        let mailbox = if is_event {
            EVENTS[self.rng.usize(..3)]
        } else {
            QUEUES[self.rng.usize(..2)]
        };
        for _ in 0..self.rounds {
            let number = i64::from(self.next_tag()) * 1_000_003;
            let feed = PlannedMessage {
                to: self.to,
                is_event,
                mailbox,
                number,
            };
            self.made.feeds.push(feed);
            self.open.push(feed);
        }
        if is_event {
            Op::Event(mailbox)
        } else {
            Op::Dequeue(mailbox)
        }
    }

    fn send(&mut self) -> Op {
        // A program must not wait for a later operation of a program that waits for it. So messages go from later
        // programs to earlier ones that a client has started.
        let is_earlier = |feed: &PlannedMessage| feed.to < self.to && self.made.all[feed.to].origin == Origin::Client;
        let earlier: Vec<usize> = (0..self.open.len()).filter(|at| is_earlier(&self.open[*at])).collect();
        match earlier.is_empty() {
            true => Op::Timer(1),
            false => {
                let at = earlier[self.rng.usize(..earlier.len())];
                Op::Send(self.open.remove(at))
            }
        }
    }

    fn child(&mut self) -> Op {
        let kind = if self.rng.u8(..6) == 0 {
            Kind::Throws
        } else {
            Kind::Plain
        };
        let rounds = if self.rng.u8(..5) == 0 { 2 } else { 1 };
        let allowed = Allowed {
            messages: false,
            duties: false,
            starts: self.rng.u8(..4) == 0,
        };
        let program = self.program(Origin::Parent, kind, rounds, allowed, false);
        Op::Child {
            program,
            tag: self.next_tag(),
        }
    }

    fn detached(&mut self) -> Op {
        let allowed = Allowed {
            messages: true,
            duties: false,
            starts: true,
        };
        let program = self.program(Origin::Detached, Kind::Plain, 1, allowed, false);
        Op::Detached { program }
    }

    fn patch(&mut self) -> Op {
        let id = self.next_tag();
        let old = Arc::new(vec![Op::Timer(self.rng.i64(0..50))]);
        let new = Arc::new(vec![Op::Activity(self.plain_work()), Op::Timer(self.rng.i64(0..50))]);
        Op::Patch { id, old, new }
    }
}

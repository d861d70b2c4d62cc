//! Random programs, and what each of them must come to.
//!
//! A program is a tree of operations, run by [`Code`](crate::code::Code) as the driver runs a generator. Each operation is worth a number
//! that depends on nothing that a fault can change, so the output of an instance is known before it runs: what happens at another time, in
//! another process or again must not show. Where the outcome is a matter of luck, as in a race, the operation is worth the same whoever wins.

use std::sync::Arc;

use fastrand::Rng;

/// Operations that come one after the other.
pub(crate) type Block = Arc<Vec<Op>>;

/// One step of a program.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Run an activity and wait for it.
    Activity(Work),
    /// Run an activity with what random numbers, UUIDs and the time are now, and wait for it.
    Draw(Work),
    /// Sleep, ms.
    Timer(i64),
    /// Wait for an event of this name.
    Event(&'static str),
    /// Wait for a message of this queue.
    Dequeue(&'static str),
    /// Start a child and wait for its end.
    Child { program: usize, tag: u32 },
    /// Start an instance that goes its own way, and wait until that is durable.
    Detached { program: usize },
    /// Start an instance whose id is in use: the own one.
    Taken,
    /// Send a message, and wait until that is durable.
    Send(Feed),
    /// Wait for all of these.
    All(Vec<Block>),
    /// Wait for all of these, the first of which fails.
    AllFails(Vec<Block>),
    /// Wait for the first of these.
    Race { branches: Vec<Block>, cancel_losers: bool },
    /// Give up a block after so many ms.
    Timeout(i64, Block),
    /// Schedule an activity, sleep, and give it up.
    Cancel(Work, i64),
    /// A fiber beside what follows in this block; its end is waited for at the end of the block.
    Fiber(Block),
    /// A block with a cleanup that takes steps.
    Guarded(Box<Guard>),
    /// Set the custom status.
    Status(u32),
    /// Write a line to the log.
    Trace(u32),
    /// What was changed under running instances: the old block, and the new one behind a patch.
    Patch { id: u32, old: Block, new: Block },
    /// What one edition of the code does and the others do not, without a patch: a mistake.
    Slip(Work),
}

/// One activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Names it within its program; it is worth a number made of it.
    pub(crate) tag: u32,
    /// How long an attempt takes, ms.
    pub(crate) ms: u64,
    /// Attempts that fail before one succeeds.
    pub(crate) fails: u32,
    /// Attempts that never end by themselves, before the others.
    pub(crate) hangs: u32,
    /// Its last attempt fails, too.
    pub(crate) is_fatal: bool,
    /// It tells of its progress.
    pub(crate) beats: bool,
    pub(crate) is_inline: bool,
    /// It is for a queue that not every worker serves.
    pub(crate) is_queued: bool,
    pub(crate) priority: i32,
}

/// A block with a cleanup. Its own steps are activities, so that history tells of each block how far it came.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// The first step of the block.
    pub(crate) enter: Work,
    pub(crate) body: Block,
    /// The first step of the cleanup, which comes where the block is cancelled.
    pub(crate) undo: Work,
    /// The rest of the cleanup.
    pub(crate) cleanup: Block,
    /// The last step, whether the block is cancelled or not.
    pub(crate) close: Work,
}

/// A message that a program waits for, sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feed {
    /// The program that waits for it.
    pub(crate) to: usize,
    /// Event or queue.
    pub(crate) is_event: bool,
    /// Name of either.
    pub(crate) mailbox: &'static str,
    /// Its payload, unlike that of any other.
    pub(crate) number: i64,
}

/// How an instance of a program comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client starts it.
    Client,
    /// Another program starts it and waits for it.
    Parent,
    /// Another program starts it.
    Detached,
}

/// What a program does besides its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// It throws in the end.
    Throws,
    /// Its process dies with each of its turns: it must come to be suspended.
    Poison,
    /// Its first turn holds its thread for too long.
    Hog,
}

/// An orchestration.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    /// Executions that follow each other.
    pub(crate) rounds: u32,
    pub(crate) body: Block,
    /// Whether it runs an activity when it is cancelled.
    pub(crate) cleans_up: bool,
    /// Whether a client may cancel or terminate it: nobody else waits for anything that it does.
    pub(crate) is_free: bool,
    /// Whether its new edition has the scoped rules for cancelled fibers. Where it has not, it has no guarded blocks.
    pub(crate) is_scoped: bool,
}

/// What an operation is worth that may come out in more ways than one.
pub(crate) const STEP: i64 = 1;
pub(crate) const RACE: i64 = 5;
pub(crate) const FATAL: i64 = 7;
pub(crate) const CHILD_FAILED: i64 = 11;
pub(crate) const ALL_FAILED: i64 = 13;
pub(crate) const TIMEOUT: i64 = 17;

impl Work {
    /// The number that it comes to when it succeeds.
    pub(crate) fn value(self) -> i64 {
        i64::from(self.tag) * 31 % 1_009
    }

    fn worth(self) -> i64 {
        if self.is_fatal { FATAL } else { self.value() }
    }
}

impl Op {
    /// What it adds to the output, whatever happens.
    fn worth(&self, programs: &[Program]) -> i64 {
        let sum = |blocks: &[Block]| blocks.iter().map(|block| worth(block, programs)).sum();
        match self {
            Op::Activity(work) | Op::Draw(work) => work.worth(),
            Op::Timer(_) | Op::Taken | Op::Send(_) | Op::Cancel(..) | Op::Detached { .. } => STEP,
            Op::Child { program, .. } => match programs[*program].kind {
                Kind::Throws => CHILD_FAILED,
                _ => output(*program, programs, &[]),
            },
            Op::All(blocks) => sum(blocks),
            Op::Fiber(block) => worth(block, programs),
            Op::Guarded(guard) => guard.enter.value() + worth(&guard.body, programs) + guard.close.value(),
            Op::AllFails(_) => ALL_FAILED,
            Op::Race { .. } => RACE,
            Op::Timeout(..) => TIMEOUT,
            // Of a message its payload counts, of the others nothing.
            Op::Event(_) | Op::Dequeue(_) | Op::Status(_) | Op::Trace(_) | Op::Patch { .. } | Op::Slip(_) => 0,
        }
    }
}

fn worth(block: &Block, programs: &[Program]) -> i64 {
    block.iter().map(|op| op.worth(programs)).sum()
}

/// The output of an instance that nobody cancels.
pub(crate) fn output(program: usize, programs: &[Program], feeds: &[Feed]) -> i64 {
    let Program { rounds, body, .. } = &programs[program];
    let fed: i64 = feeds
        .iter()
        .filter(|feed| feed.to == program)
        .map(|feed| feed.number)
        .sum();
    i64::from(*rounds) * worth(body, programs) + fed
}

/// Programs, and the messages that clients have to send to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) all: Vec<Program>,
    /// Every message that some program waits for.
    pub(crate) feeds: Vec<Feed>,
    /// Those among them that no program sends.
    pub(crate) from_clients: Vec<Feed>,
    /// The last tag of any activity, message or patch.
    pub(crate) tag: u32,
}

impl Programs {
    /// Whether a program, or one that it starts, sends a message that another one waits for.
    pub(crate) fn sends(&self, program: usize) -> bool {
        self.block_sends(&self.all[program].body)
    }

    fn block_sends(&self, block: &Block) -> bool {
        block.iter().any(|op| match op {
            Op::Send(_) => true,
            // It waits for messages of its own.
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
    /// What the program that is made now may do.
    allowed: Allowed,
    /// Messages that programs before this one wait for and nobody sends so far.
    open: Vec<Feed>,
    to: usize,
    rounds: u32,
}

#[derive(Clone, Copy)]
struct Allowed {
    /// Wait for messages: it is one instance.
    messages: bool,
    /// Do what others wait for: nobody may cancel it.
    duties: bool,
    /// Start others.
    starts: bool,
}

const EVENTS: [&str; 3] = ["approve", "paid", "shipped"];
const QUEUES: [&str; 2] = ["orders", "mails"];

/// Programs of which so many are started by clients.
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

/// How long a timer runs, ms.
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
        beats: one_in(rng, 6),
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
            1 => Kind::Hog,
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

    /// Its number.
    fn program(&mut self, origin: Origin, kind: Kind, rounds: u32, allowed: Allowed, is_free: bool) -> usize {
        let number = self.made.all.len();
        // Its place: what it starts comes after it.
        self.made.all.push(Program {
            origin,
            kind,
            rounds,
            body: Block::default(),
            cleans_up: self.rng.bool(),
            is_free,
            is_scoped: false,
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

    /// `is_idle`: it may be given up at any time, so nobody may wait for anything that it does.
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
                // Nobody sends it: it is given up, or waited for in vain.
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
                27 => Op::Status(self.next_tag()),
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
            let feed = Feed {
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
        // Nobody may wait for what comes later in a program that waits for it: messages go from later programs to earlier ones, and to such as
        // a client has started.
        let is_earlier = |feed: &Feed| feed.to < self.to && self.made.all[feed.to].origin == Origin::Client;
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

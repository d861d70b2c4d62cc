//! Queues in plans: their limits, the programs and activities that go through them, and delayed starts.
//!
//! All of this is drawn after the programs and by itself, so that a plan without queues is the same as before there
//! were any.
//!
//! Q1. A program in a queue waits only for programs in later queues, or in none. So no instance keeps a slot while it
//! waits, over whatever detours, for one that waits for that slot.
//! Q2. No poison pill is in a queue. It would keep its slot for ever.

use std::sync::Arc;

use fastrand::Rng;
use perdure_engine::Admission;
use perdure_provider::{QueueSettings, Rate};

use crate::code::QUEUE;
use crate::machine::BEGINNING_MS;
use crate::plan::{Act, Plan, PlannedQueue, Request};
use crate::program::{Block, Kind, Op, Origin, Program, Programs, Work};
use crate::terms::{StartKind, Terms};

/// The queues by name. Each has limits of its own kind.
const NAMES: [&str; 5] = ["few", "keys", "rate", "own", "free"];
/// The keys. Some come more often than others, and one is none.
const KEYS: [&str; 6] = ["a", "a", "a", "b", "c", ""];
/// The longest delay of a start, ms.
const DELAY_MS: u64 = 8_000;
/// The longest time limit of an instance, ms.
const TIMEOUT_MS: u64 = 4_000;
/// The executions of a program that goes on until its time limit: more than it has time for.
const ROUNDS: u32 = 200;
/// The longest pause of a queue, ms.
const PAUSE_MS: u64 = 6_000;
/// The longest time from the start of an instance that waits in a queue to a request about it, ms.
const SOON_MS: u64 = 3_000;

impl Plan {
    /// Adds queues and delayed starts to one plan in three, with programs that crowd into the queues. The other plans
    /// keep their runs.
    pub(crate) fn queues(&mut self, rng: &mut Rng) {
        if rng.u8(..3) > 0 {
            return;
        }
        let mut names = NAMES;
        rng.shuffle(&mut names);
        self.queues = names
            .into_iter()
            .map(|name| PlannedQueue {
                name,
                settings: limits(name, rng),
            })
            .collect();
        let terms = Drawn {
            names,
            priority: if rng.bool() { 0 } else { 1 },
            quiet_ms: self.quiet_ms,
        };
        give_terms(&mut self.programs, &terms, rng);
        self.crowd(&terms, rng);
        for _ in 0..rng.usize(0..=5) {
            let place = rng.usize(..names.len());
            self.limits.push((place, limits(names[place], rng)));
            let act = Act::Request(Request::Limits(self.limits.len() - 1));
            self.acts.push((rng.u64(..self.quiet_ms), act));
        }
    }

    /// Adds short programs that are started close together and wait in few queues.
    fn crowd(&mut self, terms: &Drawn, rng: &mut Rng) {
        let is_scoped = self.programs.all.first().is_some_and(|program| program.is_scoped);
        let mut favourites = [rng.usize(..NAMES.len()), rng.usize(..NAMES.len()), 0];
        favourites[2] = favourites[0];
        let bursts: Vec<u64> = (0..rng.usize(1..=3)).map(|_| rng.u64(..self.quiet_ms / 2)).collect();
        for _ in 0..rng.usize(4..=32) {
            let at = bursts[rng.usize(..bursts.len())] + rng.u64(..300);
            let queue = favourites[rng.usize(..favourites.len())];
            let program = Program {
                body: short(&mut self.programs, rng),
                is_free: rng.u8(..3) == 0,
                terms: terms.draw(Some(queue), rng).some_singletons(rng),
                ..of_crowd(Origin::Client, is_scoped)
            };
            self.joins(program, at, rng);
        }
        for _ in 0..rng.usize(0..=3) {
            let at = bursts[rng.usize(..bursts.len())] + rng.u64(..300);
            let queue = rng.bool().then(|| favourites[rng.usize(..favourites.len())]);
            let program = Program {
                kind: Kind::Overdue,
                terms: terms.draw(queue, rng).with_timeout(rng),
                cleans_up: rng.bool(),
                ..lasting(is_scoped, rng)
            };
            self.joins(program, at, rng);
        }
        if rng.bool() {
            let queue = favourites[0];
            let child = Program {
                body: short(&mut self.programs, rng),
                terms: terms.draw(Some(queue), rng),
                ..of_crowd(Origin::Parent, is_scoped)
            };
            let child = self.programs.add(child);
            let parent = Program {
                body: children(&mut self.programs, child, rng),
                is_free: rng.bool(),
                terms: terms.draw((queue > 0).then(|| rng.usize(..queue.max(1))), rng),
                ..of_crowd(Origin::Client, is_scoped)
            };
            self.joins(parent, bursts[0], rng);
        }
    }

    /// Sets limits of the queue of activities in one plan in three, with programs that crowd into it.
    pub(crate) fn limited_attempts(&mut self, rng: &mut Rng) {
        if rng.u8(..3) > 0 {
            return;
        }
        let kind = NAMES[rng.usize(..NAMES.len())];
        self.queues.push(PlannedQueue {
            name: QUEUE,
            settings: limits(kind, rng),
        });
        let is_scoped = self.programs.all.first().is_some_and(|program| program.is_scoped);
        let at = rng.u64(..self.quiet_ms / 2);
        for _ in 0..rng.usize(2..=6) {
            let program = Program {
                body: attempts(&mut self.programs, rng),
                is_free: rng.u8(..3) == 0,
                ..of_crowd(Origin::Client, is_scoped)
            };
            self.joins(program, at + rng.u64(..300), rng);
        }
    }

    /// Pauses queues for some time, in half of the plans that have any.
    pub(crate) fn pauses(&mut self, rng: &mut Rng) {
        if self.queues.is_empty() || rng.bool() {
            return;
        }
        for _ in 0..rng.usize(1..=3) {
            let (queue, at) = (rng.usize(..self.queues.len()), rng.u64(..self.quiet_ms));
            let mut ask = |at: u64, is_paused: bool| {
                let request = Request::Pause(queue, is_paused);
                self.acts.push((at, Act::Request(request)));
            };
            ask(at, true);
            ask(at + rng.u64(1..PAUSE_MS), false);
        }
    }

    /// Adds programs to one plan in four whose starts are inputs of batches. Some of them wait in a queue, too.
    pub(crate) fn batches(&mut self, rng: &mut Rng) {
        if rng.u8(..4) > 0 {
            return;
        }
        let queue = self
            .queues
            .first()
            .map(|queue| queue.name)
            .filter(|name| *name != QUEUE && rng.bool());
        let is_scoped = self.programs.all.first().is_some_and(|program| program.is_scoped);
        let at = rng.u64(..self.quiet_ms / 2);
        for _ in 0..rng.usize(3..=9) {
            let program = Program {
                body: short(&mut self.programs, rng),
                is_free: rng.u8(..3) == 0,
                terms: Terms {
                    admission: queue.map(|queue| Admission {
                        queue: Some(queue.to_owned()),
                        ..Admission::default()
                    }),
                    start: StartKind::Batched,
                    ..Terms::default()
                },
                ..of_crowd(Origin::Client, is_scoped)
            };
            self.joins(program, at + rng.u64(..1_500), rng);
        }
    }

    /// Adds programs to one plan in four whose activities wait only for a short time, in a queue that no worker serves
    /// and in others.
    pub(crate) fn hurried(&mut self, rng: &mut Rng) {
        if rng.u8(..4) > 0 {
            return;
        }
        let is_scoped = self.programs.all.first().is_some_and(|program| program.is_scoped);
        for _ in 0..rng.usize(1..=4) {
            let program = Program {
                body: hurried(&mut self.programs, rng),
                is_free: rng.u8(..3) == 0,
                ..of_crowd(Origin::Client, is_scoped)
            };
            let at = rng.u64(..self.quiet_ms / 2);
            self.joins(program, at, rng);
        }
    }

    /// Adds a program of the crowd with the requests about it.
    fn joins(&mut self, program: Program, at: u64, rng: &mut Rng) {
        let is_free = program.is_free;
        let place = self.programs.add(program);
        let mut ask = |at: u64, request: Request| self.acts.push((at, Act::Request(request)));
        ask(at, Request::Start(place));
        if is_free {
            let request = if rng.bool() {
                Request::Cancel(place)
            } else {
                Request::Terminate(place)
            };
            ask(at + rng.u64(1..SOON_MS), request);
        }
        if rng.u8(..5) == 0 {
            let suspended = at + rng.u64(1..SOON_MS);
            ask(suspended, Request::Suspend(place));
            ask(suspended + rng.u64(1..SOON_MS), Request::Resume(place));
        }
        if rng.u8(..4) == 0 {
            let noise = Request::Noise(place, -i64::try_from(place).expect("few"));
            ask(at + rng.u64(1..SOON_MS), noise);
        }
    }
}

/// The terms of a plan.
struct Drawn {
    names: [&'static str; NAMES.len()],
    /// The highest priority. If it is 0, no instance passes another one by its priority.
    priority: i32,
    quiet_ms: u64,
}

impl Drawn {
    /// Draws the terms of a program in a queue, by the place of the queue, or in none.
    fn draw(&self, queue: Option<usize>, rng: &mut Rng) -> Terms {
        let mut admission = Admission::default();
        if let Some(queue) = queue {
            admission.queue = Some(self.names[queue].to_owned());
            let key = KEYS[rng.usize(..KEYS.len())];
            admission.key = (!key.is_empty()).then(|| key.to_owned());
        }
        match rng.u8(..8) {
            0 => admission.delay_ms = Some(rng.u64(1..DELAY_MS)),
            1 => {
                let at_ms = rng.u64(..self.quiet_ms);
                admission.start_at_ms = Some(BEGINNING_MS + i64::try_from(at_ms).expect("few"));
            }
            _ => {}
        }
        Terms {
            admission: (admission != Admission::default()).then_some(admission),
            priority: rng.i32(-self.priority..=self.priority),
            start: StartKind::Plain,
        }
    }
}

impl Terms {
    /// Makes one program in four a singleton.
    fn some_singletons(mut self, rng: &mut Rng) -> Self {
        if rng.u8(..4) == 0 {
            self.start = StartKind::Singleton;
        }
        self
    }

    /// Adds a time limit.
    fn with_timeout(mut self, rng: &mut Rng) -> Self {
        let admission = self.admission.get_or_insert_default();
        admission.timeout_ms = Some(rng.u64(1..TIMEOUT_MS));
        self
    }
}

/// Gives the programs that are there already their terms.
fn give_terms(programs: &mut Programs, terms: &Drawn, rng: &mut Rng) {
    let waits = programs.waits();
    // The first queue that a program, or one that it waits for, is in. A program waits only for later ones.
    let mut first = vec![NAMES.len(); programs.all.len()];
    for place in (0..programs.all.len()).rev() {
        let program = &mut programs.all[place];
        let free = waits[place].iter().map(|other| first[*other]).min();
        let free = free.unwrap_or(NAMES.len());
        first[place] = free;
        if program.kind == Kind::Poison || rng.bool() {
            continue;
        }
        let queue = (free > 0).then(|| rng.usize(..free));
        program.terms = terms.draw(queue, rng);
        first[place] = queue.unwrap_or(free);
    }
}

impl Programs {
    /// Adds a program and returns its number.
    fn add(&mut self, program: Program) -> usize {
        self.all.push(program);
        self.all.len() - 1
    }

    fn next_tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }

    /// Returns the programs that each program waits for: its children, and those that send it messages.
    fn waits(&self) -> Vec<Vec<usize>> {
        let mut waits = vec![Vec::new(); self.all.len()];
        for (place, program) in self.all.iter().enumerate() {
            visit(&program.body, &mut |op| match op {
                Op::Child { program: child, .. } => waits[place].push(*child),
                Op::Send(feed) => waits[feed.to].push(place),
                _ => {}
            });
        }
        debug_assert!(waits.iter().enumerate().all(|(place, others)| {
            let mut others = others.iter();
            others.all(|other| *other > place)
        }));
        waits
    }
}

/// Calls `seen` for each operation of a block, those of inner blocks among them.
fn visit(block: &Block, seen: &mut impl FnMut(&Op)) {
    for op in block.iter() {
        seen(op);
        match op {
            Op::All(blocks) | Op::AllFails(blocks) | Op::Race { branches: blocks, .. } => {
                blocks.iter().for_each(|block| visit(block, seen));
            }
            Op::Timeout(_, block) | Op::Fiber(block) => visit(block, seen),
            Op::Guarded(guard) => {
                visit(&guard.body, seen);
                visit(&guard.cleanup, seen);
            }
            Op::Patch { old, new, .. } => {
                visit(old, seen);
                visit(new, seen);
            }
            _ => {}
        }
    }
}

/// A program of the crowd, without its body.
fn of_crowd(origin: Origin, is_scoped: bool) -> Program {
    Program {
        origin,
        kind: Kind::Plain,
        rounds: 1,
        body: Block::default(),
        cleans_up: false,
        is_free: false,
        is_scoped,
        terms: Terms::default(),
    }
}

/// A program that goes on for longer than any time limit: it waits for an event that never comes, or begins anew again
/// and again.
fn lasting(is_scoped: bool, rng: &mut Rng) -> Program {
    let (rounds, op) = if rng.bool() {
        (1, Op::Event("never"))
    } else {
        (ROUNDS, Op::Timer(rng.i64(50..1_000)))
    };
    Program {
        rounds,
        body: Arc::new(vec![op]),
        ..of_crowd(Origin::Client, is_scoped)
    }
}

/// The body of a program that does not take long.
fn short(programs: &mut Programs, rng: &mut Rng) -> Block {
    let op = |rng: &mut Rng, tag: u32| match rng.u8(..3) {
        0 => Op::Timer(rng.i64(0..2_000)),
        _ => Op::Activity(Work {
            tag,
            ms: rng.u64(0..1_000),
            ..Work::default()
        }),
    };
    let ops = (0..rng.usize(1..=3)).map(|_| op(rng, programs.next_tag()));
    Arc::new(ops.collect())
}

/// The body of a program that waits for some activities of the queue of activities.
fn attempts(programs: &mut Programs, rng: &mut Rng) -> Block {
    let attempts = (0..rng.usize(2..=8)).map(|_| {
        let work = Work {
            tag: programs.next_tag(),
            ms: rng.u64(0..500),
            fails: u32::from(rng.u8(..4) == 0),
            is_queued: true,
            priority: rng.i32(0..=1),
            ..Work::default()
        };
        Arc::new(vec![Op::Activity(work)])
    });
    Arc::new(vec![Op::All(attempts.collect())])
}

/// The body of a program that waits for some activities which are in a hurry.
fn hurried(programs: &mut Programs, rng: &mut Rng) -> Block {
    let attempts = (0..rng.usize(1..=5)).map(|_| {
        let work = Work {
            tag: programs.next_tag(),
            ms: rng.u64(0..500),
            fails: u32::from(rng.u8(..4) == 0),
            is_queued: rng.bool(),
            is_lost: rng.bool(),
            start_within_ms: rng.u64(1..2_000),
            ..Work::default()
        };
        Arc::new(vec![Op::Hurried(work)])
    });
    Arc::new(vec![Op::All(attempts.collect())])
}

/// The body of a program that waits for some instances of the same child.
fn children(programs: &mut Programs, program: usize, rng: &mut Rng) -> Block {
    let children = (0..rng.usize(2..=6)).map(|_| {
        let tag = programs.next_tag();
        Arc::new(vec![Op::Child { program, tag }])
    });
    Arc::new(vec![Op::All(children.collect())])
}

/// Draws limits for a queue.
fn limits(name: &str, rng: &mut Rng) -> QueueSettings {
    let some = |rng: &mut Rng, most: u32| rng.bool().then(|| rng.u32(1..=most));
    let rate = |rng: &mut Rng| {
        Some(Rate {
            limit: rng.u32(1..=3),
            per_ms: rng.u64(100..4_000),
        })
    };
    let mut settings = QueueSettings {
        is_fair: rng.bool(),
        ..QueueSettings::default()
    };
    match name {
        "few" => {
            settings.concurrency = Some(rng.u32(1..=3));
            settings.key_concurrency = if rng.u8(..3) == 0 { Some(1) } else { None };
        }
        "keys" => {
            settings.key_concurrency = Some(rng.u32(1..=2));
            settings.concurrency = if rng.u8(..4) > 0 { Some(rng.u32(1..=4)) } else { None };
        }
        "rate" => {
            settings.rate = if rng.bool() { rate(rng) } else { None };
            settings.key_rate = if settings.rate.is_none() || rng.bool() {
                rate(rng)
            } else {
                None
            };
            settings.concurrency = some(rng, 4);
        }
        "own" => {
            settings.per_worker = Some(rng.u32(1..=2));
            settings.key_concurrency = some(rng, 2);
        }
        _ => {}
    }
    settings
}

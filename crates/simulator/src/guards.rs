//! Guarded blocks in programs, and programs that are made of them to be cancelled.
//!
//! All of this is drawn after the programs and by itself, so that a plan without guarded blocks is the same as before
//! there were any.
//!
//! G1. Anything that a cleanup waits for comes by itself.
//! G2. A cleanup leaves no fiber behind, because nothing would wait for the cleanup of that fiber.

use std::sync::Arc;

use fastrand::Rng;

use crate::program::{Block, Guard, Kind, Op, Origin, Program, Programs, Work, duration, work};
use crate::terms::Terms;

/// The depth to which combinators and guarded blocks are nested in a program that is made of them.
const DEPTH: u32 = 3;
/// The depth of the same in a cleanup.
const CLEANUP_DEPTH: u32 = 1;

/// Puts guarded blocks into programs, and adds programs that are there to be cancelled. All programs have the scoped
/// rules from here on.
pub(crate) fn add(programs: &mut Programs, rng: &mut Rng) {
    let mut maker = Maker { rng, tag: programs.tag };
    for program in &mut programs.all {
        program.body = maker.guarded(&program.body);
    }
    for _ in 0..maker.rng.usize(1..=3) {
        programs.all.push(Program {
            origin: Origin::Client,
            kind: Kind::Plain,
            rounds: maker.rng.u32(1..=2),
            body: maker.block(DEPTH, Place::Body),
            cleans_up: maker.rng.bool(),
            is_free: true,
            is_scoped: true,
            terms: Terms::default(),
        });
    }
    programs.tag = maker.tag;
    programs.all.iter_mut().for_each(|program| program.is_scoped = true);
}

/// The surroundings of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Code that must come to an end by itself.
    Body,
    /// Code that may be given up at any time.
    Idle,
    /// A cleanup, or code that may be given up in one.
    Cleanup,
}

struct Maker<'a> {
    rng: &'a mut Rng,
    tag: u32,
}

impl Maker<'_> {
    fn next_tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }

    /// A block with some of its operations in guarded ones.
    fn guarded(&mut self, block: &Block) -> Block {
        let mut ops: Vec<Op> = block.iter().map(|op| self.within(op)).collect();
        if !ops.is_empty() && self.rng.u8(..3) == 0 {
            let from = self.rng.usize(..ops.len());
            let to = self.rng.usize(from + 1..=ops.len());
            let body = Arc::new(ops.drain(from..to).collect());
            ops.insert(from, self.guard(body, CLEANUP_DEPTH));
        }
        Arc::new(ops)
    }

    fn within(&mut self, op: &Op) -> Op {
        let mut all = |blocks: &[Block]| blocks.iter().map(|block| self.guarded(block)).collect();
        match op {
            Op::All(blocks) => Op::All(all(blocks)),
            Op::AllFails(blocks) => Op::AllFails(all(blocks)),
            Op::Race {
                branches,
                cancel_losers,
            } => Op::Race {
                branches: all(branches),
                cancel_losers: *cancel_losers,
            },
            Op::Timeout(ms, block) => Op::Timeout(*ms, self.guarded(block)),
            Op::Fiber(block) => Op::Fiber(self.guarded(block)),
            op => op.clone(),
        }
    }

    fn guard(&mut self, body: Block, depth: u32) -> Op {
        Op::Guarded(Box::new(Guard {
            enter: self.step(),
            body,
            undo: self.step(),
            cleanup: self.cleanup(depth),
            close: self.step(),
        }))
    }

    fn cleanup(&mut self, depth: u32) -> Block {
        match self.rng.bool() {
            true => Block::default(),
            false => self.block(depth, Place::Cleanup),
        }
    }

    /// An activity that succeeds.
    fn step(&mut self) -> Work {
        Work {
            tag: self.next_tag(),
            is_fatal: false,
            ..work(self.rng)
        }
    }

    fn block(&mut self, depth: u32, place: Place) -> Block {
        let len = self.rng.usize(1..=3);
        Arc::new((0..len).map(|_| self.op(depth, place)).collect())
    }

    fn blocks(&mut self, depth: u32, place: Place) -> Vec<Block> {
        let count = self.rng.usize(1..=3);
        (0..count).map(|_| self.block(depth - 1, place)).collect()
    }

    fn op(&mut self, depth: u32, place: Place) -> Op {
        let idle = if place == Place::Body { Place::Idle } else { place };
        match self.rng.u8(..16) {
            5 if place == Place::Idle => Op::Event("never"),
            6 | 7 if depth > 0 => Op::All(self.blocks(depth, place)),
            8 | 9 if depth > 0 => {
                let mut branches = self.blocks(depth, idle);
                branches.push(Arc::new(vec![Op::Timer(duration(self.rng))]));
                Op::Race {
                    branches,
                    cancel_losers: place == Place::Cleanup || self.rng.u8(..4) > 0,
                }
            }
            10 if depth > 0 => Op::Timeout(duration(self.rng), self.block(depth - 1, idle)),
            11 if depth > 0 => Op::Fiber(self.block(depth - 1, place)),
            12..=15 if depth > 0 => {
                let body = self.block(depth - 1, place);
                self.guard(body, CLEANUP_DEPTH.min(depth - 1))
            }
            0..=3 => Op::Activity(Work {
                tag: self.next_tag(),
                ..work(self.rng)
            }),
            _ => Op::Timer(duration(self.rng)),
        }
    }
}

/// Two guarded blocks, one in the other, whose order is certain: the inner one is closed before the outer one goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nested<'a> {
    pub(crate) outer: &'a Guard,
    pub(crate) inner: &'a Guard,
    /// True if the inner block is in the cleanup of the outer one, not in its body.
    pub(crate) is_in_cleanup: bool,
}

/// The guarded blocks of a program, and the pairs of them that are nested.
#[derive(Default)]
pub(crate) struct Guards<'a> {
    pub(crate) all: Vec<&'a Guard>,
    pub(crate) nested: Vec<Nested<'a>>,
}

/// A guarded block around the code that is looked at.
#[derive(Clone, Copy)]
struct EnclosingBlock<'a> {
    guard: &'a Guard,
    is_in_cleanup: bool,
    /// True if a fiber is between the two that the outer block waits for.
    is_awaited: bool,
}

impl<'a> Guards<'a> {
    pub(crate) fn of(program: &'a Program) -> Self {
        let mut guards = Self::default();
        guards.visit(&program.body, &[]);
        guards
    }

    fn visit(&mut self, block: &'a Block, around: &[EnclosingBlock<'a>]) {
        for op in block.iter() {
            match op {
                Op::Guarded(guard) => self.found(guard, around),
                Op::All(blocks) => self.visit_all(blocks, &awaited(around)),
                Op::Race {
                    branches,
                    cancel_losers: true,
                } => self.visit_all(branches, &awaited(around)),
                Op::Timeout(_, block) => self.visit(block, &awaited(around)),
                // The block around it waits for it at its end only. But the fiber of that block does not settle before
                // it.
                Op::Fiber(block) => {
                    let around = around.iter().filter(|around| around.is_awaited).copied();
                    self.visit(block, &around.collect::<Vec<_>>());
                }
                // The fiber that waits goes on while others run.
                Op::AllFails(blocks)
                | Op::Race {
                    branches: blocks,
                    cancel_losers: false,
                } => self.visit_all(blocks, &[]),
                _ => {}
            }
        }
    }

    fn visit_all(&mut self, blocks: &'a [Block], around: &[EnclosingBlock<'a>]) {
        blocks.iter().for_each(|block| self.visit(block, around));
    }

    fn found(&mut self, guard: &'a Guard, around: &[EnclosingBlock<'a>]) {
        self.all.push(guard);
        self.nested.extend(around.iter().map(|around| Nested {
            outer: around.guard,
            inner: guard,
            is_in_cleanup: around.is_in_cleanup,
        }));
        let with = |is_in_cleanup| {
            let this = EnclosingBlock {
                guard,
                is_in_cleanup,
                is_awaited: false,
            };
            [around, &[this]].concat()
        };
        self.visit(&guard.body, &with(false));
        self.visit(&guard.cleanup, &with(true));
    }
}

fn awaited<'a>(around: &[EnclosingBlock<'a>]) -> Vec<EnclosingBlock<'a>> {
    let awaited = |around: &EnclosingBlock<'a>| EnclosingBlock {
        is_awaited: true,
        ..*around
    };
    around.iter().map(awaited).collect()
}

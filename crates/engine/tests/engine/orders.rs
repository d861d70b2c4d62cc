//! Random scripts: programs and events from outside, drawn by seed. Each is brought back in many ways, and then with a
//! changed line.

use std::fmt::Write;

use perdure_engine::Budget;

use crate::support::draw::Draw;
use crate::support::script::{Program, Script};
use crate::support::world::WHOLE;
use crate::support::{run_fresh, run_somehow};

impl Draw {
    fn program(&mut self) -> String {
        // All operations that later lines name exist from the start, so that every line may stand anywhere.
        let mut text = String::from(
            "a = activity one\nb = activity two ; attempts=2 initial=50ms\nt = timer 300ms\nu = timer 120ms\n\
             c = child three x1\nm = send x2 queue q\n",
        );
        for _ in 0..2 + self.below(6) {
            self.step(&mut text, 0);
        }
        if self.below(3) == 0 {
            text += "on cancel\n";
            for _ in 0..self.below(4) {
                self.step(&mut text, 0);
            }
        }
        text
    }

    fn step(&mut self, text: &mut String, depth: u32) {
        let var = self.one(&["a", "b", "t", "u", "c", "m"]);
        match self.below(if depth < 2 { 16 } else { 14 }) {
            0 => text.push_str("a = activity one it ; attempts=3 initial=10ms\n"),
            1 => text.push_str("b = activity two it\n"),
            2 => text.push_str("t = timer 70ms\n"),
            3 => writeln!(text, "cancel {var}").expect("a string takes all"),
            4 => writeln!(text, "status {}", self.below(3)).expect("a string takes all"),
            5 => text.push_str(self.one(&["random\n", "uuid\n", "now\n", "status?\n"])),
            6..=8 => writeln!(text, "await {var}").expect("a string takes all"),
            9..=10 => {
                let mailbox = self.one(&["event x", "queue q", "event y"]);
                writeln!(text, "await {mailbox} | {var}").expect("a string takes all");
            }
            11 if self.below(6) == 0 => text.push_str(self.one(&["return it\n", "continue it\n"])),
            11 => text.push_str("await event x\n"),
            12 => text.push_str(self.one(&["c = child three x3 it\n", "m = start four x4 it\n"])),
            13 => text.push_str("m = send x2 event e it\n"),
            14 => self.block(text, "repeat 2", depth),
            _ => {
                let won = self.one(&["event x", "queue q", "a", "c", "m", "t", "failed"]);
                self.block(text, &format!("if {won}"), depth);
            }
        }
    }

    fn block(&mut self, text: &mut String, head: &str, depth: u32) {
        writeln!(text, "{head}").expect("a string takes all");
        for _ in 0..1 + self.below(3) {
            self.step(text, depth + 1);
        }
        text.push_str("end\n");
    }

    fn outside(&mut self) -> String {
        let mut text = String::new();
        let mut at = 0;
        for n in 0..self.below(14) {
            // Often at the same time as the previous event; now and then the clock is set back.
            at = match self.below(8) {
                0..=2 => at,
                3 => at / 2,
                _ => at + self.below(90),
            };
            let what = match self.below(15) {
                12 => format!("child {} {n}", self.one(&["c", "m", "a"])),
                13 => format!("child #{} failed {n}", 2 + self.below(6)),
                14 => format!("refuse {} instanceEnded", self.one(&["c", "m", "#9"])),
                0..=1 => format!("complete {} {n}", self.one(&["a", "b"])),
                2..=3 => format!("complete #{} {n}", 2 + self.below(6)),
                4..=5 => format!("fail #{} Error", 2 + self.below(6)),
                6 => format!("fail {} Error fatal", self.one(&["a", "b"])),
                7..=8 => format!("{} {n}", self.one(&["event x", "event y", "event z"])),
                9 => format!("queue q {n}"),
                10 if self.below(3) == 0 => format!("cancel {n}"),
                10 => "look".into(),
                _ if n > 0 => "repeat".into(),
                _ => "look".into(),
            };
            writeln!(text, "{at} {what}").expect("a string takes all");
        }
        text
    }

    /// Returns the program with one line removed, doubled, exchanged with its neighbour, or replaced.
    fn changed(&mut self, program: &str) -> String {
        let mut lines: Vec<String> = program.lines().map(str::to_owned).collect();
        let movable: Vec<usize> = (6..lines.len()).filter(|n| !is_bracket(&lines[*n])).collect();
        if movable.is_empty() {
            return program.to_owned();
        }
        let place = movable[self.below(movable.len() as u64) as usize];
        match self.below(4) {
            0 => {
                lines.remove(place);
            }
            1 => lines.insert(place, lines[place].clone()),
            2 if place + 1 < lines.len() && !is_bracket(&lines[place + 1]) => lines.swap(place, place + 1),
            _ => {
                let mut other = String::new();
                self.step(&mut other, 2);
                lines[place] = other.trim_end().to_owned();
            }
        }
        lines.join("\n")
    }
}

fn is_bracket(line: &str) -> bool {
    ["repeat", "if", "end", "on "].iter().any(|word| line.starts_with(word)) && !line.starts_with("repeat the")
}

const SCRIPTS: u64 = 1_000;

fn text_of(seed: u64) -> (Draw, String, String) {
    let mut draw = Draw(seed);
    let (program, outside) = (draw.program(), draw.outside());
    (draw, program, outside)
}

fn budget_of(seed: u64) -> Budget {
    match seed % 3 {
        0 => Budget {
            deliveries: 1,
            ..Budget::default()
        },
        1 => Budget {
            deliveries: 2,
            commands: 2,
            ..Budget::default()
        },
        _ => Budget::default(),
    }
}

#[test]
fn drawn_scripts_agree_in_every_way() {
    let (mut turns, mut events, mut ended) = (0, 0, 0);
    for seed in 0..SCRIPTS {
        let (_, program, outside) = text_of(seed);
        let text = format!("{program}---\n{outside}");
        let script = Script::parse(&text);
        let fresh = std::panic::catch_unwind(|| {
            let fresh = run_somehow(&script, budget_of(seed), seed as usize);
            (
                fresh.turns.len(),
                fresh.worlds.last().map_or(0, |w| w.history.len()),
                fresh.worlds.last().is_some_and(|w| w.has_ended()),
            )
        });
        let (t, e, has_ended) = fresh.unwrap_or_else(|_| panic!("seed {seed}:\n{text}"));
        turns += t;
        events += e;
        ended += u64::from(has_ended);
    }
    // With fewer turns and events the scripts would show nothing.
    assert!(
        turns > 3 * SCRIPTS as usize && events > 8 * SCRIPTS as usize,
        "{turns} turns, {events} events"
    );
    assert!((SCRIPTS / 5..SCRIPTS * 4 / 5).contains(&ended), "{ended} ended");
}

/// A changed program fits or does not fit. It never panics, and once it does not fit, it never fits again.
#[test]
fn drawn_changes_fit_or_are_found() {
    let (mut fits, mut found) = (0, 0);
    for seed in 0..SCRIPTS {
        let (mut draw, program, outside) = text_of(seed);
        let script = Script::parse(&format!("{program}---\n{outside}"));
        let fresh = run_fresh(&script, budget_of(seed));
        for _ in 0..4 {
            let changed = draw.changed(&program);
            let new = Script {
                time_limit: script.time_limit.clone(),
                program: Program::parse(&changed),
                outside: Vec::new(),
            };
            let mut is_found = false;
            for stored in &fresh.worlds {
                let mut world = stored.clone();
                world.replace_script(&new);
                let mut run = world.load(WHOLE);
                let mismatch = world.replay(&mut run, usize::MAX).err();
                assert_eq!(run.engine.fault(), mismatch.as_ref());
                assert!(
                    mismatch.is_some() || !is_found,
                    "seed {seed}: found once, then not:\n{program}---\n{outside}\n{changed}"
                );
                is_found = mismatch.is_some();
            }
            *if is_found { &mut found } else { &mut fits } += 1;
        }
    }
    assert!(
        fits > SCRIPTS / 2 && found > SCRIPTS / 2,
        "{fits} fit and {found} are found"
    );
}

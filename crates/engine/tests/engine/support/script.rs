//! Scripts: a small deterministic program and the events from outside while it runs, as text.
//!
//! ```text
//! limit 5s | limit 5s grace 1s                       the time limit of the instance: the first line
//! a = activity charge 12 ; attempts=5 initial=1s     schedule an activity: name, input, options
//!                                                    (with options: no jitter, unless they set it)
//! t = timer 1s | t = timer at 5s                     a timer after a delay, or at a time since the start
//! c = child order x1 12 | d = start order x1 12      a child, a detached start: name, id, input
//! m = send x1 event go 5 | m = send x1 queue q 5     a message to another instance
//! cancel a                                           give an operation up
//! await a | t | event x | queue q                    wait for the first of these; what it gave is `it`
//! if a … else … end                                  whether `a` (or `event x`, `failed`, …) ended the last wait
//! repeat 3 … end
//! status "text" | status none | status?              set, reset, read the custom status
//! random | uuid | now
//! t = grace 5s | t = grace none                       the timer that limits how long the cancelled code may go on
//! patched x                                          ask for a patch; `if patched` is whether it has it
//! drawn x                                            draw the text `x` under the name `key/`
//! return it | throw "text" | continue 2 | continue it ; 2.0.0   the last: as the next execution, of a version
//! on cancel                                          what follows runs when the instance is cancelled, once
//! ---
//! 100 complete a "value"                             100 ms after the start; things of one time come together
//! 100 fail a TypeError code=E1 fatal after=5s        an attempt fails; fatal: not to be repeated
//! 100 complete #7 "value"                            by number, for an activity that the program does not hold
//! 100 event x "value" | 100 queue q "value" | 100 cancel "reason"
//! 100 child c "value" | 100 child c failed "Error"     a child ends: failed, cancelled, terminated
//! 100 refuse d instanceExists                        what goes to another instance does not reach it
//! 100 elsewhere a 1 "value" | 100 elsewhere a 1 failed  attempt 1 of an activity, run by another worker, is over
//! 100 former c "value"                               a child of another execution ends
//! 100 repeat the last                                the same again (a message with the same number)
//! 100 look                                           a look at the clock, without anything new
//! ```

use std::collections::HashMap;

use perdure_engine::{
    ActivityOptions, AttemptResult, Backoff, ChildFailure, EventId, ExecutionId, Mailbox, Payload, Refusal, Settlement,
    TimeLimit,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Operation(String),
    Mailbox(Mailbox),
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    It,
    Is(Payload),
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Begins an operation, which `var` names from here on.
    Operation {
        var: String,
        operation: Box<Operation>,
    },
    Cancel(String),
    Await(Vec<Target>),
    Call(Call),
    End(End),
    /// Goes to `otherwise` unless the last wait ended with this target.
    If {
        what: String,
        otherwise: usize,
    },
    Goto(usize),
    Repeat {
        times: u32,
    },
    /// Runs the body once more from `body`, if there are rounds left.
    EndRepeat {
        body: usize,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Activity {
        name: String,
        input: Value,
        options: Box<ActivityOptions>,
    },
    Timer {
        delay_ms: i64,
    },
    TimerAt {
        at_ms: i64,
    },
    Grace {
        delay_ms: Option<i64>,
    },
    Start {
        is_child: bool,
        name: String,
        id: String,
        input: Value,
    },
    Send {
        instance: String,
        mailbox: Mailbox,
        payload: Value,
    },
}

/// A call of the context that does not wait.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Status(Payload),
    ReadStatus,
    Patched(String),
    Drawn(String),
    Random,
    Uuid,
    Now,
}

/// The end of the program.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Return(Value),
    Throw(Value),
    Continue { input: Value, version: Option<String> },
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) on_cancel: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Complete {
        activity: String,
        output: Payload,
    },
    Fail {
        activity: String,
        error: String,
        codes: Vec<String>,
        fatal: bool,
        after_ms: Option<i64>,
    },
    Mail {
        mailbox: Mailbox,
        payload: Payload,
    },
    Cancel {
        reason: Payload,
    },
    Settled {
        scheduled: String,
        execution: ExecutionId,
        settlement: Settlement,
    },
    Again,
    Look,
}

#[derive(Clone, Debug)]
pub(crate) struct Outside {
    pub(crate) at_ms: i64,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) time_limit: Option<TimeLimit>,
    pub(crate) program: Program,
    pub(crate) outside: Vec<Outside>,
}

impl Script {
    pub(crate) fn parse(text: &str) -> Self {
        let (program, outside) = text.split_once("---").unwrap_or((text, ""));
        let first = program.trim_start().strip_prefix("limit ");
        let (time_limit, program) = match first.map(|rest| rest.split_once('\n').unwrap_or((rest, ""))) {
            Some((limit, program)) => (Some(time_limit(limit)), program),
            None => (None, program),
        };
        Self {
            time_limit,
            program: Program::parse(program),
            outside: lines(outside).map(Outside::parse).collect(),
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn payload(text: &str) -> Payload {
    match text.trim() {
        "" | "none" => None,
        text => Some(text.to_owned()),
    }
}

fn value(text: &str) -> Value {
    if text.trim() == "it" {
        Value::It
    } else {
        Value::Is(payload(text))
    }
}

/// `name rest`
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(' ')
        .map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

pub(crate) fn duration(text: &str) -> i64 {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        unit => panic!("{text}: there is no unit {unit}"),
    };
    digits.parse::<i64>().unwrap_or_else(|e| panic!("{text}: {e}")) * factor
}

fn time_limit(text: &str) -> TimeLimit {
    let ms = |text: &str| u64::try_from(duration(text.trim())).expect("a duration");
    let (timeout, grace) = text
        .split_once(" grace ")
        .map_or((text, None), |(timeout, grace)| (timeout, Some(grace)));
    TimeLimit {
        timeout_ms: ms(timeout),
        grace_ms: grace.map(ms),
        deadline_ms: None,
    }
}

fn mailbox(text: &str) -> Option<Mailbox> {
    match word(text) {
        ("event", name) => Some(Mailbox::Event(name.to_owned())),
        ("queue", name) => Some(Mailbox::Queue(name.to_owned())),
        _ => None,
    }
}

fn options(text: &str) -> ActivityOptions {
    let mut options = ActivityOptions::default();
    options.retry.jitter = 0.0;
    for pair in text.split_whitespace() {
        if pair == "inline" {
            options.inline = true;
            continue;
        }
        let (key, value) = pair.split_once('=').unwrap_or_else(|| panic!("{pair} is no option"));
        match key {
            "attempts" => options.retry.max_attempts = value.parse().expect("a number of attempts"),
            "initial" => options.retry.initial_interval_ms = duration(value) as f64,
            "backoff" => {
                options.retry.backoff = match value {
                    "linear" => Backoff::Linear,
                    factor => Backoff::Factor(factor.parse().expect("a factor")),
                };
            }
            "max" => options.retry.max_interval_ms = duration(value) as f64,
            "jitter" => options.retry.jitter = value.parse().expect("a share"),
            "never" => options.retry.non_retryable.push(value.to_owned()),
            "only" => options.retry.retry_on.push(value.to_owned()),
            "timeout" => options.timeout_ms = Some(duration(value) as u64),
            "total" => options.total_timeout_ms = Some(duration(value) as u64),
            _ => panic!("there is no option {key}"),
        }
    }
    options
}

impl Program {
    pub(crate) fn parse(text: &str) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        let mut on_cancel = None;
        let mut open = Vec::new();
        for line in lines(text) {
            let step = match word(line) {
                ("await", targets) => Step::Await(targets.split(" | ").map(target).collect()),
                ("cancel", var) => Step::Cancel(var.to_owned()),
                ("repeat", times) => {
                    open.push(steps.len());
                    Step::Repeat {
                        times: times.parse().expect("a number of rounds"),
                    }
                }
                ("if", what) => {
                    open.push(steps.len());
                    Step::If {
                        what: what.to_owned(),
                        otherwise: usize::MAX,
                    }
                }
                ("else", _) => {
                    let begin = open.pop().expect("an else belongs to an if");
                    let after = steps.len() + 1;
                    let Step::If { otherwise, .. } = &mut steps[begin] else {
                        panic!("an else belongs to an if")
                    };
                    *otherwise = after;
                    open.push(steps.len());
                    Step::Goto(usize::MAX)
                }
                ("end", _) => {
                    let begin = open.pop().expect("an end belongs to something");
                    let here = steps.len();
                    match &mut steps[begin] {
                        Step::If { otherwise: target, .. } | Step::Goto(target) => {
                            *target = here;
                            continue;
                        }
                        _ => Step::EndRepeat { body: begin + 1 },
                    }
                }
                ("on", "cancel") => {
                    // The program before this line ends here.
                    steps.push(Step::End(End::Return(Value::Is(None))));
                    on_cancel = Some(steps.len());
                    continue;
                }
                _ => end(line).or_else(|| call(line)).unwrap_or_else(|| operation(line)),
            };
            steps.push(step);
        }
        assert!(open.is_empty(), "an end is missing");
        steps.push(Step::End(End::Return(Value::Is(None))));
        Self { steps, on_cancel }
    }
}

fn end(line: &str) -> Option<Step> {
    let end = match word(line) {
        ("return", text) => End::Return(value(text)),
        ("throw", text) => End::Throw(value(text)),
        ("continue", text) => {
            let (input, version) = text
                .split_once(" ; ")
                .map_or((text, None), |(i, v)| (i, Some(v.into())));
            End::Continue {
                input: value(input),
                version,
            }
        }
        _ => return None,
    };
    Some(Step::End(end))
}

fn call(line: &str) -> Option<Step> {
    let call = match word(line) {
        ("status", text) => Call::Status(payload(text)),
        ("status?", _) => Call::ReadStatus,
        ("random", _) => Call::Random,
        ("patched", patch) => Call::Patched(patch.to_owned()),
        ("drawn", text) => Call::Drawn(text.to_owned()),
        ("uuid", _) => Call::Uuid,
        ("now", _) => Call::Now,
        _ => return None,
    };
    Some(Step::Call(call))
}

fn target(text: &str) -> Target {
    mailbox(text).map_or_else(|| Target::Operation(text.trim().to_owned()), Target::Mailbox)
}

/// `var = activity …`, `var = timer …` and so on
fn operation(line: &str) -> Step {
    let (var, rest) = line.split_once('=').unwrap_or_else(|| panic!("{line} is no step"));
    let var = var.trim().to_owned();
    let operation = match word(rest) {
        ("timer", text) => match word(text) {
            ("at", time) => Operation::TimerAt { at_ms: duration(time) },
            (delay, _) => Operation::Timer {
                delay_ms: duration(delay),
            },
        },
        ("grace", text) => Operation::Grace {
            delay_ms: (text.trim() != "none").then(|| duration(text)),
        },
        ("activity", text) => {
            let (call, settings) = text
                .split_once(" ; ")
                .map_or((text, None), |(call, settings)| (call, Some(settings)));
            let (name, input) = word(call);
            let options = settings.map(options).unwrap_or_default();
            Operation::Activity {
                name: name.to_owned(),
                input: value(input),
                options: Box::new(options),
            }
        }
        (kind @ ("child" | "start"), text) => {
            let (name, text) = word(text);
            let (id, input) = word(text);
            Operation::Start {
                is_child: kind == "child",
                name: name.to_owned(),
                id: id.to_owned(),
                input: value(input),
            }
        }
        ("send", text) => {
            let (instance, text) = word(text);
            let (kind, text) = word(text);
            let (name, payload) = word(text);
            Operation::Send {
                instance: instance.to_owned(),
                mailbox: mailbox(&format!("{kind} {name}")).expect("a mailbox"),
                payload: value(payload),
            }
        }
        _ => panic!("{line} is no step"),
    };
    Step::Operation {
        var,
        operation: Box::new(operation),
    }
}

fn child_end(text: &str) -> Settlement {
    match word(text) {
        ("failed", error) => Settlement::Failed(ChildFailure::Failed, payload(error)),
        ("cancelled", error) => Settlement::Failed(ChildFailure::Cancelled, payload(error)),
        ("terminated", reason) => Settlement::Failed(ChildFailure::Terminated, payload(reason)),
        _ => Settlement::Completed(payload(text)),
    }
}

fn failure(activity: &str, text: &str) -> What {
    let mut words = text.split_whitespace();
    let error = words.next().unwrap_or("Error").to_owned();
    let (mut codes, mut fatal, mut after_ms) = (Vec::new(), false, None);
    for flag in words {
        match flag.split_once('=') {
            Some(("code", code)) => codes.push(code.to_owned()),
            Some(("after", delay)) => after_ms = Some(duration(delay)),
            None if flag == "fatal" => fatal = true,
            _ => panic!("there is no {flag} of a failure"),
        }
    }
    What::Fail {
        activity: activity.to_owned(),
        error,
        codes,
        fatal,
        after_ms,
    }
}

fn remote_attempt(text: &str) -> Settlement {
    let (attempt, result) = word(text);
    let result = match word(result) {
        ("failed", error) => AttemptResult::Failed {
            error: payload(error),
            error_name: "Error".into(),
            error_codes: Vec::new(),
            non_retryable: false,
            retry_after_ms: None,
        },
        _ => AttemptResult::Completed(payload(result)),
    };
    Settlement::Attempted {
        attempt: attempt.parse().expect("a number of an attempt"),
        result,
    }
}

impl Outside {
    fn parse(line: &str) -> Self {
        let (at, rest) = word(line);
        let (verb, arguments) = word(rest);
        let (first, second) = word(arguments);
        let what = match verb {
            "complete" => What::Complete {
                activity: first.to_owned(),
                output: payload(second),
            },
            "fail" => failure(first, second),
            "event" => What::Mail {
                mailbox: Mailbox::Event(first.to_owned()),
                payload: payload(second),
            },
            "queue" => What::Mail {
                mailbox: Mailbox::Queue(first.to_owned()),
                payload: payload(second),
            },
            "cancel" => What::Cancel {
                reason: payload(arguments),
            },
            "child" | "former" => What::Settled {
                scheduled: first.to_owned(),
                execution: if verb == "child" {
                    ExecutionId::FIRST
                } else {
                    ExecutionId(9)
                },
                settlement: child_end(second),
            },
            "elsewhere" => What::Settled {
                scheduled: first.to_owned(),
                execution: ExecutionId::FIRST,
                settlement: remote_attempt(second),
            },
            "refuse" => What::Settled {
                scheduled: first.to_owned(),
                execution: ExecutionId::FIRST,
                settlement: Settlement::Refused(Refusal::parse(second).expect("a reason")),
            },
            "repeat" => What::Again,
            "look" => What::Look,
            _ => panic!("{line} is nothing that happens outside"),
        };
        Self {
            at_ms: duration(at),
            what,
        }
    }
}

/// Returns the schedule that a script names `a` or `#7`.
pub(crate) fn resolve(vars: &HashMap<String, EventId>, name: &str) -> EventId {
    match name.strip_prefix('#') {
        Some(number) => EventId(number.parse().expect("a number of an event")),
        None => *vars
            .get(name)
            .unwrap_or_else(|| panic!("the program has not scheduled {name} yet")),
    }
}

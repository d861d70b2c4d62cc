//! A process: a runtime on a link to the store, and a host that runs programs on its lanes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use perdure_engine::{Answer, Command, EventId, Mailbox, Payload, StateChange, StreamKeep};
use perdure_runtime::{
    ActivityJob, ActivityToken, Job, LaneId, Level, LineFields, Runtime, RuntimeError, Store, Token,
};

use crate::code::{Code, Edition, ExecutionFacts, program_of};
use crate::entries::Appends;
use crate::fibers::{Calls, Stop};
use crate::link::{Link, ProcessState};
use crate::program::Program;

/// Name of a process: the number of processes before it.
pub(crate) type Pid = u32;

/// The lane of the thread that every process has.
pub(crate) const MAIN: LaneId = LaneId(0);

/// A process, from its begin to the end of the run. A dead process is kept, so that nothing of it is tidied up.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) slot: usize,
    pub(crate) link: Arc<Link>,
    pub(crate) store: Arc<Store>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) state: ProcessState,
    pub(crate) edition: Edition,
    pub(crate) is_started: bool,
    /// True if the process runs nothing.
    pub(crate) is_client: bool,
    /// True if the process shuts down.
    pub(crate) is_leaving: bool,
    /// The edition that begins in its place after the shutdown, and the wait before that, ms.
    pub(crate) successor: Option<(Edition, u64)>,
    pub(crate) lanes: Vec<Lane>,
    /// Attempts that run.
    pub(crate) attempts: BTreeMap<ActivityToken, RunningAttempt>,
}

/// An attempt that runs.
pub(crate) struct RunningAttempt {
    pub(crate) job: ActivityJob,
    pub(crate) lane: LaneId,
    pub(crate) appends: Appends,
}

/// The thread of a lane.
#[derive(Default)]
pub(crate) struct Lane {
    /// True if the thread was woken and has not run dry since.
    pub(crate) is_awake: bool,
    /// True if the thread is busy, and hears nothing.
    pub(crate) is_blocked: bool,
    /// The job that the thread is in the middle of while it is blocked.
    pub(crate) held: Option<Job>,
    codes: BTreeMap<Token, RunningCode>,
}

struct RunningCode {
    code: Code,
    calls: Rc<OnRuntime>,
}

impl Lane {
    /// Loses the thread with all that it had.
    pub(crate) fn lose(&mut self) {
        *self = Self::default();
    }

    /// The operations that its instances wait for.
    pub(crate) fn pending(&self) -> impl Iterator<Item = String> {
        self.codes.values().map(|running| running.code.pending())
    }

    pub(crate) fn drop_code(&mut self, token: Token) {
        self.codes.remove(&token);
    }

    /// True if the code of an instance was begun here.
    pub(crate) fn has_code(&self, token: Token) -> bool {
        self.codes.contains_key(&token)
    }
}

impl Process {
    /// True if the thread of a lane takes jobs.
    pub(crate) fn can_run(&self, lane: LaneId) -> bool {
        let Lane {
            is_awake, is_blocked, ..
        } = self.lanes[lane.0];
        self.state == ProcessState::Running && is_awake && !is_blocked
    }

    /// The program of a turn that is to begin.
    pub(crate) fn program_of(&self, token: Token) -> Option<usize> {
        self.runtime.describe(token).ok().map(|facts| program_of(&facts.name))
    }

    /// Drives an instance until its code waits or has ended.
    pub(crate) fn turn(&mut self, lane: LaneId, token: Token, programs: &Arc<Vec<Program>>) {
        let Ok(facts) = self.runtime.describe(token) else {
            return;
        };
        let runtime = &self.runtime;
        let edition = self.edition;
        let codes = &mut self.lanes[lane.0].codes;
        let running = codes.entry(token).or_insert_with(|| {
            let calls = Rc::new(OnRuntime {
                runtime: Arc::clone(runtime),
                token,
                time_ms: Cell::new(facts.time_ms),
            });
            let execution = ExecutionFacts {
                program: program_of(&facts.name),
                instance: facts.instance_id,
                programs: Arc::clone(programs),
                edition,
                so_far: facts.input.and_then(|input| input.parse().ok()).unwrap_or(0),
                round: u32::try_from(facts.execution).expect("few executions"),
            };
            RunningCode {
                code: Code::new(execution, calls.clone()),
                calls,
            }
        });
        match drive(runtime, token, running) {
            Ok(DriveOutcome::Waits) => {}
            Ok(DriveOutcome::Ended) => drop(codes.remove(&token)),
            Err(Stop::Refused(error)) => {
                codes.remove(&token);
                match *error {
                    RuntimeError::Nondeterminism(_) => drop(runtime.suspend(token, "somewhere", None)),
                    // Its session has ended.
                    RuntimeError::State(_) => {}
                    error => panic!("a turn was refused: {error}"),
                }
            }
            Err(stop) => panic!("code stops with {stop:?} where it is not asked"),
        }
    }
}

enum DriveOutcome {
    Waits,
    Ended,
}

fn drive(runtime: &Runtime, token: Token, running: &RunningCode) -> Result<DriveOutcome, Stop> {
    let refused = |error| Stop::Refused(Box::new(error));
    let RunningCode { code, calls } = running;
    loop {
        if let Some(end) = code.run()? {
            runtime.finish(token, end).map_err(refused)?;
            return Ok(DriveOutcome::Ended);
        }
        let Some(delivered) = runtime.next(token, code.awaited()).map_err(refused)? else {
            runtime.rest(token, None).map_err(refused)?;
            return Ok(DriveOutcome::Waits);
        };
        calls.time_ms.set(delivered.time_ms);
        code.deliver(delivered.delivery)?;
    }
}

/// The calls of user code, answered by the runtime of a process.
struct OnRuntime {
    runtime: Arc<Runtime>,
    token: Token,
    time_ms: Cell<i64>,
}

impl Calls for OnRuntime {
    fn issue(&self, command: Command) -> Result<EventId, RuntimeError> {
        self.runtime.issue(self.token, command).map(|issued| issued.id)
    }

    fn is_replaying(&self) -> Result<bool, RuntimeError> {
        self.runtime.is_replaying(self.token)
    }

    fn set_polled(&self, mailbox: Mailbox, is_polled: bool) -> Result<(), RuntimeError> {
        self.runtime.set_polled(self.token, mailbox, is_polled)
    }

    fn accept_ask(&self) -> Result<(), RuntimeError> {
        self.time_ms.set(self.runtime.accept_ask(self.token)?);
        Ok(())
    }

    fn refuse_ask(&self, ask: String, error: Payload) -> Result<(), RuntimeError> {
        self.runtime.refuse_ask(self.token, ask, error)
    }

    fn answer_ask(&self, ask: String, answer: Answer) -> Result<(), RuntimeError> {
        self.runtime.answer_ask(self.token, ask, answer)
    }

    fn patched(&self, patch: &str) -> Result<bool, RuntimeError> {
        self.runtime.patched(self.token, patch)
    }

    fn random(&self) -> Result<f64, RuntimeError> {
        self.runtime.random(self.token)
    }

    fn random_uuid(&self) -> Result<String, RuntimeError> {
        self.runtime.random_uuid(self.token)
    }

    fn time_ms(&self) -> i64 {
        self.time_ms.get()
    }

    fn set_status(&self, value: Payload) -> Result<(), RuntimeError> {
        self.runtime.set_custom_status(self.token, value)
    }

    fn change_state(&self, change: &StateChange) -> Result<(), RuntimeError> {
        self.runtime.change_state(self.token, change)
    }

    fn write_stream(&self, stream: &str, entry: &Payload) -> Result<bool, RuntimeError> {
        self.runtime
            .write_stream(self.token, stream, StreamKeep::default(), entry)
    }

    fn trace(&self, line: String) -> Result<(), RuntimeError> {
        self.runtime.log(self.token, Level::Info, line, LineFields::default())
    }
}

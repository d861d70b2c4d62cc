//! Clients, and the requests that they repeat until they are answered.
//!
//! A request whose process dies before it has answered may have been carried out or not. A client looks before it asks
//! again, so that each message is there once. An acknowledged write must never be gone.

use std::sync::Arc;

use perdure_engine::{Mailbox, MessageBody, StartConflict};
use perdure_provider::{AskName, AskState, Clock, StartRule};
use perdure_runtime::{AskRequest, KeyedAnswer, KeyedStartRequest, Reply, RuntimeError, StartRequest, Store, WaitId};

use crate::code::{VERSION, instance_of, mailbox_of, name_of};
use crate::link::ProcessState;
use crate::plan::{LATE_MS, Request};
use crate::process::{Pid, Process};
use crate::program::{Kind, Origin, Program};
use crate::requests::RequestState;
use crate::terms::{BATCH, StartKind, Terms};
use crate::witness::InstanceState;
use crate::world::{Signal, World, WorldEvent};

/// The number of tries after which a client gives up on an instance that does not exist and that no unfinished instance
/// can start.
const TRIES_MAX: u32 = 500;
/// The time after which a client asks again, ms.
const ASKS_AGAIN_MS: u64 = 5_000;

impl World<'_> {
    pub(crate) fn send(&mut self, number: usize) {
        let asked = &self.requests.asked[number];
        if asked.is_over || (asked.via.is_some() && !self.gives_up(number)) {
            return;
        }
        let asked = &self.requests.asked[number];
        // A worker that is asked to start an instance runs its first turn at once, and does not live to store a
        // poisonous one.
        let only_clients =
            matches!(asked.request, Request::Start(program) if self.plan.programs.all[program].kind == Kind::Poison);
        let running: Vec<Pid> = (0..self.processes.len() as Pid)
            .filter(|pid| {
                let process = &self.processes[*pid as usize];
                process.state == ProcessState::Running && (!only_clients || self.plan.slots[process.slot].is_client)
            })
            .collect();
        if running.is_empty() {
            return self.after(100, WorldEvent::Request(number));
        }
        let pid = running[self.rng.usize(..running.len())];
        let asked = &mut self.requests.asked[number];
        asked.via = Some(pid);
        asked.tries += 1;
        let request = asked.request;
        if asked.is_unknown {
            asked.is_unknown = false;
            if self.has_come_to_pass(request) {
                self.requests.asked[number].is_over = true;
                return;
            }
        }
        self.log.say(
            "client",
            format_args!("asks {} for {request:?}", self.processes[pid as usize].name),
        );
        let signals = Arc::clone(&self.signals);
        if let Request::Ask(program, ask) = request {
            return self.ask(pid, number, program, ask);
        }
        let reply: Reply<()> =
            Box::new(move |answer| signals.send(Signal::Answered(pid, number, answer.map(|()| None))));
        self.request(&self.processes[pid as usize].store, request, reply);
    }

    /// Makes a request of a store, which is no ask.
    fn request(&self, store: &Arc<Store>, request: Request, reply: Reply<()>) {
        match request {
            Request::Start(program) => self.ask_for_start(store, program, reply),
            Request::PlannedMessage(feed) if self.starts_its_receiver(feed.to, feed.number) => {
                let payload = Some(feed.number.to_string());
                store.send_with_start(self.start_of(feed.to), mailbox_of(&feed), payload, u64::MAX, reply);
            }
            Request::PlannedMessage(feed) => {
                let mailbox = mailbox_of(&feed);
                store.send(instance_of(feed.to), mail(mailbox, feed.number), None, reply);
            }
            Request::Noise(program, number) => {
                let mailbox = Mailbox::Queue("noise".into());
                store.send(instance_of(program), mail(mailbox, number), None, reply);
            }
            Request::Ask(..) => unreachable!("it has an answer of its own"),
            Request::Cancel(program) => {
                let body = MessageBody::Cancel { reason: None };
                store.send(instance_of(program), body, None, reply);
            }
            Request::Terminate(program) => store.terminate(instance_of(program), None, reply),
            Request::Suspend(program) => store.suspend(instance_of(program), None, reply),
            Request::Resume(program) => store.resume(instance_of(program), reply),
            Request::Limits(limits) => {
                let (queue, settings) = self.plan.limits[limits].clone();
                store.set_queue(self.plan.queues[queue].name.to_owned(), settings, reply);
            }
            Request::Pause(queue, is_paused) => {
                store.pause_queue(self.plan.queues[queue].name.to_owned(), is_paused, reply);
            }
        }
    }

    /// Asks an instance, and asks again after a while if no answer has come.
    fn ask(&mut self, pid: Pid, number: usize, program: usize, ask: i64) {
        let signals = Arc::clone(&self.signals);
        let reply: Reply<AskState> =
            Box::new(move |answer| signals.send(Signal::Answered(pid, number, answer.map(Some))));
        let request = AskRequest {
            name: AskName {
                instance: instance_of(program),
                ask: ask.to_string(),
            },
            payload: Some(ask.to_string()),
            unread_max: u64::MAX,
            start: self.starts_its_receiver(program, ask).then(|| self.start_of(program)),
        };
        let wait = self.wait_of(number);
        let store = &self.processes[pid as usize].store;
        store.ask(wait, request, reply);
        self.after(ASKS_AGAIN_MS, WorldEvent::Request(number));
    }

    /// The wait for the last try of an ask.
    fn wait_of(&self, number: usize) -> WaitId {
        (self.requests.asked[number].tries, number as u64)
    }

    /// Gives up the wait for an answer, to ask again. Returns false for a request that is no ask.
    fn gives_up(&mut self, number: usize) -> bool {
        let RequestState { request, via, .. } = self.requests.asked[number];
        let (Request::Ask(..), Some(pid)) = (request, via) else {
            return false;
        };
        let process = &self.processes[pid as usize];
        // A process that stands still gives up nothing.
        if process.state == ProcessState::Stopped {
            self.after(ASKS_AGAIN_MS, WorldEvent::Request(number));
            return false;
        }
        process.store.abandon(self.wait_of(number));
        self.requests.asked[number].via = None;
        true
    }

    /// Notes the state of an ask. Whoever asks is told the same.
    fn told(&mut self, program: usize, ask: i64, state: AskState) {
        let before = self.requests.told.insert(ask, (program, state.clone()));
        if let Some((_, before)) = before
            && before != state
        {
            self.witness
                .report(format!("S30: ask {ask} was answered {before:?}, and then {state:?}"));
        }
    }

    /// True if a message is sent with the start of its receiver: every second one to a program that a client starts.
    fn starts_its_receiver(&self, program: usize, number: i64) -> bool {
        let Program { origin, kind, .. } = &self.plan.programs.all[program];
        number % 2 == 0 && *origin == Origin::Client && *kind != Kind::Poison
    }

    /// True if a request without an answer was carried out.
    fn has_come_to_pass(&self, request: Request) -> bool {
        match request {
            Request::Start(program) => self.witness.find(&instance_of(program)).is_some(),
            Request::PlannedMessage(feed) => self.witness.has_message(feed.number),
            Request::Noise(_, number) => self.witness.has_message(number),
            // Asking again does no harm.
            Request::Ask(..)
            | Request::Cancel(_)
            | Request::Terminate(_)
            | Request::Suspend(_)
            | Request::Resume(_)
            | Request::Limits(_)
            | Request::Pause(..) => false,
        }
    }

    pub(crate) fn answered(&mut self, pid: Pid, number: usize, answer: Result<Option<AskState>, RuntimeError>) {
        let asked = self.requests.asked.get_mut(number);
        let Some(asked) = asked.filter(|asked| !asked.is_over && asked.via == Some(pid)) else {
            return;
        };
        asked.via = None;
        let (request, tries) = (asked.request, asked.tries);
        self.log
            .say("client", format_args!("is answered on {request:?}: {answer:?}"));
        let asked = &mut self.requests.asked[number];
        match (request, answer) {
            (Request::Ask(program, ask), Ok(Some(state))) => {
                asked.is_over = true;
                self.told(program, ask, state);
            }
            (Request::Start(program), Ok(_)) => {
                asked.is_over = true;
                self.requests.started.insert(program);
                if self.witness.find(&instance_of(program)).is_none() {
                    self.witness.report(format!(
                        "S1: the start of program {program} was acknowledged and is not stored"
                    ));
                }
            }
            (Request::Start(program), Err(RuntimeError::InstanceExists { .. })) => {
                asked.is_over = true;
                if tries == 1 && !self.witness.was_started_by_message(&instance_of(program)) {
                    self.witness
                        .report(format!("S17: program {program} was there before it was started"));
                }
            }
            (Request::PlannedMessage(feed), Ok(_)) => {
                asked.is_over = true;
                self.requests.acknowledged.insert(feed.number);
            }
            (Request::Cancel(program), Ok(_)) => {
                asked.is_over = true;
                let seen = self.witness.find(&instance_of(program));
                if seen.is_some_and(|(_, seen)| seen.state != InstanceState::Ended) {
                    self.requests.cancelled.insert(program, self.right_clock.now_ms());
                }
            }
            (Request::Noise(_, noise), Ok(_)) => {
                asked.is_over = true;
                self.requests.acknowledged.insert(noise);
            }
            (
                _,
                Ok(_)
                | Err(
                    RuntimeError::InstanceEnded { .. }
                    | RuntimeError::NotSuspended { .. }
                    | RuntimeError::NotHeld { .. },
                ),
            ) => {
                asked.is_over = true;
            }
            // An instance that still runs may be the one that starts it.
            (_, Err(RuntimeError::InstanceNotFound { .. }))
                if tries > TRIES_MAX && self.unfinished().next().is_none() =>
            {
                self.requests.asked[number].is_over = true;
            }
            (_, Err(_)) => {
                let wait = self.rng.u64(50..500);
                self.after(wait, WorldEvent::Request(number));
            }
        }
    }

    /// A process is gone. Its requests are sent to another one, once nothing of them can arrive any more.
    pub(crate) fn lost_requests(&mut self, pid: Pid) {
        for number in 0..self.requests.asked.len() {
            let asked = &mut self.requests.asked[number];
            if asked.via == Some(pid) && !asked.is_over {
                (asked.via, asked.is_unknown) = (None, true);
                self.after(LATE_MS, WorldEvent::Request(number));
            }
        }
    }

    fn start_of(&self, program: usize) -> StartRequest {
        let Terms {
            admission, priority, ..
        } = self.plan.programs.all[program].terms.clone();
        StartRequest {
            id: instance_of(program),
            name: name_of(program),
            version: Some(VERSION.into()),
            input: Some("0".into()),
            tags: None,
            priority,
            trace: None,
            conflict: StartConflict::Error,
            admission: admission.map(Box::new),
        }
    }

    /// Starts a program. Of those that are singletons, no two run at once. Those in batches may find that another one
    /// stands for them.
    fn ask_for_start(&self, store: &Arc<Store>, program: usize, reply: Reply<()>) {
        let start = self.start_of(program);
        let (rule, input) = match self.plan.programs.all[program].terms.start {
            StartKind::Plain => return store.start(start, reply),
            StartKind::Singleton => (StartRule::Skip, None),
            StartKind::Batched => (BATCH, Some(("inputs".into(), Some(program.to_string())))),
        };
        let request = KeyedStartRequest {
            start,
            scope: "programs".into(),
            key: rule.name().into(),
            rule,
            input,
        };
        store.start_keyed(request, of_its_own(instance_of(program), reply));
    }

    /// Resumes a suspended instance.
    pub(crate) fn resume(&self, id: &str) {
        if let Some(process) = self.any_running() {
            self.log.say("client", format_args!("resumes {id}"));
            process.store.resume(id.to_owned(), Box::new(|_| {}));
        }
    }

    pub(crate) fn resume_queue(&self, name: &str) {
        if let Some(process) = self.any_running() {
            self.log.say("client", format_args!("resumes queue {name}"));
            process.store.pause_queue(name.to_owned(), false, Box::new(|_| {}));
        }
    }

    fn any_running(&self) -> Option<&Process> {
        let mut processes = self.processes.iter();
        processes.find(|process| process.state == ProcessState::Running && process.is_started)
    }
}

/// Returns the reply to a start under a key. It is sent again as long as another instance stands for it.
fn of_its_own(id: String, reply: Reply<()>) -> Reply<KeyedAnswer> {
    Box::new(move |answer| {
        reply(match answer {
            Ok(KeyedAnswer::Joined(other)) if other != id => {
                Err(RuntimeError::Argument(format!("{other} stands for it")))
            }
            answer => answer.map(drop),
        });
    })
}

fn mail(mailbox: Mailbox, number: i64) -> MessageBody {
    MessageBody::Mail {
        mailbox,
        payload: Some(number.to_string()),
    }
}

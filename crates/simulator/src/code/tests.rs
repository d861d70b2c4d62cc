//! Executions that move between editions of the code.

use perdure_engine::{
    Budget, CommandEvent, Completion, Engine, Event, EventRecord, ExecutionId, ExecutionStarted, Message, MessageBody,
    MessageSeq, Start, StateValues, Step,
};

use super::*;
use crate::checker::OnEngine;
use crate::program::{Guard, Origin};
use crate::terms::Terms;

/// An execution that moves from one edition to the other. Its time stands still.
struct Execution {
    history: Vec<EventRecord>,
    calls: Rc<OnEngine>,
    code: Code,
    end: Option<End>,
}

impl Execution {
    fn new(edition: Edition) -> Self {
        let started = ExecutionStarted {
            name: name_of(0),
            version: VERSION.into(),
            input: Some("0".into()),
            seed: 1,
            incarnation: None,
            parent: None,
            custom_status: None,
            state: StateValues::new(),
            closed_streams: Default::default(),
            time_limit: None,
            trace: None,
        };
        Self::with(edition, vec![EventRecord::new(EventId::FIRST, 0, started)])
    }

    fn with(edition: Edition, history: Vec<EventRecord>) -> Self {
        let start = Start {
            execution: ExecutionId::FIRST,
            history: history.clone(),
            complete: true,
            fresh: history.len() == 1,
            budget: Budget::default(),
        };
        let calls = Rc::new(OnEngine::new(Engine::new(start).expect("the history can be read")));
        let facts = ExecutionFacts {
            instance: instance_of(0),
            programs: Arc::new(vec![program()]),
            program: 0,
            edition,
            so_far: 0,
            round: 1,
        };
        let code = Code::new(facts, calls.clone());
        let mut execution = Self {
            history,
            calls,
            code,
            end: None,
        };
        execution.run();
        execution
    }

    /// Another process goes on with the execution.
    fn move_to(self, edition: Edition) -> Self {
        Self::with(edition, self.history)
    }

    fn run(&mut self) {
        loop {
            self.end = self.code.run().expect("the code fits the history");
            if let Some(end) = self.end.clone() {
                self.calls.engine.borrow_mut().finish(end).expect("it fits");
                break;
            }
            let step = self.calls.engine.borrow_mut().next(self.code.awaited(), 0);
            let Step::Deliver { delivery, .. } = step.expect("the code fits the history") else {
                break;
            };
            self.code.deliver(delivery).expect("the code fits the history");
        }
        let turn = self.calls.engine.borrow_mut().end_turn();
        self.history.extend(turn.events);
    }

    fn offer(&mut self, completion: Completion) {
        self.calls.engine.borrow_mut().offer(completion);
        self.run();
    }

    fn cancel(&mut self) {
        let body = MessageBody::Cancel { reason: None };
        self.offer(Completion::Message(Message {
            seq: MessageSeq(1),
            body,
        }));
    }

    fn complete(&mut self, tag: u32) {
        let scheduled = self.history[self.place_of(tag).expect("it is scheduled")].event_id;
        let output = Some("1".into());
        self.offer(Completion::ActivityCompleted { scheduled, output });
    }

    fn place_of(&self, tag: u32) -> Option<usize> {
        self.history.iter().position(|event| {
            let Ok(Event::Command(CommandEvent::ActivityScheduled { input, .. })) = event.clone().into_event() else {
                return false;
            };
            input.is_some_and(|input| work_of(&input).tag == tag)
        })
    }

    fn has(&self, tag: u32) -> bool {
        self.place_of(tag).is_some()
    }

    fn is_cancelled(&self) -> bool {
        self.end == Some(End::Cancelled(None))
    }
}

/// Waits for a branch with a guarded block (1, its cleanup 2, its close 3), and has a cleanup of its own (0).
fn program() -> Program {
    let work = |tag| Work { tag, ..Work::default() };
    let guard = Op::Guarded(Box::new(Guard {
        enter: work(1),
        body: Block::default(),
        undo: work(2),
        cleanup: Block::default(),
        close: work(3),
    }));
    Program {
        origin: Origin::Client,
        kind: Kind::Plain,
        rounds: 1,
        body: Arc::new(vec![Op::All(vec![Arc::new(vec![guard])])]),
        cleans_up: true,
        is_free: true,
        is_scoped: true,
        terms: Terms::default(),
    }
}

#[test]
fn execution_cancelled_by_the_old_edition_keeps_the_flat_rules() {
    let mut execution = Execution::new(Edition::Old);
    execution.cancel();
    assert!(execution.has(2) && execution.has(0), "both clean up at once");
    let mut execution = execution.move_to(Edition::New);
    assert_eq!(execution.code.rules(), Some(Rules::Flat));
    execution.complete(0);
    assert!(execution.is_cancelled(), "it ends with its main fiber");
    assert!(execution.move_to(Edition::New).is_cancelled());
}

#[test]
fn execution_cancelled_by_the_new_edition_keeps_the_scoped_rules() {
    let mut execution = Execution::new(Edition::New);
    execution.cancel();
    assert!(execution.has(2) && !execution.has(0), "the branch cleans up first");
    let mut execution = execution.move_to(Edition::Old);
    assert_eq!(execution.code.rules(), Some(Rules::Scoped));
    execution.complete(2);
    let mut execution = execution.move_to(Edition::New);
    execution.complete(3);
    assert!(execution.has(0));
    execution.complete(0);
    assert!(execution.is_cancelled());
    assert!(execution.move_to(Edition::Old).is_cancelled());
}

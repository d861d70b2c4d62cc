//! The requests of clients, and their answers so far.

use std::collections::{BTreeMap, BTreeSet};

use perdure_provider::AskState;

use crate::plan::Request;
use crate::process::Pid;

/// A request that was made.
#[derive(Clone, Debug)]
pub(crate) struct RequestState {
    pub(crate) request: Request,
    pub(crate) via: Option<Pid>,
    pub(crate) tries: u32,
    pub(crate) is_over: bool,
    /// True if a process that was asked died, so that the outcome is unknown.
    pub(crate) is_unknown: bool,
}

/// All requests of the clients.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) asked: Vec<RequestState>,
    /// Numbers of messages that were acknowledged.
    pub(crate) acknowledged: BTreeSet<i64>,
    /// Programs whose cancellation was acknowledged while they had not ended, and when, ms of the store's clock.
    pub(crate) cancelled: BTreeMap<usize, i64>,
    /// Programs whose start was acknowledged.
    pub(crate) started: BTreeSet<usize>,
    /// The states of asks that clients were told, by id, with the program that was asked.
    pub(crate) told: BTreeMap<i64, (usize, AskState)>,
    /// Programs whose cancellation or termination was asked for.
    pub(crate) given_up: BTreeSet<usize>,
}

impl Requests {
    pub(crate) fn add(&mut self, request: Request) -> usize {
        if let Request::Cancel(program) | Request::Terminate(program) = request {
            self.given_up.insert(program);
        }
        self.asked.push(RequestState {
            request,
            via: None,
            tries: 0,
            is_over: false,
            is_unknown: false,
        });
        self.asked.len() - 1
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = Request> {
        self.asked
            .iter()
            .filter(|asked| !asked.is_over)
            .map(|asked| asked.request)
    }
}

//! Batches that are one statement, and no transaction besides: one way to the server and back.
//!
//! - [`held`]: turns of every step, any number of them.
//! - [`turn`]: one such turn, or one that ends its instance.
//! - [`start`]: one start.
//! - [`message`]: one message of a client.
//!
//! What such a statement does not find as it expects it is written in the ordinary way, which says why. When its answer is lost, the store
//! tells what became of it, and nothing is written a second time on a guess: see [`passed`] for turns, and [`marks`](crate::marks) for the others.

mod held;
mod message;
mod passed;
mod start;
mod turn;
mod values;

use perdure_engine::MessageBody;
use perdure_provider::{AfterTurn, Outcome, TurnCommit, Write};

use crate::connection::Connection;
use crate::error::Failure;
use crate::marks::Mark;

pub(crate) use passed::find_passed;

use message::Message;
use start::Start;

/// A batch that is one statement.
pub(crate) enum Alone<'w> {
    /// Turns of as many instances, by their places.
    Turns(Vec<(usize, &'w TurnCommit)>),
    Marked(Marked<'w>),
}

/// What leaves a mark with what it writes.
pub(crate) enum Marked<'w> {
    Start(Start<'w>),
    Message(Message<'w>),
}

impl Marked<'_> {
    /// `None`: nothing is written, and it has to be in the ordinary way. A failure of the connection leaves open whether it is written, which
    /// the mark tells.
    pub(crate) async fn write(&self, connection: &Connection, mark: &Mark) -> Result<Option<Outcome>, Failure> {
        match self {
            Self::Start(start) => start.write(connection, mark).await,
            Self::Message(message) => message.write(connection, mark).await,
        }
    }

    /// What it has come to, when its answer was lost and the mark is there. The number of a message may be that of a later one.
    pub(crate) async fn made(&self, connection: &Connection) -> Result<Outcome, Failure> {
        match self {
            Self::Start(start) => start.made(),
            Self::Message(message) => message.made(connection).await,
        }
    }
}

/// The batch, if it is one.
pub(crate) fn of<'w>(writes: &[&'w Write]) -> Option<Alone<'w>> {
    match writes {
        [Write::Turn(turn)] if turn::fits(turn) => Some(Alone::Turns(vec![(0, &**turn)])),
        [Write::Start(instance)] => Start::of(instance).map(|start| Alone::Marked(Marked::Start(start))),
        // What is suspended ends by a request to cancel, with all that follows from that.
        [Write::Message(message)] if matches!(message.body, MessageBody::Cancel { .. }) => None,
        [Write::Message(message)] => Some(Alone::Marked(Marked::Message(Message(message)))),
        _ => held::of(writes).map(Alone::Turns),
    }
}

/// Write turns. `None`: nothing is written, and it has to be in the ordinary way. A failure of the connection leaves open whether they are written.
pub(crate) async fn write_turns(
    connection: &Connection,
    turns: &[(usize, &TurnCommit)],
) -> Result<Option<Vec<Outcome>>, Failure> {
    match turns {
        [(_, turn)] if turn::fits(turn) => turn::write(connection, turn).await,
        _ => held::write(connection, turns).await.map(Some),
    }
}

/// Whether a turn appends events and does nothing to what else there is of its instance, or to others.
fn only_appends(turn: &TurnCommit) -> bool {
    !turn.events.is_empty() && turn.consumed.is_empty() && turn.heartbeats_over.is_empty() && turn.to_others.is_none()
}

/// Whether it does that, and its worker keeps the instance.
fn only_holds(turn: &TurnCommit) -> bool {
    only_appends(turn) && turn.after == AfterTurn::Hold
}

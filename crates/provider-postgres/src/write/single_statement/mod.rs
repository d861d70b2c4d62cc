//! Batches that are one statement, without a transaction around it: one round trip to the server.
//!
//! - [`hold_turns`]: ordinary turns, any number of them.
//! - [`turn`]: one such turn, or one that ends its instance.
//! - [`wake`]: one turn that wakes its instance.
//! - [`start`]: one start.
//! - [`message`]: one message of a client.
//!
//! If such a statement does not find the rows that it expects, the batch is written in the ordinary way, which tells
//! the reason. When its answer is lost, the store tells its outcome, and nothing is written a second time on a guess:
//! see [`lost_ack`] for turns, and [`marks`](crate::marks) for the others.

mod hold_turns;
mod lost_ack;
mod message;
mod plain_turn;
mod start;
mod turn;
mod values;
mod wake;

use perdure_engine::MessageBody;
use perdure_provider::{Outcome, TurnCommit, Write};

use crate::connection::Connection;
use crate::error::Failure;
use crate::marks::Mark;

pub(crate) use lost_ack::find_committed;

use message::Message;
use start::Start;
use wake::Wake;

/// A batch that is one statement.
pub(crate) enum SingleStatement<'w> {
    /// Turns of different instances, with their places in the batch.
    Turns(Vec<(usize, &'w TurnCommit)>),
    Marked(Marked<'w>),
}

/// A write that leaves a mark together with its rows.
pub(crate) enum Marked<'w> {
    Start(Start<'w>),
    Message(Message<'w>),
    Wake(Wake<'w>),
}

impl Marked<'_> {
    /// Writes the batch. `None`: nothing is written, and the batch has to be written in the ordinary way. After a
    /// failure of the connection the mark tells whether it is written.
    pub(crate) async fn write(&self, connection: &Connection, mark: &Mark) -> Result<Option<Outcome>, Failure> {
        match self {
            Self::Start(start) => start.write(connection, mark).await,
            Self::Message(message) => message.write(connection, mark).await,
            Self::Wake(wake) => wake.write(connection, mark).await,
        }
    }

    /// Returns the outcome of a write whose answer was lost and whose mark is there. The number of a message may be
    /// that of a later one.
    pub(crate) async fn recover_outcome(&self, connection: &Connection) -> Result<Outcome, Failure> {
        match self {
            Self::Start(start) => start.recover_outcome(),
            Self::Message(message) => message.recover_outcome(connection).await,
            Self::Wake(wake) => wake.recover_outcome(connection).await,
        }
    }
}

/// Returns the batch as one statement, if that is possible.
pub(crate) fn of<'w>(writes: &[&'w Write]) -> Option<SingleStatement<'w>> {
    match writes {
        [Write::Turn(turn)] if turn::fits(turn) => Some(SingleStatement::Turns(vec![(0, &**turn)])),
        [Write::Turn(turn)] if turn.wakes => Wake::of(turn).map(|wake| SingleStatement::Marked(Marked::Wake(wake))),
        [Write::Start(instance)] => Start::of(instance).map(|start| SingleStatement::Marked(Marked::Start(start))),
        // A request to cancel ends an instance that cannot run, with all that follows from that, which one statement
        // cannot do.
        [Write::Message(message)] if matches!(message.body, MessageBody::Cancel { .. }) => None,
        [Write::Message(message)] => Some(SingleStatement::Marked(Marked::Message(Message(message)))),
        _ => hold_turns::of(writes).map(SingleStatement::Turns),
    }
}

/// Writes turns. `None`: nothing is written, and the turns have to be written in the ordinary way. A failure of the
/// connection leaves open whether they are written.
pub(crate) async fn write_turns(
    connection: &Connection,
    turns: &[(usize, &TurnCommit)],
) -> Result<Option<Vec<Outcome>>, Failure> {
    match turns {
        [(_, turn)] if turn::fits(turn) => turn::write(connection, turn).await,
        _ => hold_turns::write(connection, turns).await.map(Some),
    }
}

//! Trace lines of orchestrations: they find their instance through the map of turns, and are silent in a replay.

use perdure_scheduler::Class;

use crate::error::RuntimeError;
use crate::instance::Token;
use crate::lane::job::Queued;
use crate::lane::log_record::{Level, LogRecord};
use crate::runtime::Runtime;

impl Runtime {
    /// Write a line to the log, unless the instance is replaying. `fields` is JSON text of an object.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn trace(
        &self,
        token: Token,
        level: Level,
        message: String,
        fields: Option<String>,
    ) -> Result<(), RuntimeError> {
        let turn = self.turn(token)?;
        if turn.with_engine(|engine| engine.is_replaying())? {
            return Ok(());
        }
        let record = LogRecord {
            level,
            message,
            fields,
            internal: false,
        };
        match &mut turn.instance.lock().start {
            // Whether there is such an instance at all is not known yet.
            Some(start) => start.logs.push(record),
            None => self.shared.push(Class::First, Queued::Log(record)),
        }
        Ok(())
    }

    /// Whether the code is being taken through what it did before.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn is_replaying(&self, token: Token) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.is_replaying())
    }
}

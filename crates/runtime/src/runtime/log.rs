//! Log lines of orchestrations. Calls find the instance through the map of turns, and write nothing in a replay.

use perdure_provider::{LogLine, LogPlace};
use perdure_scheduler::Class;

use crate::error::RuntimeError;
use crate::lane::job::Queued;
use crate::log::{Level, LineFields, LogRecord};
use crate::runtime::Runtime;
use crate::state::Token;

impl Runtime {
    /// Writes a line to the log, unless the instance is replaying. The line is also stored with the turn if the runtime
    /// keeps lines of its level.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn log(&self, token: Token, level: Level, message: String, fields: LineFields) -> Result<(), RuntimeError> {
        let turn = self.turn(token)?;
        let (is_replaying, (event, line)) = turn.with_engine(|engine| (engine.is_replaying(), engine.next_line()))?;
        if is_replaying {
            return Ok(());
        }
        let mut core = turn.instance.lock();
        let keep = self.shared.options.keep_logs.as_ref();
        if keep.is_some_and(|keep| level >= keep.level) {
            core.lines.push(LogLine {
                place: LogPlace {
                    execution: turn.instance.execution,
                    event,
                    line,
                },
                time_ms: turn.instances.now_ms(),
                level,
                message: message.clone(),
                fields: fields.own.clone(),
            });
        }
        let record = LogRecord {
            level,
            message,
            fields: fields.joined(),
            internal: false,
            error: None,
        };
        let core = &mut *core;
        match (&mut core.start, &mut core.wake) {
            // The start may still be refused, so there may be no such instance.
            (Some(start), _) => start.logs.push(record),
            // The turn may be fenced off, and then comes again.
            (None, Some(wake)) => wake.logs.push(record),
            (None, None) => self.shared.push(Class::First, Queued::Log(record)),
        }
        Ok(())
    }

    /// Returns true if the code is being replayed.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn is_replaying(&self, token: Token) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.is_replaying())
    }
}

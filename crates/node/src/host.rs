//! The way of the runtime to a thread.

use napi::bindgen_prelude::Function;
use perdure_runtime::Host;

use crate::port::Wake;

/// The thread that created this value.
pub(crate) struct ThisThread {
    wake: Wake,
    /// True if a warning may be written to stderr.
    warns: bool,
}

impl ThisThread {
    pub(crate) fn new(wake: &Function<'_, (), ()>, warns: bool) -> napi::Result<Self> {
        Ok(Self {
            wake: Wake::new(wake)?,
            warns,
        })
    }
}

impl Host for ThisThread {
    fn wake(&self) {
        self.wake.call();
    }

    /// Writes to stderr: the logger lives on the thread that does not answer, perhaps for ever. This is the only line
    /// that does not go through the logger.
    fn held_up(&self, message: &str) {
        if self.warns {
            eprintln!("WARN perdure: {}", one_line(message));
        }
    }
}

/// Returns a message with its control characters as escapes: an id must not look like a line of its own.
fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for character in message.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_stays_one() {
        assert_eq!(one_line("'a\n2026 ERROR\u{1b}[2J'"), r"'a\n2026 ERROR\u{1b}[2J'");
    }
}

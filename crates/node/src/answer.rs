//! The format in which a job or a delivery crosses the boundary: its texts as one string, its numbers in an array that
//! both sides share.
//!
//! A property of an object costs as much as a whole call, and there are several of these for each step.

use std::cell::RefCell;

use napi::bindgen_prelude::Float64Array;
use perdure_runtime::RuntimeError;

/// Size of the array: the kind of the answer, its facts, and the lengths of its texts.
pub(crate) const NUMBERS: usize = 15;

/// Index of the kind of the answer, as `js/binding/binding.ts` numbers the kinds.
pub(crate) const KIND: usize = 0;
/// Index of the first of its other facts.
pub(crate) const FACTS: usize = 1;
/// Index of the first length of its texts, in UTF-16 units; -1: there is no text.
pub(crate) const LENGTHS: usize = 8;

/// The longest string that V8 makes, in UTF-16 units: `buffer.constants.MAX_STRING_LENGTH` of a 64-bit process.
pub(crate) const STRING_UNITS_MAX: usize = (1 << 29) - 24;

/// The shared array. JavaScript reads it before it calls again.
pub(crate) struct Numbers(RefCell<Float64Array>);

impl Numbers {
    /// `None` when the array is too short.
    pub(crate) fn new(array: Float64Array) -> Option<Self> {
        (array.len() >= NUMBERS).then(|| Self(RefCell::new(array)))
    }

    /// Writes the kind of an answer that has nothing else.
    pub(crate) fn set_kind(&self, kind: u32) {
        let mut array = self.0.borrow_mut();
        // SAFETY: as in `answer`.
        let numbers = unsafe { array.as_mut() };
        numbers[KIND] = f64::from(kind);
    }

    /// Writes the numbers of an answer and returns its texts as one string. `what` names the texts in the error if they
    /// are too long for a string.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::TooLong`]; JavaScript then receives nothing of the answer.
    pub(crate) fn answer<const F: usize, const T: usize>(
        &self,
        kind: u32,
        facts: [f64; F],
        texts: [Option<String>; T],
        what: &'static str,
    ) -> Result<String, RuntimeError> {
        const { assert!(FACTS + F <= LENGTHS && LENGTHS + T <= NUMBERS) };
        let mut array = self.0.borrow_mut();
        // SAFETY: the array belongs to the thread that is here now, which is in no JavaScript meanwhile.
        let numbers = unsafe { array.as_mut() };
        numbers[KIND] = f64::from(kind);
        numbers[FACTS..FACTS + F].copy_from_slice(&facts);
        let mut units = 0;
        for (length, text) in numbers[LENGTHS..].iter_mut().zip(&texts) {
            *length = text.as_deref().map_or(-1.0, |text| {
                let length = utf16_length(text);
                units += length;
                length as f64
            });
        }
        check_length(units, what)?;
        Ok(joined(texts))
    }
}

fn joined<const T: usize>(texts: [Option<String>; T]) -> String {
    let bytes: usize = texts.iter().flatten().map(String::len).sum();
    let mut texts = texts.into_iter().flatten();
    let mut all = texts.next().unwrap_or_default();
    all.reserve_exact(bytes - all.len());
    texts.for_each(|text| all.push_str(&text));
    all
}

/// Returns the text of a reply, unless it is too long for a string.
pub(crate) fn checked(text: String, what: &'static str) -> Result<String, RuntimeError> {
    check_length(utf16_length(&text), what)?;
    Ok(text)
}

fn check_length(characters: usize, what: &'static str) -> Result<(), RuntimeError> {
    let max = STRING_UNITS_MAX;
    if characters > max {
        return Err(RuntimeError::TooLong { what, characters, max });
    }
    Ok(())
}

fn utf16_length(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.encode_utf16().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_measured_as_a_string_is() {
        for (text, units) in [("", 0), ("abc", 3), ("é", 1), ("€", 1), ("😀", 2), ("a😀é", 4)] {
            assert_eq!(utf16_length(text), units, "{text}");
        }
    }

    #[test]
    fn what_is_longer_than_a_string_is_told() {
        assert_eq!(check_length(STRING_UNITS_MAX, "the result"), Ok(()));
        let Err(error) = check_length(STRING_UNITS_MAX + 1, "the result") else {
            panic!("it is too long");
        };
        assert_eq!(error.code(), "PAYLOAD");
        let message = error.to_string();
        assert!(
            message.starts_with("the result is a text of 536870889 characters"),
            "{message}"
        );
        assert!(message.contains("at most 536870888"), "{message}");
    }
}

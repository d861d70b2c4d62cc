//! The form in which commands, jobs and deliveries cross the boundary: their texts as one string, their numbers in an
//! array that both sides share. `js/binding/frame.ts` is the other side.
//!
//! A property of an object costs as much as a whole call, and there are several of these for each step.

use std::array;
use std::cell::RefCell;

use napi::bindgen_prelude::Float64Array;
use perdure_runtime::RuntimeError;

use crate::errors::argument;

/// Size of the array: the kind, the facts, the texts that are there, and the lengths of the texts.
pub(crate) const NUMBERS: usize = 18;

/// Index of the kind, which decides what the facts and texts are.
const KIND: usize = 0;
/// Index of the first fact.
const FACTS: usize = 1;
/// Index of the bits that say which texts are there: bit `n` for text `n`.
const PRESENT: usize = 9;
/// Index of the first length of a text, in UTF-16 units.
const LENGTHS: usize = 10;

/// The longest string that V8 makes, in UTF-16 units: `buffer.constants.MAX_STRING_LENGTH` of a 64-bit process.
pub(crate) const STRING_UNITS_MAX: usize = (1 << 29) - 24;

/// The shared array. Each side reads it before the other writes again.
pub(crate) struct Frame(RefCell<Float64Array>);

impl Frame {
    /// # Errors
    ///
    /// The array is too short.
    pub(crate) fn new(array: Float64Array) -> napi::Result<Self> {
        if array.len() < NUMBERS {
            return Err(argument(format!("a frame has {NUMBERS} numbers, got {}", array.len())));
        }
        Ok(Self(RefCell::new(array)))
    }

    fn with<T>(&self, run: impl FnOnce(&mut [f64]) -> T) -> T {
        let mut array = self.0.borrow_mut();
        // SAFETY: the array belongs to the thread that is here now, which is in no JavaScript meanwhile.
        run(unsafe { array.as_mut() })
    }

    /// Writes the kind of an answer that has nothing else.
    pub(crate) fn set_kind(&self, kind: u32) {
        self.with(|numbers| numbers[KIND] = f64::from(kind));
    }

    /// Writes the numbers of an answer and returns its texts as one string. `what` names the texts in the error if they
    /// are too long for a string.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::TooLong`]; JavaScript then receives nothing of the answer.
    pub(crate) fn write<const F: usize, const T: usize>(
        &self,
        kind: u32,
        facts: [f64; F],
        texts: [Option<String>; T],
        what: &'static str,
    ) -> Result<String, RuntimeError> {
        const { assert!(FACTS + F <= PRESENT && LENGTHS + T <= NUMBERS) };
        let units = self.with(|numbers| {
            numbers[KIND] = f64::from(kind);
            numbers[FACTS..FACTS + F].copy_from_slice(&facts);
            write_lengths(numbers, &texts)
        });
        check_length(units, what)?;
        Ok(joined(texts))
    }

    /// Returns the kind of the command that JavaScript has written.
    pub(crate) fn kind(&self) -> u32 {
        self.with(|numbers| numbers[KIND] as u32)
    }

    /// Returns the facts of the command.
    pub(crate) fn facts<const F: usize>(&self) -> [f64; F] {
        self.with(|numbers| array::from_fn(|n| numbers[FACTS + n]))
    }

    /// Takes the texts of the command apart.
    ///
    /// # Errors
    ///
    /// The lengths are not those of the text.
    pub(crate) fn texts<const T: usize>(&self, text: String) -> napi::Result<[Option<String>; T]> {
        const { assert!(LENGTHS + T <= NUMBERS) };
        let (present, lengths) = self.with(|numbers| {
            let lengths: [usize; T] = array::from_fn(|n| numbers[LENGTHS + n] as usize);
            (numbers[PRESENT] as u32, lengths)
        });
        split(text, present, lengths).ok_or_else(|| argument("a command's texts are not as long as it says"))
    }
}

/// Writes the lengths of texts. Returns their sum.
fn write_lengths(numbers: &mut [f64], texts: &[Option<String>]) -> usize {
    let (mut present, mut units) = (0_u32, 0);
    for (n, text) in texts.iter().enumerate() {
        let length = text.as_deref().map_or(0, utf16_length);
        present |= u32::from(text.is_some()) << n;
        units += length;
        numbers[LENGTHS + n] = length as f64;
    }
    numbers[PRESENT] = f64::from(present);
    units
}

fn joined<const T: usize>(texts: [Option<String>; T]) -> String {
    let bytes: usize = texts.iter().flatten().map(String::len).sum();
    let mut texts = texts.into_iter().flatten();
    let mut all = texts.next().unwrap_or_default();
    all.reserve_exact(bytes - all.len());
    texts.for_each(|text| all.push_str(&text));
    all
}

/// Returns the texts that were joined; `None` if the lengths, in UTF-16 units, are not those of the text.
fn split<const T: usize>(text: String, present: u32, lengths: [usize; T]) -> Option<[Option<String>; T]> {
    let mut texts = [const { None }; T];
    let units: usize = lengths.iter().sum();
    let is_present = |n: usize| present >> n & 1 == 1;
    // A text of one byte for each unit is ASCII.
    if text.len() == units {
        let first = (0..T).find(|n| is_present(*n));
        if let Some(first) = first.filter(|first| lengths[*first] == units) {
            // Most often there is one text, and it need not be copied.
            let rest = (0..T).map(|n| is_present(n).then(String::new));
            texts.iter_mut().zip(rest).for_each(|(text, empty)| *text = empty);
            texts[first] = Some(text);
            return Some(texts);
        }
        let mut from = 0;
        for (n, length) in lengths.into_iter().enumerate() {
            let part = text.get(from..from + length)?;
            texts[n] = is_present(n).then(|| part.to_owned());
            from += length;
        }
        return Some(texts);
    }
    let mut characters = Units::of(&text);
    for (n, length) in lengths.into_iter().enumerate() {
        let part = characters.take(length)?;
        texts[n] = is_present(n).then_some(part);
    }
    characters.is_over().then_some(texts)
}

/// The characters of a text, taken by UTF-16 units.
struct Units<'t> {
    characters: std::str::Chars<'t>,
    /// True if only the first half of a surrogate pair was taken.
    is_halved: bool,
}

impl<'t> Units<'t> {
    fn of(text: &'t str) -> Self {
        Self {
            characters: text.chars(),
            is_halved: false,
        }
    }

    /// Takes the characters of the next units; `None` if there are fewer. Two texts that were joined at lone surrogates
    /// have made a pair: each of them then gets a replacement character, as JavaScript's own conversion gives it.
    fn take(&mut self, units: usize) -> Option<String> {
        let mut part = String::new();
        let mut taken = 0;
        while taken < units {
            if std::mem::take(&mut self.is_halved) {
                part.push(char::REPLACEMENT_CHARACTER);
                taken += 1;
                continue;
            }
            let next = self.characters.next()?;
            if taken + next.len_utf16() > units {
                self.is_halved = true;
                part.push(char::REPLACEMENT_CHARACTER);
                taken += 1;
            } else {
                part.push(next);
                taken += next.len_utf16();
            }
        }
        Some(part)
    }

    fn is_over(&self) -> bool {
        !self.is_halved && self.characters.as_str().is_empty()
    }
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
    fn text_is_measured_in_utf16_units() {
        for (text, units) in [("", 0), ("abc", 3), ("é", 1), ("€", 1), ("😀", 2), ("a😀é", 4)] {
            assert_eq!(utf16_length(text), units, "{text}");
        }
    }

    #[test]
    fn text_longer_than_a_string_is_refused() {
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

    #[test]
    fn texts_are_split_as_they_were_joined() {
        let cases: [[Option<&str>; 3]; 8] = [
            [None, None, None],
            [Some("a"), None, None],
            [None, Some("abc"), None],
            [Some(""), None, Some("")],
            [Some("name"), Some("\"input\""), Some("{}")],
            [Some("é"), None, Some("€uro")],
            [Some("😀"), Some(""), Some("a😀")],
            [Some("\u{fffd}"), Some("\u{fffd}"), None],
        ];
        for case in cases {
            let texts = case.map(|text| text.map(str::to_owned));
            let mut numbers = [0.0; NUMBERS];
            write_lengths(&mut numbers, &texts);
            let lengths = array::from_fn(|n| numbers[LENGTHS + n] as usize);
            let parts = split(joined(texts.clone()), numbers[PRESENT] as u32, lengths);
            assert_eq!(parts, Some(texts), "{case:?}");
        }
    }

    #[test]
    fn lone_surrogates_that_met_are_parted() {
        let lone = || Some("\u{fffd}".to_owned());
        assert_eq!(split("😀".to_owned(), 0b11, [1, 1]), Some([lone(), lone()]));
        assert_eq!(
            split("a😀b".to_owned(), 0b11, [2, 2]),
            Some([Some("a\u{fffd}".to_owned()), Some("\u{fffd}b".to_owned())])
        );
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for (text, lengths) in [("abc", [1, 1]), ("abc", [2, 2]), ("é", [1, 1]), ("😀", [1, 0])] {
            assert_eq!(split(text.to_owned(), 0b11, lengths), None, "{text} {lengths:?}");
        }
    }
}

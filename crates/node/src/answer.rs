//! How a job or a delivery crosses the boundary: its texts as one string, its numbers in an array that both sides share.
//!
//! A property of an object costs as much as a whole call, and there are several of these for each step.

use std::cell::RefCell;

use napi::bindgen_prelude::Float64Array;

/// Numbers of an answer: what kind it is, its facts, and the lengths of its texts.
pub(crate) const NUMBERS: usize = 13;

/// The kind of the answer, as `js/binding.ts` numbers them.
pub(crate) const KIND: usize = 0;
/// Its other facts begin here.
pub(crate) const FACTS: usize = 1;
/// The lengths of its texts begin here, in UTF-16 units; -1: there is none.
pub(crate) const LENGTHS: usize = 6;

/// The shared array. JavaScript reads it before it calls again.
pub(crate) struct Numbers(RefCell<Float64Array>);

impl Numbers {
    /// `None` when the array is too short.
    pub(crate) fn new(array: Float64Array) -> Option<Self> {
        (array.len() >= NUMBERS).then(|| Self(RefCell::new(array)))
    }

    /// Write the kind of an answer that is nothing else.
    pub(crate) fn set_kind(&self, kind: u32) {
        let mut array = self.0.borrow_mut();
        // SAFETY: as in `answer`.
        let numbers = unsafe { array.as_mut() };
        numbers[KIND] = f64::from(kind);
    }

    /// Write an answer's numbers and return its texts as one.
    pub(crate) fn answer<const F: usize, const T: usize>(
        &self,
        kind: u32,
        facts: [f64; F],
        texts: [Option<String>; T],
    ) -> String {
        const { assert!(FACTS + F <= LENGTHS && LENGTHS + T <= NUMBERS) };
        let mut array = self.0.borrow_mut();
        // SAFETY: the array belongs to the thread that is here now, which is in no JavaScript meanwhile.
        let numbers = unsafe { array.as_mut() };
        numbers[KIND] = f64::from(kind);
        numbers[FACTS..FACTS + F].copy_from_slice(&facts);
        for (length, text) in numbers[LENGTHS..].iter_mut().zip(&texts) {
            *length = text.as_deref().map_or(-1.0, utf16_length);
        }
        joined(texts)
    }
}

fn joined<const T: usize>(texts: [Option<String>; T]) -> String {
    texts
        .into_iter()
        .flatten()
        .reduce(|mut all, text| {
            all.push_str(&text);
            all
        })
        .unwrap_or_default()
}

fn utf16_length(text: &str) -> f64 {
    let units = if text.is_ascii() {
        text.len()
    } else {
        text.encode_utf16().count()
    };
    units as f64
}

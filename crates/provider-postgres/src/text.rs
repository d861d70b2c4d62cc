//! Texts as Postgres stores them. Its `text` holds every character but NUL.
//!
//! NUL is stored as U+0001 and `0`, and U+0001 itself as U+0001 and `1`. JSON writes both as escapes, so that plain
//! JSON is stored as it is.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';

/// Returns the text in a form that Postgres takes.
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte <= ESCAPE as u8) {
        return text.into();
    }
    let mut kept = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => kept.extend([ESCAPE, '0']),
            ESCAPE => kept.extend([ESCAPE, '1']),
            other => kept.push(other),
        }
    }
    kept.into()
}

/// Like [`encode`], for a text that may be owned.
pub(crate) fn encode_cow(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => encode(text),
        Cow::Owned(text) => Cow::Owned(encode(&text).into_owned()),
    }
}

/// Returns the text that was [encoded](encode).
pub(crate) fn decode(kept: String) -> String {
    if !kept.contains(ESCAPE) {
        return kept;
    }
    let mut text = String::with_capacity(kept.len());
    let mut characters = kept.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            ESCAPE if characters.next() == Some('0') => '\0',
            other => other,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_none_holds_nul() {
        for text in [
            "",
            "a",
            "\0",
            "\u{1}",
            "\u{1}0",
            "\0\u{1}1\0",
            "{\"a\":\"\\u0000\"}",
            "\u{1}\u{1}\0 é \u{10FFFF}",
        ] {
            let kept = encode(text);
            assert!(!kept.contains('\0'), "{kept:?}");
            assert_eq!(decode(kept.into_owned()), text);
        }
    }

    #[test]
    fn json_is_kept_as_it_is() {
        assert!(matches!(encode("{\"nul\":\"\\u0000\\u0001\"}"), Cow::Borrowed(_)));
    }
}

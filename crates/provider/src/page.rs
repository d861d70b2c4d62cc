//! Bounds of the data that is read at once.

use perdure_engine::Message;

/// Bounds of a page. A page takes no more rows once it has `rows` of them, or once the values in them have `bytes`
/// bytes. One row always passes, and a page exceeds its bytes by one row at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// Number of rows: at least 1.
    pub rows: usize,
    /// Number of bytes of the values in them: at least 1.
    pub bytes: usize,
}

impl PageLimit {
    /// Limits a page to a number of rows, however large they are.
    #[must_use]
    pub const fn rows(rows: usize) -> Self {
        Self {
            rows,
            bytes: usize::MAX,
        }
    }

    /// Cuts messages, which are in order, to one page. Returns true if messages were cut off.
    pub fn cut(&self, messages: &mut Vec<Message>) -> bool {
        let mut bytes = 0;
        let fits = |(rows, message): (usize, &Message)| {
            let fits = !self.is_reached(rows, bytes);
            bytes += message.body.bytes();
            fits
        };
        let kept = messages.iter().enumerate().map(fits).take_while(|fits| *fits).count();
        let is_cut = kept < messages.len();
        messages.truncate(kept);
        is_cut
    }

    /// Returns true if a page of so many rows and bytes takes no more: other rows may follow.
    #[must_use]
    pub const fn is_reached(&self, rows: usize, bytes: usize) -> bool {
        rows >= self.rows || bytes >= self.bytes
    }
}

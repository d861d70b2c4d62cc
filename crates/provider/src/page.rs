//! How much is read at once.

use perdure_engine::Message;

/// Bounds of a page. It takes no more rows once it has so many, nor once the values in them have so many bytes: one row always passes, and a page
/// exceeds its bytes by one row at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// Rows: at least 1.
    pub rows: usize,
    /// Bytes of the values in them: at least 1.
    pub bytes: usize,
}

impl PageLimit {
    /// So many rows, however large they are.
    #[must_use]
    pub const fn rows(rows: usize) -> Self {
        Self {
            rows,
            bytes: usize::MAX,
        }
    }

    /// Cut what goes beyond the page off messages, which are in order. `true`: something did.
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

    /// Whether a page of so many rows and bytes takes no more: others may follow.
    #[must_use]
    pub const fn is_reached(&self, rows: usize, bytes: usize) -> bool {
        rows >= self.rows || bytes >= self.bytes
    }
}

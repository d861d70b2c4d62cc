//! Rows as bytes: columns between unit separators, rows between record separators, so that a mutation of valid rows is
//! most often still rows.

const ROW: char = '\u{1e}';
const COLUMN: char = '\u{1f}';
/// A column that is NULL. A missing column is NULL, too.
const ABSENT: &str = "-";

/// The columns of a row, each taken once and in order.
pub struct Columns<'b>(std::str::Split<'b, char>);

impl<'b> Columns<'b> {
    /// The next column; `None`: it is NULL.
    pub fn text(&mut self) -> Option<&'b str> {
        self.0.next().filter(|column| *column != ABSENT)
    }

    /// The next column as a number; `None`: it is NULL or no number.
    pub fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.text()?.parse().ok()
    }
}

/// The rows of an input.
pub fn read(text: &str) -> impl Iterator<Item = Columns<'_>> {
    text.split(ROW).map(|row| Columns(row.split(COLUMN)))
}

/// Rows as an input.
#[must_use]
pub fn write<R: AsRef<[Option<String>]>>(rows: &[R]) -> Vec<u8> {
    let rows = rows.iter().map(|row| {
        let columns = row.as_ref().iter();
        let columns: Vec<&str> = columns.map(|column| column.as_deref().unwrap_or(ABSENT)).collect();
        columns.join(&COLUMN.to_string())
    });
    rows.collect::<Vec<_>>().join(&ROW.to_string()).into_bytes()
}

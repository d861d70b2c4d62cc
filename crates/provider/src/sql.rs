//! SQL with named parameters, for the stores that speak SQL.
//!
//! A statement is written with `$name` where a parameter stands. A list of names and values beside it gives the
//! numbered placeholders of the store, the columns of an `INSERT` and the parameters, so that no number is counted by
//! hand. The text is made once: [`numbered_sql!`](crate::numbered_sql) keeps it for the life of the process.

use std::fmt::Write;

/// Makes the text of a statement. The parameters are numbered from 1, in the order in which they are added.
pub struct SqlBuilder {
    sign: char,
    sql: String,
    count: usize,
}

impl SqlBuilder {
    /// Begins with a statement that has `$name` for each parameter. A placeholder of the store is `sign` and a number.
    #[must_use]
    pub fn new(sign: char, sql: &str) -> Self {
        Self {
            sign,
            sql: sql.to_owned(),
            count: 0,
        }
    }

    /// Adds a parameter, which may stand in several places.
    ///
    /// # Panics
    ///
    /// If the statement does not use the parameter.
    #[must_use]
    pub fn param(self, name: &str) -> Self {
        self.add(name, false)
    }

    /// Adds parameters. `{columns}` in the statement stands for their names, and `{values}` for their placeholders.
    ///
    /// # Panics
    ///
    /// If the statement uses neither `{values}` nor each of the parameters.
    #[must_use]
    pub fn params(self, names: &[&str]) -> Self {
        let (first, is_row) = (self.count + 1, self.sql.contains("{values}"));
        let mut builder = names.iter().fold(self, |builder, name| builder.add(name, is_row));
        if is_row {
            let values: Vec<String> = (first..=builder.count).map(|n| builder.placeholder(n)).collect();
            builder.sql = builder.sql.replace("{columns}", &names.join(", "));
            builder.sql = builder.sql.replace("{values}", &values.join(", "));
        }
        builder
    }

    /// Adds a parameter for each column of a table that is given as arrays, as Postgres takes them. `{name}` in the
    /// statement stands for the table, under that name, and `{name.columns}` for the names of its columns. A column is
    /// its name and the type of its values.
    #[must_use]
    pub fn arrays(mut self, name: &str, columns: &[(&str, &str)]) -> Self {
        let mut table = "unnest(".to_owned();
        for (n, (_, kind)) in columns.iter().enumerate() {
            self.count += 1;
            let comma = if n == 0 { "" } else { ", " };
            let _ = write!(table, "{comma}{}::{kind}[]", self.placeholder(self.count));
        }
        let names: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
        let _ = write!(table, ") AS {name} ({})", names.join(", "));
        let marker = format!("{{{name}}}");
        assert!(self.sql.contains(&marker), "{marker} is not in: {}", self.sql);
        self.sql = self.sql.replace(&marker, &table);
        self.sql = self.sql.replace(&format!("{{{name}.columns}}"), &names.join(", "));
        self
    }

    /// Returns the text.
    ///
    /// # Panics
    ///
    /// If a named parameter was not added.
    #[must_use]
    pub fn build(self) -> String {
        let is_named = |(at, _): (usize, &str)| self.sql[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic());
        let left = self.sql.match_indices('$').any(is_named);
        assert!(!left, "a parameter has no value: {}", self.sql);
        self.sql
    }

    fn placeholder(&self, number: usize) -> String {
        format!("{}{number}", self.sign)
    }

    fn add(mut self, name: &str, is_optional: bool) -> Self {
        self.count += 1;
        let placeholder = self.placeholder(self.count);
        let (mut numbered, mut rest) = (String::with_capacity(self.sql.len()), self.sql.as_str());
        let mut is_used = false;
        while let Some(at) = rest.find('$') {
            let after = &rest[at + 1..];
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (found, left) = after.split_at(end.unwrap_or(after.len()));
            numbered.push_str(&rest[..at]);
            if found == name {
                numbered.push_str(&placeholder);
                is_used = true;
            } else {
                numbered.push('$');
                numbered.push_str(found);
            }
            rest = left;
        }
        numbered.push_str(rest);
        assert!(is_used || is_optional, "${name} is not in: {}", self.sql);
        self.sql = numbered;
        self
    }
}

/// Returns the text of a statement with numbered placeholders, made once. Takes the sign of a placeholder, the
/// statement and the names of its parameters, in order: see [`SqlBuilder`](crate::SqlBuilder).
#[macro_export]
macro_rules! numbered_sql {
    ($sign:literal, $sql:expr, $($name:ident),* $(,)?) => {{
        static SQL: ::std::sync::LazyLock<String> = ::std::sync::LazyLock::new(|| {
            $crate::SqlBuilder::new($sign, $sql).params(&[$(stringify!($name)),*]).build()
        });
        SQL.as_str()
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_parameters_are_numbered_in_the_order_of_the_list() {
        let sql = numbered_sql!(
            '?',
            "UPDATE t SET a = $a, b = max($a, $ab) WHERE key = $key",
            key,
            a,
            ab
        );
        assert_eq!(sql, "UPDATE t SET a = ?2, b = max(?2, ?3) WHERE key = ?1");
    }

    #[test]
    fn a_row_gives_columns_and_placeholders() {
        let sql = numbered_sql!('$', "INSERT INTO t ({columns}, c) VALUES ({values}, $a)", a, b);
        assert_eq!(sql, "INSERT INTO t (a, b, c) VALUES ($1, $2, $1)");
    }

    #[test]
    fn arrays_are_a_table() {
        let builder = SqlBuilder::new('$', "SELECT a, $now FROM {t}").param("now");
        let sql = builder.arrays("t", &[("a", "bigint"), ("b", "text")]).build();
        assert_eq!(sql, "SELECT a, $1 FROM unnest($2::bigint[], $3::text[]) AS t (a, b)");
    }

    #[test]
    #[should_panic(expected = "a parameter has no value")]
    fn a_parameter_without_a_value_is_found() {
        let _ = SqlBuilder::new('$', "SELECT $a, $b").param("a").build();
    }

    #[test]
    #[should_panic(expected = "$b is not in")]
    fn a_value_without_a_parameter_is_found() {
        let _ = SqlBuilder::new('$', "SELECT $a").params(&["a", "b"]);
    }
}

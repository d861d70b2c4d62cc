//! Statements with named parameters. A list of names and values gives the numbers, and the text is made once.
//!
//! A statement has `$name` for a parameter and `{name}` for a table that is given as arrays, one for each column. See
//! [`SqlBuilder`](perdure_provider::SqlBuilder).

/// Runs a statement by a method of a session or a connection, such as `named!(session.query, "…", { key: P::Int(1) })`.
/// Tables may follow: `, t { key: P::Ints(&keys) }`.
macro_rules! named {
    ($runner:ident.$method:ident, $sql:expr, { $($name:ident: $value:expr),* $(,)? }
        $(, $table:ident { $($column:ident: P::$kind:ident($values:expr)),* $(,)? })* $(,)?) => {
        $runner.$method(
            crate::statement::sql_text!($sql; [$($name)*] $([$table $($column $kind)*])*),
            &[$($value,)* $($(P::$kind($values),)*)*]
        )
    };
}
pub(crate) use named;

/// Returns a statement with its parameters, as a [`Query`](crate::query::Query). Takes the same as [`named!`], and
/// then tables whose columns are the [`columns!`] of a type: `; t: Turns = &turns`.
macro_rules! query {
    ($sql:expr, { $($name:ident: $value:expr),* $(,)? }
        $(, $table:ident { $($column:ident: P::$kind:ident($values:expr)),* $(,)? })*
        $(; $typed:ident: $columns:ident = $rows:expr)* $(;)?) => {{
        let mut params = Vec::new();
        params.extend([$($value,)* $($(P::$kind($values),)*)*]);
        $(params.extend($rows.params());)*
        crate::query::Query {
            sql: crate::statement::sql_text!($sql; [$($name)*] $([$table $($column $kind)*])* $(; $typed $columns)*),
            params,
        }
    }};
}
pub(crate) use query;

/// Returns the text of a statement, made once. Takes the names of the parameters, the tables with the names and kinds
/// of their columns, and the tables with the type that has their columns.
macro_rules! sql_text {
    (
        $sql:expr;
        [$($name:ident)*]
        $([$table:ident $($column:ident $kind:ident)*])*
        $(; $typed:ident $columns:ident)*
    ) => {{
        static SQL: ::std::sync::LazyLock<String> = ::std::sync::LazyLock::new(|| {
            perdure_provider::SqlBuilder::new('$', $sql)
                .params(&[$(stringify!($name)),*])
                $(.arrays(stringify!($table), &[$((stringify!($column), crate::statement::value_type!($kind))),*]))*
                $(.arrays(stringify!($typed), $columns::COLUMNS))*
                .build()
        });
        SQL.as_str()
    }};
}
pub(crate) use sql_text;

/// Returns the text of a statement, made once. Takes the names of its parameters as they are defined by [`params!`].
macro_rules! sql_with {
    ($sql:expr, $($params:ident),+) => {{
        static SQL: ::std::sync::LazyLock<String> = ::std::sync::LazyLock::new(|| {
            perdure_provider::SqlBuilder::new('$', $sql)
                $(.params($params::NAMES))+
                .build()
        });
        SQL.as_str()
    }};
}
pub(crate) use sql_with;

/// Defines the columns of a table that is given as arrays. Each column is a field of the type, with the kind of its
/// [parameter](crate::params::P).
macro_rules! columns {
    ($($column:ident: $kind:ident),* $(,)?) => {
        /// The names of the columns and the types of their values.
        pub(super) const COLUMNS: &'static [(&'static str, &'static str)] =
            &[$((stringify!($column), crate::statement::value_type!($kind))),*];

        /// Returns the columns, in the order of `COLUMNS`.
        pub(super) fn params(&self) -> impl Iterator<Item = P<'_>> {
            [$(P::$kind(&self.$column)),*].into_iter()
        }
    };
}
pub(crate) use columns;

/// Defines the parameters of statements whose texts are made apart from the values, as a type with a field for each.
macro_rules! params {
    ($(#[$doc:meta])* $vis:vis struct $type:ident { $($name:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        $vis struct $type<'a> {
            $($vis $name: P<'a>),*
        }

        impl<'a> $type<'a> {
            $vis const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Returns the values, in the order of `NAMES`.
            $vis fn values(self) -> impl Iterator<Item = P<'a>> {
                [$(self.$name),*].into_iter()
            }
        }
    };
}
pub(crate) use params;

/// Returns the SQL type of the values in an array.
#[rustfmt::skip]
macro_rules! value_type {
    (Ints) => { "bigint" };
    (MaybeInts) => { "bigint" };
    (Bools) => { "boolean" };
    (Names) => { "text" };
    (Texts) => { "text" };
    (MaybeTexts) => { "text" };
}
pub(crate) use value_type;

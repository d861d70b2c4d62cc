//! Parameters of statements. Each has its type, so that a statement means the same whether it was prepared or not.

use std::borrow::Cow;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum P<'a> {
    Int(i64),
    MaybeInt(Option<i64>),
    Text(&'a str),
    MaybeText(Option<&'a str>),
    Bool(bool),
    Ints(&'a [i64]),
    MaybeInts(&'a [Option<i64>]),
    Bools(&'a [bool]),
    Names(&'a [&'a str]),
    Texts(&'a [Cow<'a, str>]),
    MaybeTexts(&'a [Option<Cow<'a, str>>]),
}

impl P<'_> {
    pub(crate) fn kind(&self) -> Type {
        match self {
            P::Int(_) | P::MaybeInt(_) => Type::INT8,
            P::Text(_) | P::MaybeText(_) => Type::TEXT,
            P::Bool(_) => Type::BOOL,
            P::Ints(_) | P::MaybeInts(_) => Type::INT8_ARRAY,
            P::Bools(_) => Type::BOOL_ARRAY,
            P::Names(_) | P::Texts(_) | P::MaybeTexts(_) => Type::TEXT_ARRAY,
        }
    }
}

impl ToSql for P<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            P::Int(value) => value.to_sql(kind, out),
            P::MaybeInt(value) => value.to_sql(kind, out),
            P::Text(value) => value.to_sql(kind, out),
            P::MaybeText(value) => value.to_sql(kind, out),
            P::Bool(value) => value.to_sql(kind, out),
            P::Ints(values) => values.to_sql(kind, out),
            P::MaybeInts(values) => values.to_sql(kind, out),
            P::Bools(values) => values.to_sql(kind, out),
            P::Names(values) => values.to_sql(kind, out),
            P::Texts(values) => values.to_sql(kind, out),
            P::MaybeTexts(values) => values.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // A statement is prepared with the types of its parameters.
        true
    }

    to_sql_checked!();
}

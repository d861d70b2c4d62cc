//! Statements with named parameters. A list of names and values gives the numbers, and the text is made once.

/// Runs a statement by a method of the session, such as `named!(session.execute, "…", { key: 1 })`. A closure that
/// reads a row may follow.
macro_rules! named {
    ($session:ident.$method:ident, $sql:expr, { $($name:ident: $value:expr),* $(,)? } $(, $read:expr)?) => {
        $session.$method(
            perdure_provider::numbered_sql!('?', $sql, $($name),*),
            rusqlite::params![$($value),*]
            $(, $read)?
        )
    };
}
pub(crate) use named;

/// The fence of a turn (P2): the owner of the instance, its epoch, its execution and the id of its next event. An
/// instance without an owner, which includes every ended or suspended instance, matches no worker.
pub(crate) struct Fence<'t> {
    pub(crate) key: i64,
    pub(crate) owner: &'t str,
    pub(crate) epoch: i64,
    pub(crate) execution: i64,
    /// The id of the first event of the turn.
    pub(crate) first: i64,
}

/// Returns the text of an update of instances that is fenced. Its parameters are those of [`fenced_params!`].
macro_rules! fenced_sql {
    ($update:literal, $($name:ident),* $(,)?) => {
        crate::statement::fenced_sql!($update, "", $($name),*)
    };
    ($update:literal, $returning:literal, $($name:ident),* $(,)?) => {
        perdure_provider::numbered_sql!(
            '?',
            concat!(
                $update,
                " WHERE key = $key AND owner = $owner AND epoch = $epoch AND execution = $execution
                 AND next_event_id = $first ",
                $returning
            ),
            key, owner, epoch, execution, first, $($name),*
        )
    };
}
pub(crate) use fenced_sql;

/// Returns the parameters of a fenced update: the fence, then those of the update.
macro_rules! fenced_params {
    ($fence:expr, $($value:expr),* $(,)?) => {
        rusqlite::params![$fence.key, $fence.owner, $fence.epoch, $fence.execution, $fence.first, $($value),*]
    };
}
pub(crate) use fenced_params;

/// Runs a fenced update, as [`named!`] does.
macro_rules! fenced {
    ($session:ident.$method:ident, $fence:expr, $update:literal $(returning $returning:literal)?,
        { $($name:ident: $value:expr),* $(,)? } $(, $read:expr)?) => {
        $session.$method(
            crate::statement::fenced_sql!($update, $($returning,)? $($name),*),
            crate::statement::fenced_params!($fence, $($value),*)
            $(, $read)?
        )
    };
}
pub(crate) use fenced;

//! Layers: writes of a batch that may be written at once.

use std::collections::HashMap;

use perdure_provider::{Ask, InstanceKey, NewInstance, OnConflict, StartWithMessage, TurnCommit, Write};

use super::outgoing::Outgoing;

/// Writes with their places in the batch. In a layer, turns come first, then starts, messages and the others.
#[derive(Default)]
pub(super) struct Layer<'w> {
    pub(super) turns: Vec<(usize, &'w TurnCommit)>,
    pub(super) starts: Vec<(usize, &'w NewInstance)>,
    pub(super) messages: Vec<(usize, Outgoing<'w>)>,
    /// Asks. Each is also among the messages.
    pub(super) asks: Vec<&'w Ask>,
    /// Messages that start their receivers. Each is also among the starts and among the messages.
    pub(super) starting: Vec<(usize, &'w StartWithMessage)>,
    pub(super) singles: Vec<(usize, &'w Write)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Turn,
    Start,
    StartWithMessage,
    Message,
    Single,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Name<'w> {
    Key(InstanceKey),
    Id(&'w str),
}

/// Cuts a batch into layers. No layer has two writes of one instance whose order would change.
pub(super) fn of<'w>(writes: &[&'w Write]) -> Vec<Layer<'w>> {
    let mut layers = vec![Layer::default()];
    let mut stages: HashMap<Name<'w>, (Stage, Option<u64>)> = HashMap::new();
    let mut was_alone = false;
    for (place, write) in writes.iter().enumerate() {
        let (stage, name, unread_max) = class(write);
        let is_alone = replaces_others(write);
        let mixes = was_alone || is_alone && place > 0;
        was_alone = is_alone;
        let mixes = mixes
            || stages.get(&name).is_some_and(|(before, max_before)| match stage {
                Stage::Turn | Stage::Start => *before >= stage,
                // The waiting messages of an instance are counted against one limit for all messages of a layer.
                Stage::StartWithMessage | Stage::Message => {
                    *before > stage || (*before > Stage::Start && *max_before != unread_max)
                }
                Stage::Single => false,
            });
        if mixes {
            stages.clear();
            layers.push(Layer::default());
        }
        stages.insert(name, (stage, unread_max));
        let layer = layers.last_mut().expect("there is one");
        match (stage, write) {
            (Stage::Turn, Write::Turn(turn)) => layer.turns.push((place, turn)),
            (Stage::Start, Write::Start(instance)) => layer.starts.push((place, instance)),
            (Stage::Message, Write::Message(message)) => layer.messages.push((place, Outgoing::of(message))),
            (Stage::Message, Write::Ask(ask)) => {
                let (message, id) = (&ask.message, Some(&*ask.id));
                layer.messages.push((place, Outgoing { message, ask: id }));
                layer.asks.push(ask);
            }
            (Stage::StartWithMessage, Write::StartWithMessage(both)) => {
                layer.starts.push((place, &both.start));
                layer.messages.push((place, Outgoing::starting(both)));
                layer.starting.push((place, both));
            }
            _ => layer.singles.push((place, write)),
        }
    }
    layers
}

/// Returns true if the turn of a write terminates instances by starting others. The effects of all turns of a layer are
/// carried out together, and one of the turns could be that of such an instance.
fn replaces_others(write: &Write) -> bool {
    let turn = match write {
        Write::Turn(turn) => Some(turn.as_ref()),
        Write::Start(new) => new.first_turn.as_deref(),
        _ => None,
    };
    let effects = turn.and_then(|turn| turn.cross_instance.as_deref());
    let starts = effects.map_or(&[][..], |effects| &effects.starts);
    starts
        .iter()
        .any(|start| start.instance.on_conflict == OnConflict::TerminateAndRestart)
}

fn class(write: &Write) -> (Stage, Name<'_>, Option<u64>) {
    match write {
        Write::Turn(turn) => (Stage::Turn, Name::Key(turn.key), None),
        Write::Start(new) if new.on_conflict == OnConflict::Keep => (Stage::Start, Name::Id(&new.id), None),
        Write::Start(new) => (Stage::Single, Name::Id(&new.id), None),
        Write::KeyedStart(keyed) => (Stage::Single, Name::Id(&keyed.start.id), None),
        Write::Message(message) => (Stage::Message, Name::Id(&message.instance), message.unread_max),
        Write::Ask(ask) => (Stage::Message, Name::Id(&ask.message.instance), ask.message.unread_max),
        Write::StartWithMessage(both) => {
            let StartWithMessage { start, message, .. } = &**both;
            let stage = match start.on_conflict {
                OnConflict::Keep => Stage::StartWithMessage,
                _ => Stage::Single,
            };
            (stage, Name::Id(&start.id), message.unread_max)
        }
        Write::Terminate(end) => (Stage::Single, Name::Id(&end.id), None),
        Write::Resume { id, .. } => (Stage::Single, Name::Id(id), None),
        Write::Suspend(suspension) => (Stage::Single, Name::Id(&suspension.id), None),
        Write::Delete { id } => (Stage::Single, Name::Id(id), None),
        Write::Heartbeat(heartbeat) => (Stage::Single, Name::Key(heartbeat.key), None),
        Write::Append(append) => (Stage::Single, Name::Key(append.key), None),
        Write::Probation(probation) => (Stage::Single, Name::Key(probation.key), None),
        Write::ReleaseInstance(release) => (Stage::Single, Name::Key(release.key), None),
        Write::ReleaseTask(release) => (Stage::Single, Name::Key(release.task.key), None),
        Write::TaskDone(done) => (Stage::Single, Name::Key(done.task.key), None),
    }
}

#[cfg(test)]
mod tests {
    use perdure_engine::MessageBody;
    use perdure_provider::NewMessage;

    use super::*;

    fn message(to: &str, unread_max: Option<u64>) -> Write {
        Write::Message(NewMessage {
            instance: to.into(),
            body: MessageBody::Cancel { reason: None },
            unread_max,
            time_ms: 0,
        })
    }

    fn resume(id: &str) -> Write {
        Write::Resume {
            id: id.into(),
            time_ms: 0,
        }
    }

    fn shape(writes: &[Write]) -> Vec<(usize, usize)> {
        let writes: Vec<&Write> = writes.iter().collect();
        of(&writes)
            .iter()
            .map(|layer| (layer.messages.len(), layer.singles.len()))
            .collect()
    }

    #[test]
    fn writes_to_different_instances_are_one_layer() {
        assert_eq!(
            shape(&[resume("a"), message("b", None), message("c", Some(3)), resume("d")]),
            [(2, 2)]
        );
        assert_eq!(
            shape(&[message("a", None), message("a", None), resume("a"), resume("a")]),
            [(2, 2)]
        );
    }

    #[test]
    fn a_write_that_would_overtake_begins_another_layer() {
        assert_eq!(shape(&[resume("a"), message("a", None)]), [(0, 1), (1, 0)]);
        assert_eq!(shape(&[message("a", Some(1)), message("a", None)]), [(1, 0), (1, 0)]);
    }
}

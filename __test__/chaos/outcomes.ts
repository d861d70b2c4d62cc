// The checks of programs when all is over.

import type { InstanceStatus } from 'perdure';

import type { ClientEntry } from './client-log.ts';
import { PLANNED } from './interpreter.mjs';
import { type Expected, instancesOf, lastStatus, valueOf } from './model.ts';
import type { Action, Root } from './programs.ts';

/** The result of an instance. */
export type Outcome = Pick<InstanceStatus<any>, 'status' | 'output' | 'error' | 'customStatus' | 'executionId'>;

/** Violations of one program, by kind. */
export interface Verdict {
  /** Acknowledgements to a client that turned out untrue (S1). */
  readonly lost: string[];
  /** Instances that have not ended. */
  readonly stuck: { readonly id: string; readonly text: string }[];
  /** Results that differ from the model (S10, S11, S13, S21, S22). */
  readonly wrong: string[];
}

/** The messages that were sent to each mailbox of a program, by `seq attempt`, and whether they were acknowledged. */
type Sent = ReadonlyMap<string, ReadonlyMap<string, { readonly seq: number; readonly isAcknowledged: boolean }>>;

/** Judges a program by the requests of clients and the answers to them. */
export function judge(
  root: Root,
  entries: readonly ClientEntry[],
  outcomeOf: (id: string) => Outcome | undefined,
): Verdict {
  const verdict: Verdict = { lost: [], stuck: [], wrong: [] };
  const acknowledged = (action: ClientEntry['action']) =>
    entries.some((entry) => entry.action === action && entry.phase === 'acknowledged');
  if (!acknowledged('start'))
    verdict.stuck.push({ id: root.id, text: `the start of '${root.id}' was never acknowledged` });
  for (const { action, phase, what } of entries) {
    // An earlier attempt with an unknown outcome may have delivered the message already.
    const isLate = phase === 'refused' && what === 'RUNTIME_STATE' && typeof action === 'number';
    if (phase === 'refused' && !isLate) verdict.wrong.push(`${String(action)} of '${root.id}' was refused: ${what}`);
  }
  for (const expected of instancesOf(root)) {
    const outcome = outcomeOf(expected.id);
    if (outcome === undefined)
      verdict[expected.id === root.id ? 'lost' : 'wrong'].push(`'${expected.id}' is not there`);
    else if (outcome.status === 'Running' || outcome.status === 'Pending')
      verdict.stuck.push({ id: expected.id, text: `'${expected.id}' is ${outcome.status}` });
    else judgeOne(expected, outcome, expected.isDetached ? lettersTo(expected) : sentTo(root, entries), verdict);
  }
  return verdict;
}

function judgeOne(expected: Expected, outcome: Outcome, sent: Sent, verdict: Verdict): void {
  const { id, program } = expected;
  if (outcome.status !== program.ending) {
    // No other cause can end such an instance, so the acknowledgement of the client was wrong.
    const isLost = program.ending === 'Cancelled' || program.ending === 'Terminated';
    verdict[isLost ? 'lost' : 'wrong'].push(
      `'${id}' is ${outcome.status} and not ${program.ending}: ${outcome.error?.message}`,
    );
    return;
  }
  if (program.ending === 'Cancelled' || program.ending === 'Terminated') return;
  const is = (what: string, found: unknown, wanted: unknown) => {
    if (found !== wanted)
      verdict.wrong.push(`${what} of '${id}' is ${JSON.stringify(found)} and not ${JSON.stringify(wanted)}`);
  };
  is('the number of executions', outcome.executionId, program.segments.length);
  is('the custom status', outcome.customStatus, lastStatus(id));
  if (program.ending === 'Failed') return is('the error', outcome.error?.message, PLANNED);
  is('the value', outcome.output.value, valueOf(program));
  judgeMail(id, sent, outcome.output.seen as Record<string, [number, number][]>, verdict);
}

/**
 * S1, S2, S11: in each mailbox, every acknowledged message arrived once and in order. Every other message that was sent
 * arrived at most once. No further message arrived.
 */
function judgeMail(id: string, sent: Sent, seen: Readonly<Record<string, [number, number][]>>, verdict: Verdict): void {
  for (const [name, messages] of sent) {
    const came = (seen[name] ?? []).map((message) => message.join(' '));
    const last = Math.max(...[...messages.values()].map(({ seq }) => seq));
    for (const message of came)
      if (!messages.has(message))
        verdict.wrong.push(`'${id}' was given message ${message} of '${name}', which nobody sent`);
    if (new Set(came).size !== came.length)
      verdict.wrong.push(`'${id}' was given a message of '${name}' twice: ${came.join(', ')}`);
    for (const [message, { seq, isAcknowledged }] of messages) {
      // No message is read after the last one. A second copy of the last one is dropped when the instance ends.
      const isDropped = seq === last && (seen[name] ?? []).some(([other]) => other === last);
      if (!isAcknowledged || came.includes(message) || isDropped) continue;
      verdict.lost.push(`message ${message} of '${name}' to '${id}' was acknowledged and never came`);
    }
    const acknowledged = [...messages].filter(([, { isAcknowledged }]) => isAcknowledged);
    const places = acknowledged.map(([message]) => came.indexOf(message)).filter((place) => place >= 0);
    const isOutOfOrder = places.some((place, i) => i > 0 && place < places[i - 1]!);
    if (isOutOfOrder) verdict.wrong.push(`'${id}' was given messages of '${name}' out of order: ${came.join(', ')}`);
  }
}

function sentTo(root: Root, entries: readonly ClientEntry[]): Sent {
  const sent = new Map<string, Map<string, { seq: number; isAcknowledged: boolean }>>();
  for (const { action, attempt, phase } of entries) {
    const of: Action | undefined = typeof action === 'number' ? root.actions[action] : undefined;
    if (of?.do !== 'send' || phase === 'refused') continue;
    const messages = sent.get(of.name) ?? new Map();
    sent.set(of.name, messages.set(`${of.seq} ${attempt}`, { seq: of.seq, isAcknowledged: phase === 'acknowledged' }));
  }
  return sent;
}

/** Returns the messages that another instance sends. They arrive exactly as they were sent. */
function lettersTo({ program }: Expected): Sent {
  const collects = program.segments.flat().filter((statement) => statement.do === 'collect');
  return new Map(
    collects.map(({ name, count }) => {
      const seqs = Array.from({ length: count }, (_, i) => i + 1);
      return [name, new Map(seqs.map((seq) => [`${seq} 1`, { seq, isAcknowledged: true }]))];
    }),
  );
}

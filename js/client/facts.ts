// The room that one instance takes in the store.

import type { StorePort } from '../store/providers.ts';

/** The return value of {@link Client.facts}: counts of one moment. */
export interface InstanceFacts {
  /** Executions whose histories are stored. */
  readonly executions: number;
  /** Events of all these executions. */
  readonly events: number;
  /** Bytes of the values, names and metadata of these events, as the store keeps them. */
  readonly historyBytes: number;
  /** Events and queue messages that wait for the instance to receive them. */
  readonly unread: {
    /** Number of all of them. */
    readonly messages: number;
    /** The mailboxes that they wait in, the fullest first, at most 100. */
    readonly mailboxes: readonly MailboxFacts[];
  };
}

/** The unread messages of one mailbox of an instance. */
export interface MailboxFacts {
  /** `event` for those of `raiseEvent`, `queue` for those of `enqueueEvent`. */
  readonly kind: 'event' | 'queue';
  /** Name of the event or queue. */
  readonly name: string;
  readonly messages: number;
}

interface FootprintData {
  readonly executions: number;
  readonly events: number;
  readonly historyBytes: number;
  readonly unread: number;
  readonly mailboxes: readonly MailboxFacts[];
}

export async function readFacts(port: StorePort, id: string): Promise<InstanceFacts> {
  const reply = await port.request({ kind: 'footprint', id });
  const { executions, events, historyBytes, unread, mailboxes } = JSON.parse(reply as string) as FootprintData;
  return {
    executions,
    events,
    historyBytes,
    unread: { messages: unread, mailboxes: mailboxes.map(({ kind, name, messages }) => ({ kind, name, messages })) },
  };
}

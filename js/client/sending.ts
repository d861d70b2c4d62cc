// Messages of clients, which may start their receivers.

import type { StoreRequest } from '../binding/store.ts';
import type { TypedMailbox } from '../orchestration/messages.ts';
import { receiverStart, SEND_OPTIONS } from '../orchestration/receiver-start.ts';
import type { SendArguments } from '../orchestration/send-options.ts';
import type { StorePort } from '../store/providers.ts';
import { checkOptions } from '../util/options.ts';
import { Place } from '../values/codec-context.ts';
import { parse } from '../values/schema.ts';
import type { Requests } from './requests.ts';

/** Sends a message to a mailbox of an instance: an event of a name, or a queue. */
export async function send(
  port: StorePort,
  requests: Requests,
  id: string,
  { kind, name, schema }: TypedMailbox,
  [data, options]: SendArguments<unknown>,
): Promise<void> {
  const where = `client.${kind === 'event' ? 'raiseEvent' : 'enqueueEvent'}`;
  const started = receiverStart(checkOptions(options, SEND_OPTIONS, where), where);
  if (schema !== undefined) await parse(schema, data, 'event');
  if (started?.definition?.input !== undefined) await parse(started.definition.input, started.input, 'input');
  const payload = requests.valueText(data, 'event', Place.mail(id, { kind, name }));
  const start = started === undefined ? null : requests.start(id, started.name, started.input, started);
  const { mailboxMessages: unreadMax } = requests.limits;
  const request: StoreRequest = { kind: 'send', id, mailbox: kind, name, unreadMax, start };
  await requests.command(kind === 'event' ? 'raise' : 'enqueue', request, payload, name);
  if (start !== null) port.tellStart(start.request.name, start.request.version);
}

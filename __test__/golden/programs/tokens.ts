import { defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { ended, listener, outcome } from './shared.ts';

/** Tokens as their parent knows them. It prints none of their ids, which are drawn. */
export const tokens: Program = {
  name: 'tokens',
  code: [
    defineOrchestration('tokens', function* (ctx) {
      const open = ctx.token({ data: { question: 'may I?' } });
      const late = free.token({ timeout: '1ms' });
      ctx.state.set('id', open.id);
      const [answer, refusal] = [yield* outcome(open), yield* outcome(late)];
      return [answer, refusal];
    }),
  ],
  instances: { tokens: ended },
  async record(stage) {
    const { client } = stage;
    await stage.start(tokens.code);
    await client.startOrchestration('tokens', 'tokens');
    await stage.recorded('tokens', 'ChildCompleted');
    await client.resolveToken((await client.getState('tokens', 'id'))?.value as string, { by: 'ann' });
    await stage.end('tokens');
  },
};

/** A token itself. */
export const token: Program = {
  name: 'perdure.token',
  code: [listener],
  instances: { 'perdure.token/golden': ended },
  async record(stage) {
    const { client } = stage;
    const id = 'perdure.token/golden';
    const input = { id: 'the id', timeoutMs: 86_400_000, data: { question: 'may I?' } };
    await stage.start(token.code);
    await client.startOrchestration(id, 'perdure.token', input);
    await client.update(id, 'perdure.token', { id: 'another id', outcome: { kind: 'expired' } }).catch(() => undefined);
    await client.update(id, 'perdure.token', { id: 'the id', outcome: { kind: 'resolved', value: [1, new Date(0)] } });
    await stage.end(id);
  },
};

// The schedules that the code of a runtime declares.

import type { Client } from '../client/client.ts';
import { Schedules } from '../client/schedules.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import type { TraceFields } from '../logging/fields.ts';
import type { ScheduleDefinition } from '../schedules/schedule.ts';
import { WORKER_NAME } from './runtime-options.ts';

/** The services of a runtime that its schedules need. */
interface ScheduleHost {
  readonly client: Client;
  log(level: 'warn', message: string, fields: TraceFields): void;
}

export class DeclaredSchedules {
  private readonly host: ScheduleHost;
  /** The name of the workers that declare the same schedules. */
  private readonly workerName: string;
  private readonly declared = new Map<string, ScheduleDefinition>();

  constructor(host: ScheduleHost, workerName: string) {
    this.host = host;
    this.workerName = workerName;
  }

  /** @throws RuntimeStateError when the id is taken */
  add(definition: ScheduleDefinition): void {
    if (this.declared.has(definition.id))
      throw new RuntimeStateError(`schedule '${definition.id}' is already registered`);
    this.declared.set(definition.id, definition);
  }

  /** Creates or changes one in the store. */
  async set({ id, spec }: ScheduleDefinition): Promise<void> {
    await Schedules.declare(this.host.client.schedules, id, { ...spec, declaredBy: this.workerName });
  }

  /** Creates or changes all of them in the store, and pauses those that are declared no longer. */
  async apply(): Promise<void> {
    // Unrelated programs have the default name.
    if (this.declared.size === 0 && this.workerName === WORKER_NAME) return;
    const { schedules } = this.host.client;
    for (const definition of this.declared.values()) await this.set(definition);
    for await (const { id, spec, paused } of schedules.list()) {
      if (spec.declaredBy !== this.workerName || this.declared.has(id) || paused !== undefined) continue;
      await Schedules.remove(schedules, id);
      this.host.log('warn', `schedule '${id}' is declared no longer, and was paused`, { schedule: id });
    }
  }
}

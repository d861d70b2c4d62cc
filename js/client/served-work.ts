// The work that the live workers of a store can run, and a text about work that none of them can.

import { isBuiltIn } from '../orchestration/definition.ts';
import { nearest } from '../util/options.ts';
import { DEFAULT_QUEUE } from '../values/queue.ts';
import type { RegisteredNames, WorkerInfo } from './description.ts';

/** The most versions that a text names. */
const VERSIONS_NAMED = 5;

/** The work that the live workers of a store can run, as they have reported it. */
export class ServedWork {
  /** The names of each live worker. */
  private readonly registered: readonly RegisteredNames[];
  /** False if a live worker does not report its names, or not all of them. Then no work is known to be unserved. */
  private readonly isComplete: boolean;
  /** Number of live workers. */
  readonly workers: number;

  constructor(workers: readonly WorkerInfo[]) {
    const alive = workers.filter(({ isAlive }) => isAlive);
    this.workers = alive.length;
    this.registered = alive.flatMap(({ about }) => about?.registered ?? []);
    this.isComplete = this.registered.length === alive.length && !this.registered.some(({ isCut }) => isCut);
  }

  /**
   * Says that no live worker has registered an orchestration. Returns `undefined` if a worker has, or may have.
   *
   * @param version - `''`: any version
   */
  missingOrchestration(name: string, version: string): string | undefined {
    // Every runtime has the built-in ones, and none reports them.
    if (!this.isComplete || isBuiltIn(name)) return undefined;
    const orchestrations = this.registered.flatMap((names) => names.orchestrations);
    const versions = orchestrations.filter((some) => some.name === name).flatMap((some) => some.versions);
    if (version === '' ? versions.length > 0 : versions.includes(version)) return undefined;
    const what = `no running worker has registered orchestration '${name}'`;
    if (versions.length === 0) return `${what}${versionText(version)}${didYouMean(name, orchestrations.map(nameOf))}`;
    const known = [...new Set(versions)].slice(0, VERSIONS_NAMED).map((some) => `'${some}'`);
    return `${what} version '${version}'; registered: ${known.join(', ')}`;
  }

  /** Says that no live worker runs an activity in a queue. Returns `undefined` if a worker does, or may. */
  missingActivity(queue: string, name: string): string | undefined {
    if (!this.isComplete) return undefined;
    const serving = this.registered.filter(({ queues, anyQueue }) => anyQueue || queues.includes(queue));
    if (serving.length === 0) {
      const queues = this.registered.flatMap((names) => names.queues);
      return `no running worker serves the queue '${queue}' of activity '${name}'${didYouMean(queue, queues)}`;
    }
    const activities = serving.flatMap((names) => names.activities);
    if (activities.includes(name)) return undefined;
    const where = queue === DEFAULT_QUEUE ? '' : ` in the queue '${queue}'`;
    return `no running worker has registered activity '${name}'${where}${didYouMean(name, activities)}`;
  }
}

function nameOf({ name }: { readonly name: string }): string {
  return name;
}

function versionText(version: string): string {
  return version === '' ? '' : ` version '${version}'`;
}

function didYouMean(name: string, known: readonly string[]): string {
  const [near] = nearest(name, new Set(known));
  return near === undefined ? '' : `; did you mean '${near}'?`;
}

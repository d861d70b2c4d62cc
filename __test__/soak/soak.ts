// A soak: a steady mixed load on worker processes, and the resources that these hold from its beginning to its end.

import { rootOf } from '../chaos/programs.ts';
import { eventually, within } from '../support/async.ts';
import { pause } from '../support/worker-parts.mjs';
import { PATIENCE_MS } from './crew.ts';
import { failuresOf } from './flatness.ts';
import { type Gauge, type Gauges, isLeft } from './gauge.ts';
import { Series } from './series.ts';
import { PostgresSite, type Site, SqliteSite } from './site.ts';
import { type Figures, SoakProcess, TROUBLES, type Trouble } from './talk.ts';

export interface SoakOptions {
  readonly provider: 'sqlite' | 'postgres';
  /** Duration of the steady load, which is measured. */
  readonly minutes: number;
  /** Decides the programs. */
  readonly seed: number;
  readonly processes: number;
  /** Worker threads of each process. */
  readonly threads: number;
  /** Programs that begin per second. */
  readonly rate: number;
  /** True if gauges that need minutes to be meaningful are left out. */
  readonly isShort: boolean;
  readonly onStage?: (stage: string) => void;
  /** Returns true if the soak is to end early. */
  readonly isEnough?: () => boolean;
}

/** The values of one gauge at rest: before the steady load and after it. */
export interface Rest {
  readonly of: string;
  readonly gauge: Gauge;
  readonly before: number;
  readonly after: number;
}

export interface SoakReport {
  readonly options: SoakOptions;
  readonly steady: Figures;
  readonly series: readonly Series[];
  readonly rests: readonly Rest[];
  /** The figures of short instances beside each trouble. */
  readonly beside: readonly (readonly [Trouble, Figures])[];
  /** The reasons for which the soak is not flat or not right. */
  readonly failures: readonly string[];
}

/** Duration of the load before anything is measured, and of the load beside each trouble, ms. */
const STAGES_MS = { long: { warmUp: 60_000, beside: 20_000 }, short: { warmUp: 5_000, beside: 0 } };

/** Interval between samples, ms. */
const SAMPLE_MS = { long: 5_000, short: 1_000 };

type Sample = ReadonlyMap<string, Gauges>;

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const site = options.provider === 'sqlite' ? new SqliteSite() : await PostgresSite.create();
  const arena = new Arena(site, options);
  try {
    return await arena.run();
  } finally {
    await arena.remove();
  }
}

/** A store and the processes on it. */
class Arena {
  readonly #site: Site;
  readonly #options: SoakOptions;
  readonly #workers: readonly SoakProcess[];
  readonly #client: SoakProcess;
  readonly #failures: string[] = [];

  constructor(site: Site, options: SoakOptions) {
    const { processes, threads, seed, rate } = options;
    this.#site = site;
    this.#options = options;
    const last = processes - 1;
    this.#workers = Array.from({ length: processes }, (_, place) => {
      // Only one worker serves the second queue.
      const queues = place === last ? ['default', 'far'] : ['default'];
      return SoakProcess.worker({ store: site.address, name: `worker ${place + 1}`, runtime: { threads, queues } });
    });
    this.#client = SoakProcess.client({ store: site.address, seed, rate });
  }

  get #processes(): readonly SoakProcess[] {
    return [...this.#workers, this.#client];
  }

  async run(): Promise<SoakReport> {
    const { isShort, minutes, onStage } = this.#options;
    const { warmUp, beside: besideMs } = STAGES_MS[isShort ? 'short' : 'long'];
    await this.#inTime('the processes start', Promise.all(this.#processes.map((process) => process.said('ready'))));
    onStage?.('warming up');
    await this.#stage(warmUp);
    const before = await this.#rested();
    onStage?.(`steady load, ${minutes} min`);
    const series = new Map<string, Series>();
    const steady = await this.#stage(minutes * 60_000, undefined, series);
    const after = await this.#rested();
    const beside: [Trouble, Figures][] = [];
    for (const trouble of isShort ? [] : TROUBLES) {
      if (this.#isEnough) break;
      onStage?.(`beside ${trouble} ones`);
      beside.push([trouble, await this.#stage(besideMs, trouble)]);
      await this.#rested();
    }
    await this.#end();
    const rests = restsOf(before, after);
    this.#failures.push(...failuresOf([...series.values()], rests, isShort));
    return { options: this.#options, steady, series: [...series.values()], rests, beside, failures: this.#failures };
  }

  get #isEnough(): boolean {
    return this.#options.isEnough?.() ?? false;
  }

  /** Runs load for `ms`, and measures it if `series` is given. */
  async #stage(ms: number, beside?: Trouble, series?: Map<string, Series>): Promise<Figures> {
    this.#client.tell({ do: 'begin', beside });
    const end = performance.now() + ms;
    if (series === undefined) await pause(ms);
    else while (performance.now() < end && !this.#isEnough) await this.#measure(series);
    const figures = await this.#inTime('the load comes to rest', this.#client.rest());
    this.#failures.push(...figures.wrong);
    return figures;
  }

  async #measure(series: Map<string, Series>): Promise<void> {
    await pause(SAMPLE_MS[this.#options.isShort ? 'short' : 'long']);
    for (const [of, gauges] of await this.#sample()) {
      for (const [gauge, value] of entriesOf(gauges)) {
        const key = `${of} ${gauge}`;
        const one = series.get(key) ?? new Series(of, gauge);
        series.set(key, one);
        one.add(performance.now(), value);
      }
    }
  }

  async #sample(): Promise<Sample> {
    const told = this.#processes.map(async (process) => [process.name, await process.gauges()] as const);
    return new Map([
      ...(await this.#inTime('the processes tell', Promise.all(told))),
      ['store', await this.#site.gauges()],
    ]);
  }

  /** Returns a sample at rest, as soon as the processes are at rest. */
  async #rested(): Promise<Sample> {
    let sample = await this.#sample();
    try {
      await eventually(PATIENCE_MS, 'nothing is left in memory or to do', async () => {
        if (leftIn(sample).length > 0) sample = await this.#sample();
        return leftIn(sample).length === 0;
      });
    } catch (error) {
      this.#failures.push(`${(error as Error).message} (${leftIn(sample).join(', ')})`);
    }
    return sample;
  }

  async #end(): Promise<void> {
    for (const process of this.#processes) {
      process.tell({ do: 'shutdown' });
      const { code, signal } = await this.#inTime(`${process.name} shuts down`, process.exited());
      if (code !== 0) this.#failures.push(`${process.name} did not end well (${code ?? signal})`);
      const reported = process.all('reported').filter(({ what }) => !isToBeTold(what, this.#options.seed));
      this.#failures.push(...reported.map(({ what }) => `${process.name} reported: ${what}`));
      if (process.stderr !== '') this.#failures.push(`${process.name} said: ${process.stderr.slice(-2_000)}`);
    }
    // A server notices with a delay that a client has gone.
    await eventually(
      PATIENCE_MS,
      'nothing is left of those who have gone',
      async () => (await this.#site.left()).length === 0,
    );
  }

  #inTime<T>(what: string, promise: Promise<T>): Promise<T> {
    return within(2 * PATIENCE_MS, what, promise);
  }

  async remove(): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.kill()));
    await this.#site.remove();
  }
}

/**
 * True for expected reports: an instance does not fit its history, or a turn was not stored because a client of another
 * process had terminated the instance.
 */
function isToBeTold(what: string, seed: number): boolean {
  const [, program] = /^a turn of instance 'p(\d+)' was not stored/.exec(what) ?? [];
  return (
    what.includes("'poisoned ") || (program !== undefined && rootOf(seed, Number(program)).ending === 'Terminated')
  );
}

function entriesOf(gauges: Gauges): [Gauge, number][] {
  return Object.entries(gauges) as [Gauge, number][];
}

/** Returns the gauges that are more at rest than may be left. */
function leftIn(sample: Sample): string[] {
  return [...sample].flatMap(([of, gauges]) => {
    const left = entriesOf(gauges).filter(([gauge, value]) => isLeft(gauge, value));
    return left.map(([gauge, value]) => `${of}: ${gauge} ${value}`);
  });
}

function restsOf(before: Sample, after: Sample): Rest[] {
  return [...after].flatMap(([of, gauges]) =>
    entriesOf(gauges).map(([gauge, value]) => ({ of, gauge, before: before.get(of)?.[gauge] ?? 0, after: value })),
  );
}

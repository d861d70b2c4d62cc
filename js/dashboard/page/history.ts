// The shown history, as far as it was received, and its instance. Both are updated live.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import type {
  ErrorAnswer,
  EventRow,
  HistoryAnswer,
  InstanceAnswer,
  StateAnswer,
  StreamsAnswer,
  TakeoversAnswer,
  WaitsAnswer,
} from '../answers.ts';
import { Bars } from '../bars.ts';
import { get, listen, RequestError } from './api.ts';
import { queryOf } from './route.ts';

/** Events that the page keeps, and by which the limit grows on request. */
const EVENTS_STEP = 50_000;

export interface WatchedInstance {
  readonly instance: InstanceAnswer | undefined;
  /** What the instance waits for. They may be those of an execution that is not shown. */
  readonly waits: WaitsAnswer | undefined;
  /** The values that the instance publishes. */
  readonly state: StateAnswer['items'];
  /** The streams of the instance. */
  readonly streams: StreamsAnswer;
  /** The deaths of workers, over all executions. */
  readonly takeovers: TakeoversAnswer['items'];
  /** Number of the shown execution. */
  readonly execution: number | undefined;
  /** The events, from 1 on. Always the same array of one execution, which grows. */
  readonly events: readonly EventRow[];
  readonly bars: Bars;
  /** Grows with each change of `events` and `bars`. */
  readonly version: number;
  /** Grows with each change of the instance that the page hears of. */
  readonly changes: number;
  readonly isLive: boolean;
  readonly error: RequestError | undefined;
  /** Raises the limit of kept events. Present when there may be more events. */
  readonly more: (() => void) | undefined;
}

interface LoadedHistory {
  events: EventRow[];
  bars: Bars;
  execution: number | undefined;
}

/** @param execution - without it the current execution, followed by the next one when that begins */
export function useHistory(id: string, execution: number | undefined): WatchedInstance {
  const loaded = useRef<LoadedHistory>({ events: [], bars: new Bars(), execution });
  const [instance, setInstance] = useState<InstanceAnswer>();
  const [waits, setWaits] = useState<WaitsAnswer>();
  const [state, setState] = useState<StateAnswer['items']>([]);
  const [streams, setStreams] = useState<StreamsAnswer>({ items: [], others: 0 });
  const [takeovers, setTakeovers] = useState<TakeoversAnswer['items']>([]);
  const [version, setVersion] = useState(0);
  const [changes, setChanges] = useState(0);
  const [isLive, setLive] = useState(false);
  const [error, setError] = useState<RequestError>();
  const [most, setMost] = useState(EVENTS_STEP);
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    setFull(false);
    const stop = listen(
      () => `live?${queryOf({ id, execution, from: loaded.current.events.length + 1 })}`,
      {
        history: ({ executionId, events }: HistoryAnswer) => {
          if (loaded.current.execution !== executionId)
            loaded.current = { events: [], bars: new Bars(), execution: executionId };
          for (const event of events) {
            // Events that are repeated after a lost connection are skipped.
            if (event.id !== loaded.current.events.length + 1) continue;
            loaded.current.events.push(event);
            loaded.current.bars.add(event);
          }
          setVersion((version) => version + 1);
          if (loaded.current.events.length < most) return;
          setFull(true);
          stop();
        },
        instance: (instance: InstanceAnswer) => {
          setError(undefined);
          setInstance(instance);
          setChanges((changes) => changes + 1);
        },
        waits: setWaits,
        state: ({ items }: StateAnswer) => setState(items),
        streams: setStreams,
        takeovers: ({ items }: TakeoversAnswer) => setTakeovers(items),
        failed: ({ error }: ErrorAnswer) => {
          setError(new RequestError(0, error.code, error.message));
          if (error.code === 'INSTANCE_NOT_FOUND') stop();
        },
        end: () => setLive(false),
      },
      (isLost) => {
        setLive(!isLost);
        // A stream does not say why it was refused, and a plain request does.
        if (isLost) get<InstanceAnswer>(`instance?${queryOf({ id })}`).catch(setError);
      },
    );
    return stop;
  }, [id, execution, most]);
  const more = useCallback(() => setMost((most) => most + EVENTS_STEP), []);
  const { events, bars, execution: shown } = loaded.current;
  const grown = { events, bars, version, changes };
  const is = { instance, waits, state, streams, takeovers, execution: shown, isLive, error };
  return { ...is, ...grown, more: isFull ? more : undefined };
}

// The history that is looked at, as far as it has come, and the instance that it belongs to: both live.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import type { ErrorAnswer, EventRow, HistoryAnswer, InstanceAnswer } from '../answers.ts';
import { Bars } from '../bars.ts';
import { get, listen, Refused } from './api.ts';
import { queryOf } from './route.ts';

/** Events that are kept by a page, unless somebody asks for more of them. */
const EVENTS_STEP = 50_000;

export interface Watched {
  readonly instance: InstanceAnswer | undefined;
  /** Which one is looked at. */
  readonly execution: number | undefined;
  /** The events from 1 on: the same array, which grows. */
  readonly events: readonly EventRow[];
  readonly bars: Bars;
  /** Up with each change of the two. */
  readonly version: number;
  readonly isLive: boolean;
  readonly error: Refused | undefined;
  /** There, when there may be more events than are kept. */
  readonly more: (() => void) | undefined;
}

interface Kept {
  events: EventRow[];
  bars: Bars;
  execution: number | undefined;
}

/** @param execution - without one: the current one, and the next when there is one */
export function useHistory(id: string, execution: number | undefined): Watched {
  const kept = useRef<Kept>({ events: [], bars: new Bars(), execution });
  const [instance, setInstance] = useState<InstanceAnswer>();
  const [version, setVersion] = useState(0);
  const [isLive, setLive] = useState(false);
  const [error, setError] = useState<Refused>();
  const [most, setMost] = useState(EVENTS_STEP);
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    setFull(false);
    const stop = listen(
      () => `live?${queryOf({ id, execution, from: kept.current.events.length + 1 })}`,
      {
        history: ({ executionId, events }: HistoryAnswer) => {
          if (kept.current.execution !== executionId)
            kept.current = { events: [], bars: new Bars(), execution: executionId };
          for (const event of events) {
            // What comes again after a break is known.
            if (event.id !== kept.current.events.length + 1) continue;
            kept.current.events.push(event);
            kept.current.bars.add(event);
          }
          setVersion((version) => version + 1);
          if (kept.current.events.length < most) return;
          setFull(true);
          stop();
        },
        instance: (instance: InstanceAnswer) => {
          setError(undefined);
          setInstance(instance);
        },
        failed: ({ error }: ErrorAnswer) => {
          setError(new Refused(0, error.code, error.message));
          if (error.code === 'INSTANCE_NOT_FOUND') stop();
        },
        end: () => setLive(false),
      },
      (isLost) => {
        setLive(!isLost);
        // A stream does not say why it was refused.
        if (isLost) get<InstanceAnswer>(`instance?${queryOf({ id })}`).catch(setError);
      },
    );
    return stop;
  }, [id, execution, most]);
  const more = useCallback(() => setMost((most) => most + EVENTS_STEP), []);
  const { events, bars, execution: shown } = kept.current;
  return { instance, execution: shown, events, bars, version, isLive, error, more: isFull ? more : undefined };
}

// The samples of the store that the server sends while it is listened to.

import { useEffect, useState } from 'preact/hooks';

import type { ErrorAnswer, PastAnswer, Sample, SampleCounts } from '../answers.ts';
import { listen, RequestError } from './api.ts';

/** Past samples that are kept for the rates. */
const TICKS_MAX = 150;

interface SampleState {
  readonly sample?: Sample;
  readonly ticks: readonly SampleCounts[];
  readonly isLost: boolean;
  readonly error?: RequestError;
}

export function useSamples(): SampleState {
  const [seen, setSeen] = useState<SampleState>({ ticks: [], isLost: false });
  useEffect(
    () =>
      listen(
        () => 'live',
        {
          past: (ticks: PastAnswer) => setSeen(({ error: _, ...was }) => ({ ...was, ticks })),
          sample: (sample: Sample) =>
            setSeen(({ ticks, isLost }) => ({ sample, ticks: [...ticks, sample.tick].slice(-TICKS_MAX), isLost })),
          failed: ({ error }: ErrorAnswer) =>
            setSeen((was) => ({ ...was, error: new RequestError(0, error.code, error.message) })),
        },
        (isLost) => setSeen((was) => ({ ...was, isLost })),
      ),
    [],
  );
  return seen;
}

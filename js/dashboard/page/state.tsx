// The panel of the values that an instance publishes.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { PublishedValue } from '../answers.ts';
import { count } from './format.ts';
import { queryOf } from './route.ts';
import { Value } from './value.tsx';

/** Rows that are shown before the user asks for the others. */
const ROWS_SHOWN = 12;

interface StateProps {
  readonly id: string;
  readonly values: readonly PublishedValue[];
}

/** Shows nothing if no value is published. */
export function State({ id, values }: StateProps): JSX.Element | null {
  const [isUnfolded, setUnfolded] = useState(false);
  if (values.length === 0) return null;
  const shown = isUnfolded ? values : values.slice(0, ROWS_SHOWN);
  return (
    <section class="panel" aria-labelledby="state">
      <h2 id="state">State</h2>
      <ul class="waits published">
        {shown.map((one) => (
          <Row key={one.name} id={id} of={one} />
        ))}
      </ul>
      {shown.length === values.length ? null : (
        <button type="button" class="quiet" onClick={() => setUnfolded(true)}>
          Show {count(values.length - shown.length)} more
        </button>
      )}
    </section>
  );
}

function Row({ id, of: { name, version, value } }: { id: string; of: PublishedValue }): JSX.Element {
  return (
    <li>
      <span class="name">
        <span class="mono">{name}</span> <span class="faint">version {version}</span>
      </span>
      {value === undefined ? (
        <span class="faint">hidden</span>
      ) : (
        // The whole of a long value is that of one version.
        <Value
          key={value.isWhole ? 0 : version}
          label={`Value ${name}`}
          shown={value}
          whole={`value?${queryOf({ id, of: 'state', name })}`}
        />
      )}
    </li>
  );
}

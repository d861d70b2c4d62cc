// One fact in a list of them (`<dl class="facts">`): its name and its value.

import type { ComponentChildren, JSX } from 'preact';

export function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

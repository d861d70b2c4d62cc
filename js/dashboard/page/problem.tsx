// An error in place of content that the server refused.

import type { JSX } from 'preact';

import type { RequestError } from './api.ts';

export function Problem({ error, again }: { error: RequestError; again?: () => void }): JSX.Element {
  return (
    <div class="panel empty" role="alert">
      <p class="problem">{error.message}</p>
      {again === undefined ? null : (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

// The sign-in form, shown when a token is needed and the browser has none.

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { type RequestError, signIn } from './api.ts';

export function SignIn({ onDone }: { onDone(): void }): JSX.Element {
  const [token, setToken] = useState('');
  const [error, setError] = useState<RequestError>();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = (event: Event): void => {
    event.preventDefault();
    signIn(token).then(onDone, setError);
  };
  return (
    <form class="panel sign-in" onSubmit={submit}>
      <h1>Sign in</h1>
      <label for="token">Dashboard token</label>
      <input
        id="token"
        ref={field}
        type="password"
        autocomplete="current-password"
        required
        value={token}
        onInput={(event) => setToken(event.currentTarget.value)}
      />
      <p class="tools">
        <button type="submit" class="main">
          Sign in
        </button>
      </p>
      {error === undefined ? null : (
        <p role="alert" class="problem">
          {error.message}
        </p>
      )}
    </form>
  );
}

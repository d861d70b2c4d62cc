// The frame around every view, and the sign-in.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';

import type { AboutAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { Instance } from './instance.tsx';
import { Instances } from './instances.tsx';
import { Locks } from './locks.tsx';
import { Orchestrations } from './orchestrations.tsx';
import { Overview } from './overview.tsx';
import { Problem } from './problem.tsx';
import { Queues } from './queues.tsx';
import { linkTo, type Route, useRoute } from './route.ts';
import { Schedule } from './schedule.tsx';
import { Schedules } from './schedules.tsx';
import { ServerInfo } from './server-info.ts';
import { SignIn } from './sign-in.tsx';
import { NEXT_THEME, setTheme, theme } from './theme.ts';
import { Tokens } from './tokens.tsx';
import { WorkersPage } from './workers.tsx';

export function App(): JSX.Element {
  const route = useRoute();
  const { answer: about, error, reload } = useAnswer<AboutAnswer>('about');
  const [isSignedOut, setSignedOut] = useState(false);
  useLayoutEffect(() => {
    const signedOut = (): void => setSignedOut(true);
    addEventListener('signedout', signedOut);
    return () => removeEventListener('signedout', signedOut);
  }, []);
  const signedIn = (): void => {
    setSignedOut(false);
    reload();
  };
  useTitle(route);
  return (
    <ServerInfo.Provider value={about}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={linkTo('overview')}>
          Perdure
        </a>
        <nav aria-label="Pages">
          <NavLink page="overview" route={route}>
            Overview
          </NavLink>
          <NavLink page="instances" route={route}>
            Instances
          </NavLink>
          <NavLink page="orchestrations" route={route}>
            Orchestrations
          </NavLink>
          <NavLink page="schedules" route={route}>
            Schedules
          </NavLink>
          <NavLink page="queues" route={route}>
            Queues
          </NavLink>
          <NavLink page="tokens" route={route}>
            Tokens
          </NavLink>
          <NavLink page="locks" route={route}>
            Locks
          </NavLink>
          <NavLink page="workers" route={route}>
            Workers
          </NavLink>
        </nav>
        <span class="store" title={storeText(about)}>
          {storeText(about)}
        </span>
        {about?.readOnly ? <span class="chip">read-only</span> : null}
        <ThemeSwitch />
      </header>
      <main id="main" tabIndex={-1}>
        {isSignedOut ? (
          <SignIn onDone={signedIn} />
        ) : error !== undefined ? (
          <Problem error={error} again={reload} />
        ) : about === undefined ? (
          <p class="empty">Loading…</p>
        ) : (
          <Page route={route} />
        )}
      </main>
    </ServerInfo.Provider>
  );
}

function Page({ route: { page, params } }: { route: Route }): JSX.Element {
  switch (page) {
    case 'overview':
      return <Overview />;
    case 'instances':
      return <Instances params={params} />;
    case 'orchestrations':
      return <Orchestrations />;
    case 'schedules':
      return <Schedules params={params} />;
    case 'schedule':
      return <Schedule key={params.get('id')} id={params.get('id') ?? ''} />;
    case 'queues':
      return <Queues />;
    case 'tokens':
      return <Tokens params={params} />;
    case 'locks':
      return <Locks params={params} />;
    case 'workers':
      return <WorkersPage />;
    case 'instance': {
      const id = params.get('id') ?? '';
      const execution = Number(params.get('execution') ?? 0);
      return <Instance key={`${execution} ${id}`} id={id} execution={execution > 0 ? execution : undefined} />;
    }
    default:
      return page satisfies never;
  }
}

function NavLink({
  page,
  route,
  children,
}: {
  page: Route['page'];
  route: Route;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <a href={linkTo(page)} aria-current={route.page === page ? 'page' : undefined}>
      {children}
    </a>
  );
}

/** Moves the focus by hand: the link's own # would be taken for a route. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function storeText(about: AboutAnswer | undefined): string {
  const { kind, location } = about?.store ?? {};
  return [kind, location].filter((part) => typeof part === 'string').join(' · ');
}

function useTitle({ page, params }: Route): void {
  const isOne = page === 'instance' || page === 'schedule';
  const title = isOne ? (params.get('id') ?? '') : `${page.charAt(0).toUpperCase()}${page.slice(1)}`;
  useEffect(() => {
    document.title = `${title} · Perdure`;
  }, [title]);
}

function ThemeSwitch(): JSX.Element {
  const [is, setIs] = useState(theme());
  const next = (): void => {
    setTheme(NEXT_THEME[is]);
    setIs(NEXT_THEME[is]);
  };
  return (
    <button type="button" class="quiet" onClick={next} aria-label={`Theme: ${is}`}>
      {{ system: '◐', light: '☀', dark: '☾' }[is]}
      <span class="wide"> {is}</span>
    </button>
  );
}

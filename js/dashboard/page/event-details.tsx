// The selected event: its value, and the events that belong to it.

import type { JSX } from 'preact';

import type { EventRow } from '../answers.ts';
import { duration, time, words } from './format.ts';
import { linkTo, queryOf } from './route.ts';
import { Value } from './value.tsx';

/** Most answers that are shown of an event. */
const ANSWERS_MAX = 64;

interface EventDetailsProps {
  readonly event: EventRow;
  readonly events: readonly EventRow[];
  readonly id: string;
  readonly execution: number;
  onSelect(event: number): void;
}

export function EventDetails({ event, events, id, execution, onSelect }: EventDetailsProps): JSX.Element {
  const schedule = event.ref === undefined ? undefined : events[event.ref - 1];
  const answers = events
    .filter(({ ref }) => ref !== undefined && ref === (event.ref ?? event.id))
    .slice(0, ANSWERS_MAX);
  const related = [...(schedule === undefined ? [] : [schedule]), ...answers].filter(({ id }) => id !== event.id);
  return (
    <article class="details" aria-label={`Event ${event.id}`}>
      <h3>
        {words(event.kind)} <span class="faint">#{event.id}</span>
      </h3>
      <Facts event={event} schedule={schedule} />
      {event.value === undefined ? (
        <p class="faint">This event has no value.</p>
      ) : (
        <Value
          label={`Value of event ${event.id}`}
          shown={event.value}
          whole={`value?${queryOf({ id, execution, event: event.id })}`}
          isEager
        />
      )}
      {related.length === 0 ? null : <RelatedEvents events={related} onSelect={onSelect} />}
    </article>
  );
}

interface FactsProps {
  readonly event: EventRow;
  /** The event that began the operation. */
  readonly schedule: EventRow | undefined;
}

function Facts({ event, schedule }: FactsProps): JSX.Element {
  return (
    <dl class="facts">
      {event.name === undefined ? null : (
        <div>
          <dt>Name</dt>
          <dd>{event.name}</dd>
        </div>
      )}
      <div>
        <dt>Recorded</dt>
        <dd>{time(event.atMs)}</dd>
      </div>
      {schedule === undefined ? null : (
        <div>
          <dt>Since scheduled</dt>
          <dd>{duration(event.atMs - schedule.atMs)}</dd>
        </div>
      )}
      {event.fiber === undefined ? null : (
        <div>
          <dt>Fiber</dt>
          <dd>{event.fiber}</dd>
        </div>
      )}
      {event.attempt === undefined ? null : (
        <div>
          <dt>Attempt</dt>
          <dd>{event.attempt}</dd>
        </div>
      )}
      {event.untilMs === undefined ? null : (
        <div>
          <dt>{event.kind === 'TimerCreated' ? 'Due' : 'Retry at'}</dt>
          <dd>{time(event.untilMs)}</dd>
        </div>
      )}
      {event.instance === undefined ? null : (
        <div>
          <dt>Instance</dt>
          <dd>
            <a href={linkTo('instance', { id: event.instance })}>{event.instance}</a>
          </dd>
        </div>
      )}
      {event.note === undefined ? null : (
        <div>
          <dt>Note</dt>
          <dd>{event.note}</dd>
        </div>
      )}
    </dl>
  );
}

interface RelatedEventsProps {
  readonly events: readonly EventRow[];
  onSelect(event: number): void;
}

function RelatedEvents({ events, onSelect }: RelatedEventsProps): JSX.Element {
  return (
    <>
      <h4>Related events</h4>
      <ul class="lines">
        {events.map((one) => (
          <li key={one.id}>
            <button type="button" class="link" onClick={() => onSelect(one.id)}>
              #{one.id} {words(one.kind)}
              {one.attempt === undefined ? '' : `, attempt ${one.attempt}`}
            </button>
            <span class="grow mono">{one.value?.text}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

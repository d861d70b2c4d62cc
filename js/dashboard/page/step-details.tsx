// The details of a step, in place: its facts, its input, its output or error, and its failed attempts.

import type { JSX } from 'preact';

import type { EventRow } from '../answers.ts';
import type { Step } from '../steps.ts';
import { Fact } from './fact.tsx';
import { duration, time } from './format.ts';
import { linkTo, queryOf } from './route.ts';
import type { TimelineContext } from './timeline-view.ts';
import { Value } from './value.tsx';

/** Most failed attempts that are listed, the last ones. */
const ATTEMPTS_MAX = 20;

interface StepDetailsProps {
  readonly step: Step;
  readonly context: TimelineContext;
}

export function StepDetails({ step, context }: StepDetailsProps): JSX.Element {
  const { events } = context;
  const begin = events[step.event - 1];
  const end = step.endEvent === undefined ? undefined : events[step.endEvent - 1];
  const failed = step.bars.filter(({ state, endEvent }) => state === 'failed' && endEvent !== step.endEvent);
  return (
    <div class="step-details" role="group" aria-label={`Details of ${step.name}`}>
      <Facts step={step} context={context} queue={step.kind === 'activity' ? begin?.note : undefined} />
      {failed.slice(-ATTEMPTS_MAX).map(({ attempt, fromMs, toMs, endEvent }) => (
        <details key={endEvent} class="attempt">
          <summary>
            Attempt {attempt} <span class="bad">failed</span> after {duration((toMs ?? fromMs) - fromMs)}:{' '}
            <span class="mono">{firstLine(events[(endEvent ?? 0) - 1])}</span>
          </summary>
          <EventValue event={events[(endEvent ?? 0) - 1]} label={`Error of attempt ${attempt}`} context={context} />
        </details>
      ))}
      <div class="values">
        <EventValue event={begin} label={nameOfBegin(step)} context={context} />
        {end === undefined ? null : <EventValue event={end} label={nameOfEnd(end)} context={context} />}
      </div>
    </div>
  );
}

interface EventValueProps {
  readonly event: EventRow | undefined;
  readonly label: string;
  readonly context: Pick<TimelineContext, 'id' | 'execution'>;
  /** True if the label is not shown as a heading. */
  readonly isBare?: boolean;
}

/** The value of an event, if the event has one. */
export function EventValue({
  event,
  label,
  context: { id, execution },
  isBare = false,
}: EventValueProps): JSX.Element | null {
  if (event?.value === undefined) return null;
  return (
    <Value
      {...(isBare ? {} : { title: label })}
      label={label}
      shown={event.value}
      whole={`value?${queryOf({ id, execution, event: event.id })}`}
      isEager
    />
  );
}

function Facts({
  step: { kind, fiber, event, endEvent, fromMs, toMs, dueMs, attempts, instance, state },
  context: { beginMs, onSelect },
  queue,
}: StepDetailsProps & { queue: string | undefined }): JSX.Element {
  const open = state === 'open';
  return (
    <dl class="facts">
      <Fact name="Began">
        <span title={time(fromMs)}>+{duration(fromMs - beginMs)}</span>
      </Fact>
      {toMs === undefined || open || kind === 'other' ? null : (
        <Fact name={state === 'cancelled' ? 'Cancelled' : 'Ended'}>
          <span title={time(toMs)}>+{duration(toMs - beginMs)}</span>
        </Fact>
      )}
      {dueMs === undefined ? null : <Fact name={kind === 'timer' ? 'Due' : 'Next attempt'}>{time(dueMs)}</Fact>}
      {attempts === 1 ? null : <Fact name="Attempts">{attempts}</Fact>}
      {queue === undefined ? null : <Fact name="Queue">{queue}</Fact>}
      {fiber === 0 ? null : <Fact name="Fiber">{fiber}</Fact>}
      {instance === undefined ? null : (
        <Fact name="Child">
          <a href={linkTo('instance', { id: instance })}>{instance}</a>
        </Fact>
      )}
      <Fact name="Events">
        {[event, endEvent].map((one) =>
          one === undefined ? null : (
            <button key={one} type="button" class="link" onClick={() => onSelect(one)}>
              #{one}
            </button>
          ),
        )}
      </Fact>
    </dl>
  );
}

function firstLine(event: EventRow | undefined): string {
  return event?.value?.text.split('\n', 1)[0] ?? '';
}

function nameOfBegin({ kind }: Step): string {
  return kind === 'wait' || kind === 'other' ? 'Data' : 'Input';
}

function nameOfEnd({ kind }: EventRow): string {
  if (kind.endsWith('Failed') || kind === 'ExecutionCancelled') return 'Error';
  if (kind === 'ExecutionTerminated') return 'Reason';
  return kind === 'ExecutionContinuedAsNew' ? 'Next input' : 'Output';
}

// The state of an instance: a word and a mark, never a colour alone.

import type { JSX } from 'preact';

import type { InstanceState } from '../../client/instance-status.ts';

export const STATES: readonly InstanceState[] = [
  'Pending',
  'Running',
  'Suspended',
  'Completed',
  'Failed',
  'Cancelled',
  'Terminated',
];

export function hasEnded(status: InstanceState): boolean {
  return status !== 'Pending' && status !== 'Running' && status !== 'Suspended';
}

/** @param of - the state of an instance, or the end of an execution that another one follows */
export function Status({ of }: { of: InstanceState | 'ContinuedAsNew' }): JSX.Element {
  return <span class={`status ${of.toLowerCase()}`}>{of === 'ContinuedAsNew' ? 'Continued as new' : of}</span>;
}

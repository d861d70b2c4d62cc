// The behaviours of a start whose id is in use.

/** The names of {@link OnConflict}, in the order of their numbers in the addon. */
export const CONFLICTS = [
  'error',
  'return',
  'restartIfTerminal',
  'returnOrRestart',
  'restartIfFailed',
  'terminateAndRestart',
] as const satisfies OnConflict[];

/**
 * The behaviour of a start whose id is in use. An instance that begins anew has nothing of the former one: history,
 * messages and custom status are deleted in the same commit.
 *
 * | | the instance goes on, or is suspended | it has completed | it failed, or was cancelled or terminated |
 * |---|---|---|---|
 * | `'error'` | `InstanceExistsError` | `InstanceExistsError` | `InstanceExistsError` |
 * | `'return'` | stays as it is | stays as it is | stays as it is |
 * | `'restartIfTerminal'` | `InstanceExistsError` | begins anew | begins anew |
 * | `'returnOrRestart'` | stays as it is | begins anew | begins anew |
 * | `'restartIfFailed'` | stays as it is | stays as it is | begins anew |
 * | `'terminateAndRestart'` | is terminated, and begins anew | begins anew | begins anew |
 */
export type OnConflict =
  | 'error'
  | 'return'
  | 'restartIfTerminal'
  | 'returnOrRestart'
  | 'restartIfFailed'
  | 'terminateAndRestart';

/** The behaviours of the start of a child, which is never another's instance. */
export const CHILD_CONFLICTS = ['error', 'restartIfTerminal', 'terminateAndRestart'] as const satisfies OnConflict[];

/** The queue of activities whose options name none. */
export const DEFAULT_QUEUE = 'default';

// The parts that both versions of DBOS share: its configuration, and the body of a chain.

/** The configuration of DBOS in a place. DBOS logs its launch, and each workflow that runs when it stops: of no use. */
export function configOf({ url, schema }) {
  return {
    name: 'perdure-bench',
    systemDatabaseUrl: url,
    systemDatabaseSchemaName: schema,
    logLevel: 'error',
  };
}

/** The function of a workflow that calls `step` one time after the other. */
export function chainOf(step) {
  return async (steps) => {
    let n = 0;
    for (let done = 0; done < steps; done += 1) n = await step(n);
    return n;
  };
}

export function assertIs(found, output) {
  if (found !== output) throw new Error(`a workflow of DBOS gave ${found} instead of ${output}`);
}

/**
 * Returns the circles of more than two files whose imports lead from each of them to each other one: the strongly
 * connected components of the imports.
 */
export function circlesOf(imports: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const reached = new Map([...imports.keys()].map((file) => [file, reachedFrom(file, imports)]));
  const found = new Map<string, string[]>();
  for (const [file, others] of reached) {
    const circle = [...others].filter((other) => reached.get(other)?.has(file)).sort();
    if (circle.length > 2) found.set(circle.join(), circle);
  }
  return [...found.values()];
}

/** Returns the files that the imports of a file lead to. */
function reachedFrom(file: string, imports: ReadonlyMap<string, ReadonlySet<string>>): Set<string> {
  const found = new Set<string>();
  const open = [file];
  for (let at = open.pop(); at !== undefined; at = open.pop())
    for (const target of imports.get(at) ?? [])
      if (!found.has(target)) {
        found.add(target);
        open.push(target);
      }
  return found;
}

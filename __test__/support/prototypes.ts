import { expect } from 'vitest';

type Properties = ReadonlyMap<string, PropertyDescriptor | undefined>;

const WATCHED = { Object, Array, Function, Map, Set, Promise, RegExp, String, Number, Error, TypeError };

function properties(): Properties {
  return new Map(
    Object.entries(WATCHED).flatMap(([name, { prototype }]) =>
      Reflect.ownKeys(prototype).map(
        (key) => [`${name}.prototype.${String(key)}`, Object.getOwnPropertyDescriptor(prototype, key)] as const,
      ),
    ),
  );
}

/** Records the properties of the prototypes that all values share. The returned function fails if they differ. */
export function watchPrototypes(): () => void {
  const before = properties();
  return () => {
    const after = properties();
    expect([...after.keys()]).toEqual([...before.keys()]);
    for (const [place, found] of after) {
      const was = before.get(place);
      for (const part of ['value', 'get', 'set', 'writable', 'enumerable', 'configurable'] as const) {
        expect(Object.is(found?.[part], was?.[part]), `${place} was changed`).toBe(true);
      }
    }
  };
}

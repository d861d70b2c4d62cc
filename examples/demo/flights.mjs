// The input: flights within the United States in the first days of 2001, and their airports, from the files of the npm
// package `vega-datasets`.

import { readFile } from 'node:fs/promises';

// The package exports functions that fetch the files from the network. The files are also in the package.
const data = new URL('../data/', import.meta.resolve('vega-datasets'));

/** Returns the flights of the first `days` days, each with an id that is the same in every run. */
export async function loadFlights(days) {
  const rows = JSON.parse(await readFile(new URL('flights-10k.json', data), 'utf8'));
  const until = new Date(Date.UTC(2001, 0, 1 + days)).toISOString().slice(0, 10).replaceAll('-', '/');
  return rows
    .filter((row) => row.date < until)
    .map((row, i) => ({ id: `flight-${String(i + 1).padStart(4, '0')}-${row.origin}-${row.destination}`, ...row }));
}

/** Returns the city and position of every airport, by its code. */
export async function loadAirports() {
  const [, ...lines] = (await readFile(new URL('airports.csv', data), 'utf8')).trim().split('\n');
  return new Map(
    lines.map((line) => {
      // iata,name,city,state,country,latitude,longitude. Some names contain a comma, so fields are counted from the
      // end.
      const fields = line.split(',');
      return [fields[0], { city: fields.at(-5), latitude: Number(fields.at(-2)), longitude: Number(fields.at(-1)) }];
    }),
  );
}

/** Returns the miles between two airports along the great circle. */
export function miles(from, to) {
  const radians = Math.PI / 180;
  const north = Math.sin(((to.latitude - from.latitude) * radians) / 2);
  const east = Math.sin(((to.longitude - from.longitude) * radians) / 2);
  const h = north ** 2 + Math.cos(from.latitude * radians) * Math.cos(to.latitude * radians) * east ** 2;
  return Math.round(2 * 3959 * Math.asin(Math.sqrt(h)));
}

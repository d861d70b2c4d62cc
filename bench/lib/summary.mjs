// From the rounds of a workload to its figures.
//
// A workload has one or more figures (by itself, or in `figures`). A round gives for each `{ floor, perdure }` in the
// figure's unit, and may give notes: numbers to show beside it, of which the median is shown.

import { median } from './stats.mjs';

/**
 * @typedef {object} Figure
 * @property {string} name
 * @property {string} unit of `floor` and `perdure`
 * @property {'higher' | 'lower'} better
 * @property {'ratio' | 'perdure'} [of] what `atLeast` and `aim` speak of; default the ratio Perdure to floor
 * @property {number} [atLeast]
 * @property {number} [aim]
 * @property {(medians: Record<string, number>) => string} [note] a line about the medians of the rounds' `notes`
 */

export function summarize(workload, samples) {
  return (workload.figures ?? [workload]).map((figure) => {
    const of = samples.map((sample) => (workload.figures === undefined ? sample : sample[figure.name]));
    const ratios = of.map(({ floor, perdure }) => perdure / floor);
    const result = {
      name: figure.name,
      unit: figure.unit,
      floor: median(of.map(({ floor }) => floor)),
      perdure: median(of.map(({ perdure }) => perdure)),
      ratio: median(ratios),
      least: Math.min(...ratios),
      most: Math.max(...ratios),
      of: figure.of ?? 'ratio',
      better: figure.better,
      atLeast: figure.atLeast,
      aim: figure.aim,
    };
    const notes = figure.note === undefined ? [] : [figure.note(medians(of.map((sample) => sample.notes)))];
    return { ...result, verdict: verdict(result), notes };
  });
}

function verdict(result) {
  const { of, better, atLeast, aim } = result;
  const reached = (goal) => (better === 'higher' ? result[of] >= goal : result[of] <= goal);
  if (aim !== undefined && reached(aim)) return 'aim';
  if (atLeast !== undefined) return reached(atLeast) ? 'ok' : 'below';
  return aim === undefined ? 'reported' : 'misses aim';
}

function medians(notes) {
  return Object.fromEntries(Object.keys(notes[0]).map((key) => [key, median(notes.map((note) => note[key]))]));
}

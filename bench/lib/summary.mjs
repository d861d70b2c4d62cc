// Turns the rounds of a workload on one store into its figures.
//
// A workload has one or more figures (by itself, or in `figures`). A round gives for each figure `{ floor, perdure,
// peer }` in the figure's unit (floor and peer if there are any). It may also give notes: numbers whose medians are
// shown beside the figure.

import { median } from './stats.mjs';

/**
 * @typedef {object} Goals
 * @property {number} [atLeast]
 * @property {number} [atLeastOfPeer] the same for the ratio Perdure to peer
 * @property {number} [aim]
 */

/**
 * @typedef {object} FigureOwn
 * @property {string} name
 * @property {string[]} [stores] where it is measured; default: where its workload is
 * @property {string} unit of `floor`, `perdure` and `peer`
 * @property {'higher' | 'lower'} better
 * @property {'ratio' | 'perdure'} [of] what `atLeast` and `aim` speak of; default the ratio Perdure to floor
 * @property {Record<string, Goals>} [on] goals that hold on one store, by its name
 * @property {(medians: Record<string, number>) => string} [note] a line about the medians of the rounds' `notes`
 *
 * @typedef {FigureOwn & Goals} Figure
 */

export function summarize(workload, store, samples) {
  const figures = (workload.figures ?? [workload]).filter(({ stores }) => stores?.includes(store) ?? true);
  return figures.map((figure) => {
    const of = samples.map((sample) => (workload.figures === undefined ? sample : sample[figure.name]));
    const { atLeast, atLeastOfPeer, aim } = { ...figure, ...figure.on?.[store] };
    const result = {
      name: figure.name,
      store,
      unit: figure.unit,
      floor: medianOf(of.map(({ floor }) => floor)),
      perdure: median(of.map(({ perdure }) => perdure)),
      ...ratios(of.map(({ floor, perdure }) => perdure / floor)),
      of: figure.of ?? 'ratio',
      better: figure.better,
      atLeast,
      aim,
      peer: medianOf(of.map(({ peer }) => peer)),
      ofPeer: ratios(of.map(({ perdure, peer }) => perdure / (peer ?? Number.NaN))),
      atLeastOfPeer,
    };
    const notes = figure.note === undefined ? [] : [figure.note(medians(of.map((sample) => sample.notes)))];
    return { ...result, verdict: verdict(result), notes };
  });
}

/** The ratios of the rounds: median, least and most. `null` without a reference, or if the reference is zero. */
function ratios(values) {
  if (!values.every(Number.isFinite)) return { ratio: null, least: null, most: null };
  return { ratio: median(values), least: Math.min(...values), most: Math.max(...values) };
}

function medianOf(values) {
  return values.some((value) => value === undefined || value === null) ? null : median(values);
}

function verdict(result) {
  const { of, better, atLeast, aim, ofPeer, atLeastOfPeer } = result;
  const reached = (value, goal) => (better === 'higher' ? value >= goal : value <= goal);
  if (atLeastOfPeer !== undefined && ofPeer.ratio !== null && !reached(ofPeer.ratio, atLeastOfPeer)) return 'below';
  if (aim !== undefined && reached(result[of], aim)) return 'aim';
  if (atLeast !== undefined) return reached(result[of], atLeast) ? 'ok' : 'below';
  return aim === undefined ? 'reported' : 'misses aim';
}

function medians(notes) {
  return Object.fromEntries(Object.keys(notes[0]).map((key) => [key, median(notes.map((note) => note[key]))]));
}

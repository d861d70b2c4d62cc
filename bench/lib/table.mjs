// The table, as Markdown, so that it can go into the README as it is.

import { short } from './stats.mjs';

const HEAD = ['workload', 'store', 'floor', 'perdure', 'ratio', 'at least', 'aim', 'verdict'];

/** @param {string | null} peer the peer's name; `null` when none was asked for */
export function table(figures, peer) {
  const head = peer === null ? HEAD : [...HEAD, peer, `perdure to ${peer}`, 'at least'];
  const rows = figures.map((figure) => {
    const { name, store, unit, of, floor, perdure, verdict, ofPeer } = figure;
    const value = (number) => (number === null ? '' : `${short(number)} ${unit}`);
    const goal = (number) => (number === undefined ? '' : of === 'ratio' ? short(number) : `${short(number)} ${unit}`);
    const goals = [goal(figure.atLeast), goal(figure.aim)];
    const cells = [name, store, value(floor), value(perdure), spread(figure), ...goals, verdict];
    if (peer === null) return cells;
    const least = ofPeer.ratio === null || figure.atLeastOfPeer === undefined ? '' : short(figure.atLeastOfPeer);
    return [...cells, value(figure.peer), spread(ofPeer), least];
  });
  const widths = head.map((title, n) => Math.max(title.length, ...rows.map((row) => row[n].length)));
  const line = (cells) => `| ${cells.map((cell, n) => cell.padEnd(widths[n])).join(' | ')} |`;
  return [line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join('\n');
}

function spread({ ratio, least, most }) {
  return ratio === null ? '' : `${short(ratio)} (${short(least)} to ${short(most)})`;
}

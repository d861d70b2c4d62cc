// The table, as Markdown, so that it can go into the README as it is.

import { short } from './stats.mjs';

const HEAD = ['workload', 'floor', 'perdure', 'ratio', 'at least', 'aim', 'verdict'];

export function table(figures) {
  const rows = figures.map((figure) => {
    const { name, unit, floor, perdure, ratio, least, most, verdict } = figure;
    const goal = (value) => (value === undefined ? '' : figure.of === 'ratio' ? short(value) : `${short(value)} ${unit}`);
    return [
      name,
      `${short(floor)} ${unit}`,
      `${short(perdure)} ${unit}`,
      `${short(ratio)} (${short(least)} to ${short(most)})`,
      goal(figure.atLeast),
      goal(figure.aim),
      verdict,
    ];
  });
  const widths = HEAD.map((head, n) => Math.max(head.length, ...rows.map((row) => row[n].length)));
  const line = (cells) => `| ${cells.map((cell, n) => cell.padEnd(widths[n])).join(' | ')} |`;
  return [line(HEAD), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join('\n');
}

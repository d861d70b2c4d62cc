// An agent that answers questions about films. The questions arrive in a mailbox.
//
//   node examples/agent.mjs [--folder .perdure/agent]
//
// Type a question, such as:
//
//   what is the best film by Steven Spielberg?
//   and between 1970 and 1980?
//   how many comedies were made in 1999?
//
// The agent takes one question at a time from its mailbox. For each question it repeats a loop until it can answer:
// decide on the next action, run it, read the result. Kill the program in the middle and start it again: the agent
// answers the open questions, and remembers the conversation. A few rules make the decisions, so that the example needs
// no network and no key. To use a language model, call it in `decide`.

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { ActivityError, Client, defineActivity, defineOrchestration, Runtime, SqliteProvider } from 'perdure';

/** The maximum number of rounds of the loop for one question. */
const ROUNDS_MAX = 6;
/** The number of questions and answers that the agent remembers and shows. */
const MEMORY_MAX = 20;
/** The number of questions after which the agent continues as new. */
const QUESTIONS_MAX = 20;

const { values: options } = parseArgs({ options: { folder: { type: 'string', default: '.perdure/agent' } } });
mkdirSync(options.folder, { recursive: true });

const films = JSON.parse(
  await readFile(new URL('../data/movies.json', import.meta.resolve('vega-datasets')), 'utf8'),
).map((film) => ({
  title: film.Title,
  director: film.Director,
  genre: film['Major Genre'],
  year: new Date(film['Release Date']).getFullYear(),
  rating: film['IMDB Rating'],
}));
const GENRES = [...new Set(films.map(({ genre }) => genre).filter(Boolean))];

// The tools of the agent.

const find = defineActivity('find', async (ctx, { director, genre, from, to }) => {
  const found = films.filter(
    (film) =>
      (director === undefined || film.director?.toLowerCase() === director.toLowerCase()) &&
      (genre === undefined || film.genre === genre) &&
      (from === undefined || (film.year >= from && film.year <= to)),
  );
  const best = found.filter(({ rating }) => rating !== null).sort((a, b) => b.rating - a.rating)[0];
  return { count: found.length, best: best?.title };
});

const lookUp = defineActivity(
  'look-up',
  async (ctx, { title }) => {
    const film = films.find((film) => film.title === title);
    if (film === undefined) throw new Error(`there is no film ${title}`);
    return film;
  },
  { retry: { maxAttempts: 1 } },
);

const TOOLS = { find, 'look-up': lookUp };

/**
 * Returns the next action: `{ tool, input }` or `{ answer }`. `memory` has the earlier questions. `seen` has the
 * results of the tools for this question.
 */
const decide = defineActivity('decide', async (ctx, { question, memory, seen }) => {
  const [found, film] = seen;
  if (found === undefined) {
    const filter = filterOf(question, memory.at(-1)?.filter);
    if (Object.keys(filter).length === 0)
      return { answer: 'I know about films: ask for a director, a genre or a year.' };
    return { tool: 'find', input: filter };
  }
  if (found.error !== undefined) return { answer: `That did not work: ${found.error}` };
  if (/how many/i.test(question)) return { answer: `${found.count} films` };
  if (found.best === undefined) return { answer: 'I know of none.' };
  if (film === undefined) return { tool: 'look-up', input: { title: found.best } };
  return { answer: `${film.title} (${film.year}), rated ${film.rating}` };
});

/** Returns the filter of a question. A question that begins with "and" extends the filter of the question before it. */
function filterOf(question, before = {}) {
  const filter = /^and\b/i.test(question) ? { ...before } : {};
  const director = /\b(?:by|of) ([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)+)/.exec(question)?.[1];
  if (director !== undefined) filter.director = director;
  const genre = GENRES.find((genre) => question.toLowerCase().includes(genre.toLowerCase().replace(/y$/, '')));
  if (genre !== undefined) filter.genre = genre;
  const years = question.match(/\b(19|20)\d\d\b/g)?.map(Number);
  if (years !== undefined) [filter.from, filter.to] = [Math.min(...years), Math.max(...years)];
  return filter;
}

const agent = defineOrchestration('agent', function* (ctx, { memory, answered }) {
  for (let asked = 0; asked < QUESTIONS_MAX; asked += 1) {
    ctx.setCustomStatus({ answered, memory });
    const { id, text: question } = yield* ctx.dequeueEvent('questions');

    const seen = [];
    let filter;
    let answer = 'I have thought about it for too long.';
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const next = yield* ctx.call(decide, { question, memory, seen });
      if (next.answer !== undefined) {
        answer = next.answer;
        break;
      }
      if (next.tool === 'find') filter = next.input;
      try {
        seen.push(yield* ctx.call(TOOLS[next.tool], next.input));
      } catch (error) {
        // A failed tool is an input for the next decision. It does not end the agent.
        if (!(error instanceof ActivityError)) throw error;
        seen.push({ error: error.cause.message });
      }
    }
    answered += 1;
    memory = [...memory, { id, question, filter, answer }].slice(-MEMORY_MAX);
  }
  // The history would grow for ever, so the agent continues with an empty one. Unread questions stay in the mailbox.
  return yield* ctx.continueAsNew({ memory, answered });
});

const provider = await SqliteProvider.open(join(options.folder, 'agent.db'));
const runtime = new Runtime(provider);
runtime.register(find, lookUp, decide, agent);
await runtime.start();

const client = new Client(provider);
const mind = await client.start(agent, { memory: [], answered: 0 }, { id: 'agent', onConflict: 'return' });

/** The id of the last typed question. */
let last;
let isClosed = false;
const showing = showAnswers();
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue;
  last = randomUUID();
  await mind.enqueueEvent('questions', { id: last, text: line.trim() });
}
isClosed = true;
await showing;
await runtime.shutdown();
await provider.close();

/**
 * Prints answers as they arrive, including those to questions of an earlier process, until every question that was
 * typed here is answered.
 */
async function showAnswers() {
  let { customStatusVersion: version, customStatus } = await mind.status();
  let shown = customStatus?.answered ?? 0;
  let memory = [];
  while (!isClosed || (last !== undefined && memory.every(({ id }) => id !== last))) {
    const change = await mind.waitForStatusChange(version, '1s', '250ms');
    if (change === null) continue;
    version = change.customStatusVersion;
    const { answered } = change.customStatus;
    ({ memory } = change.customStatus);
    for (const { question, answer } of memory.slice(Math.max(0, memory.length - (answered - shown)))) {
      console.log(`> ${question}\n${answer}`);
    }
    shown = answered;
  }
}

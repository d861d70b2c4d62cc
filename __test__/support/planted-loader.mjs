// Plants a bug into the built package of a process: `node --import planted-loader.mjs program.mjs`, with the variable
// PERDURE_TEST_PLANTED, the JSON of `{ find, put }`. One text of the package is replaced.

import { register } from 'node:module';

const planted = process.env.PERDURE_TEST_PLANTED;
if (planted !== undefined) register('./planted-hooks.mjs', import.meta.url, { data: JSON.parse(planted) });

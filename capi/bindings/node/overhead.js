// What a small planned call costs here over the C function alone, which overhead.c measures: both in turns, the quicker
// tenth of many short blocks.
//
//   FOVEA_LIB_DIR=FOLDER node overhead.js
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const fovea = require('./index.js');

const runs = 200, blocks = 400;
const folder = process.env.FOVEA_LIB_DIR;
const program = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'fovea-')), 'overhead');
const flags = folder
  ? [`-I${path.join(__dirname, '..', '..', '..', 'include')}`, `-L${folder}`, '-lfovea', `-Wl,-rpath,${folder}`]
  : execFileSync('pkg-config', ['--cflags', '--libs', 'fovea'], { encoding: 'utf8' }).split(/\s+/).filter(Boolean);
execFileSync('cc', ['-std=c99', '-O2', path.join(__dirname, 'overhead.c'), '-o', program, ...flags]);

const context = new fovea.Context({ maxThreads: 1 });
const [q, k] = [fovea.Tensor.shapeOnly([2, 5, 4, 20]), fovea.Tensor.shapeOnly([2, 5, 6, 20])];
const plan = fovea.Plan.sdpa(q, k, k, q, { context });
const query = new Float32Array(800), key = new Float32Array(1200), out = new Float32Array(800);

function quick() {
  const times = [];
  for (let block = 0; block < blocks; ++block) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < runs; ++i) plan.runSync(query, key, key, out);
    times.push(Number(process.hrtime.bigint() - start) / runs);
  }
  return times.sort((a, b) => a - b)[blocks / 10];
}

for (let turn = 0; turn < 3; ++turn) {
  const c = Number(execFileSync(program, { encoding: 'utf8' })), node = Math.round(quick());
  console.log(`C ${c} ns, Node ${node} ns: +${node - c} ns`);
}
fs.rmSync(path.dirname(program), { recursive: true });

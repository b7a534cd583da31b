// Where each word of a sentence looks: one head of a real sentence encoder, drawn with characters.
//
//   node heatmap.js
//
// Runs the layer over two padded sentences and compares with the float64 reference that lies beside the numbers
// (capi/examples/data/README.md). The exit code is 1 if the result is not what it must be.
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const fovea = require('./index.js');

const folder = process.env.FOVEA_EXAMPLE_DATA || path.join(__dirname, '..', '..', 'examples', 'data');

// Elements and shape of a .npy file of format 1.0.
function load(name, descr, ArrayType) {
  const bytes = fs.readFileSync(path.join(folder, name));
  if (bytes.toString('latin1', 0, 8) !== '\x93NUMPY\x01\x00') throw new Error(`${name}: not a .npy file of format 1.0`);
  const begin = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString('latin1', 10, begin);
  if (!header.includes(`'descr': '${descr}'`) || !header.includes("'fortran_order': False")) {
    throw new Error(`${name}: expected ${descr} in C order, found ${header}`);
  }
  const shape = header.match(/\((.*?)\)/)[1].split(',').filter((size) => size.trim()).map(Number);
  return { data: new ArrayType(new Uint8Array(bytes.subarray(begin)).buffer), shape };
}

const tensor = (name) => {
  const { data, shape } = load(name, '<f4', Float32Array);
  return new fovea.Tensor(data, shape);
};
const shade = (weight) => '·░▒▓█'[[0.05, 0.15, 0.35, 0.65].filter((limit) => weight >= limit).length].repeat(2);

async function main() {
  const [query, key, value] = ['query.npy', 'key.npy', 'value.npy'].map(tensor);
  const validLens = load('valid_lens.npy', '<i4', Int32Array).data;
  const reference = load('out.npy', '<f8', Float64Array).data;
  const [batch, heads, length] = query.shape;
  const weights = fovea.Tensor.zeros([batch, heads, length, length]);
  const out = await fovea.sdpa(query, key, value, { validLens, weights });

  const [sentence, head] = [1, 9];
  const words = fs.readFileSync(path.join(folder, 'tokens.txt'), 'utf8').split('\n')[sentence].split('\t');
  console.log(`head ${head}: how much the word on the left attends to each of the words above`);
  for (let letter = 0; letter < Math.max(...words.map((word) => word.length)); ++letter) {
    console.log(' '.repeat(13) + words.map((word) => ` ${word[letter] ?? ' '}`).join(''));
  }
  words.forEach((word, i) => {
    const begin = ((sentence * heads + head) * length + i) * length;
    const row = [...weights.data.subarray(begin, begin + words.length)];
    console.log(`${word.padStart(12)}  ${row.map(shade).join('')}`);
  });

  const error = out.data.reduce((worst, x, i) => Math.max(worst, Math.abs(x - reference[i])), 0);
  const { isaName } = new fovea.Context();
  console.log(`fovea ${fovea.version} (${isaName}): largest error against float64 ${error.toExponential(1)}`);
  if (!(error <= 1e-5)) throw new Error('the output is not the reference');
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

// Float16Array, where TypeScript's library has it: compiled, not run, as only Node 24 has it.
// SPDX-License-Identifier: Apache-2.0
import { Data, Float16, Tensor, sdpaSync } from 'fovea';

type Is<A, B> = 0 extends 1 & A ? false : [A] extends [never] ? false : [A] extends [B] ? true : false;
const known: [Is<Float16, Float16Array>, Is<Float16Array, Float16>] = [true, true];
const data: Data = new Float16Array(4);
const halves = new Tensor(new Float16Array(4), [2, 2]);
const attended = sdpaSync(halves, halves, halves), flat = sdpaSync(new Float16Array(4), halves, halves);
const same: [Is<typeof attended, Tensor<Float16Array>>, Is<typeof flat, Tensor<Float16Array>>] = [true, true];
export const used = [known, data, attended, flat, same, Tensor.zeros([2], Float16Array)];

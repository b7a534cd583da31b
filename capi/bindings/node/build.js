// Compiles the addon, with nothing but a C++ compiler and the headers that come with Node.
//
//   FOVEA_LIB_DIR=FOLDER   where libfovea lies, if pkg-config does not know it
//   NODE_INCLUDE=FOLDER    where node_api.h lies, if not beside node
//   node build.js [FILE]   writes build/fovea.node, or FILE
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

function headers() {
  const beside = path.dirname(path.dirname(fs.realpathSync(process.execPath)));
  const folders = [process.env.NODE_INCLUDE, path.join(beside, 'include', 'node'), '/usr/include/node', '/usr/include/nodejs/src'];
  const found = folders.find((folder) => folder && fs.existsSync(path.join(folder, 'node_api.h')));
  if (!found) throw new Error('node_api.h is not beside node: set NODE_INCLUDE to its folder');
  return found;
}

function library() {
  const folder = process.env.FOVEA_LIB_DIR;
  const include = path.join(__dirname, '..', '..', '..', 'include');
  // The addon finds the library where it was when it was built.
  if (folder) return [`-I${include}`, `-L${folder}`, '-lfovea', `-Wl,-rpath,${path.resolve(folder)}`];
  const asked = spawnSync('pkg-config', ['--cflags', '--libs', 'fovea'], { encoding: 'utf8' });
  if (asked.status !== 0) {
    throw new Error(`pkg-config does not know fovea: install it, or set FOVEA_LIB_DIR. ${asked.stderr || asked.error}`);
  }
  const words = asked.stdout.split(/\s+/).filter(Boolean);
  return [...words, ...words.filter((word) => word.startsWith('-L')).map((word) => `-Wl,-rpath,${word.slice(2)}`)];
}

const target = path.resolve(process.argv[2] || path.join(__dirname, 'build', 'fovea.node'));
const sources = ['addon.cpp', 'call.cpp', 'memory.cpp', 'shim.cpp'].map((name) => path.join(__dirname, 'src', name));
fs.mkdirSync(path.dirname(target), { recursive: true });
const [compiler, ...wrapped] = (process.env.CXX || 'c++').split(/\s+/);
const shared = process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared'];
const warnings = (process.env.CXXFLAGS || '').split(/\s+/).filter(Boolean);
const args = [...wrapped, '-std=c++20', '-O2', '-fPIC', ...shared, '-DNAPI_VERSION=8', '-DNODE_GYP_MODULE_NAME=fovea',
  ...warnings, '-isystem', headers(), ...sources, '-o', target, ...library()];
const done = spawnSync(compiler, args, { stdio: 'inherit' });
if (done.error) throw done.error;
process.exitCode = done.status;

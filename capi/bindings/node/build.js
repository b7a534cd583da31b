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
const { help } = require('./help.js');

// A missing tool or library is no defect of this program's: a stack would only hide what helps.
function end(...lines) {
  console.error(['fovea: ' + lines[0], ...lines.slice(1)].join('\n'));
  process.exit(1);
}

function headers() {
  const beside = path.dirname(path.dirname(fs.realpathSync(process.execPath)));
  const folders = [process.env.NODE_INCLUDE, path.join(beside, 'include', 'node'), '/usr/include/node', '/usr/include/nodejs/src'];
  const found = folders.find((folder) => folder && fs.existsSync(path.join(folder, 'node_api.h')));
  if (!found) end('node_api.h is not beside node: set NODE_INCLUDE to its folder (in Debian: apt-get install libnode-dev)');
  return found;
}

function library() {
  const folder = process.env.FOVEA_LIB_DIR;
  const include = path.join(__dirname, '..', '..', '..', 'include');
  // The addon finds the library where it was when it was built.
  if (folder) return [`-I${include}`, `-L${folder}`, '-lfovea', `-Wl,-rpath,${path.resolve(folder)}`];
  const asked = spawnSync('pkg-config', ['--cflags', '--libs', 'fovea'], { encoding: 'utf8' });
  if (asked.status !== 0) {
    end(asked.error ? `pkg-config cannot be run: ${asked.error.message}` : 'pkg-config does not know the library fovea', ...help(__dirname));
  }
  const words = asked.stdout.split(/\s+/).filter(Boolean);
  return [...words, ...words.filter((word) => word.startsWith('-L')).map((word) => `-Wl,-rpath,${word.slice(2)}`)];
}

const target = path.resolve(process.argv[2] || path.join(__dirname, 'build', 'fovea.node'));
const sources = ['src/addon.cpp', 'src/call.cpp', 'src/memory.cpp', 'src/serving.cpp', 'generated/shim.cpp'].map((name) => path.join(__dirname, name));
fs.mkdirSync(path.dirname(target), { recursive: true });
const [compiler, ...wrapped] = (process.env.CXX || 'c++').split(/\s+/);
const shared = process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared'];
const warnings = (process.env.CXXFLAGS || '').split(/\s+/).filter(Boolean);
const args = [...wrapped, '-std=c++20', '-O2', '-fPIC', ...shared, '-DNAPI_VERSION=8', '-DNODE_GYP_MODULE_NAME=fovea',
  ...warnings, '-isystem', headers(), ...sources, '-o', target, ...library()];
const done = spawnSync(compiler, args, { stdio: 'inherit' });
if (done.error) end(`the compiler cannot be run: ${done.error.message}`);
process.exitCode = done.status;

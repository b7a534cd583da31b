// What helps where the library is missing.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const path = require('node:path');

exports.help = (folder) => {
  const clone = path.resolve(folder, '..', '..', '..');
  return [
    'Either of these lines helps:',
    `  (cd ${clone} && meson setup build/install && meson install -C build/install) && npm install ${folder}    # installs it, as root`,
    `  FOVEA_LIB_DIR=${clone}/build/release/capi npm install ${folder}    # after ./dev build`,
  ];
};

# SPDX-License-Identifier: Apache-2.0
"""Prints where the licence of a oneTBB lies that a wheel will carry: usage: licence_of.py LIBTBB [OTHER]

Packagers build it under terms of their own, which have to go along: the package index's beside its metadata, those of
distributions in their documentation. Where there are none, OTHER is printed.
"""
import pathlib
import sys

NAMES = ["lib/python*/*-packages/tbb-*.dist-info/LICENSE*", "lib/python*/*-packages/tbb-*.dist-info/licenses/LICENSE*",
         "local/lib/python*/*-packages/tbb-*.dist-info/LICENSE*", "local/lib/python*/*-packages/tbb-*.dist-info/licenses/LICENSE*",
         "share/doc/libtbb12/copyright", "share/licenses/*tbb*/LICENSE*", "share/doc/*tbb*/LICENSE*"]


def licence_of(library):
    for folder in pathlib.Path(library).resolve().parents:
        for name in NAMES:
            found = sorted(folder.glob(name))
            if found:
                return found[0]
    return None


print(licence_of(sys.argv[1]) or (sys.argv[2] if len(sys.argv) > 2 else ""))

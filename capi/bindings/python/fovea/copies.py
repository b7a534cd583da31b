# SPDX-License-Identifier: Apache-2.0
"""What copy, deepcopy and pickle do with what the library has made."""
from __future__ import annotations

from typing import ClassVar


class Shared:
    """What never changes once it is made: a copy is the thing itself."""

    __slots__ = ()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


class Packed(Shared):
    """Weights in the order of this machine's kernels, which another may read otherwise."""

    __slots__ = ()
    _packed_from: ClassVar[str]

    def __reduce_ex__(self, protocol):
        kind = type(self).__name__
        raise TypeError(f"a {kind} cannot be pickled: its weights are packed for this machine's instruction set; pickle "
                        f"{self._packed_from}, and make a {kind} of it where it is loaded")

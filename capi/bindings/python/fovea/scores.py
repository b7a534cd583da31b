# SPDX-License-Identifier: Apache-2.0
"""Score functions: how a query and a key are compared. `fovea.attention` plans and schedules take one as `score`."""
from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from . import _fovea
from .arrays import Array, as_array
from .errors import BadOption


@dataclass(frozen=True, eq=False)
class Score:
    """A score function and its parameters; the weights are laid out [out, in] and serve every batch entry and head."""

    _kind: ClassVar[int]

    def _options(self) -> dict:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self._kind, **{name: value if name == "sigma" else as_array(value, name)
                                       for name, value in given.items() if value is not None}}


@dataclass(frozen=True, eq=False)
class Dot(Score):
    """q . k (Vaswani et al. 2017), divided by the square root of D unless `scale` is given."""

    _kind = _fovea.SCORE_DOT


@dataclass(frozen=True, eq=False)
class Bilinear(Score):
    """q^T W k, "general" (Luong, Pham and Manning 2015). weight [Dq, Dk]."""

    weight: Array
    _kind = _fovea.SCORE_BILINEAR


@dataclass(frozen=True, eq=False)
class Additive(Score):
    """v . tanh(Wq q + Wk k) (Bahdanau, Cho and Bengio 2015). query_weight [h, Dq], key_weight [h, Dk], score_vector [h]."""

    query_weight: Array
    key_weight: Array
    score_vector: Array
    _kind = _fovea.SCORE_ADDITIVE


@dataclass(frozen=True, eq=False)
class Concat(Score):
    """v . tanh(W [q; k] + b) (Luong, Pham and Manning 2015). weight [h, Dq + Dk], score_vector [h], bias [h] or None."""

    weight: Array
    score_vector: Array
    bias: Array | None = None
    _kind = _fovea.SCORE_CONCAT


@dataclass(frozen=True, eq=False)
class Gaussian(Score):
    """-|q - k|^2 / (2 sigma^2) (Nadaraya 1964, Watson 1964). sigma > 0, or sigmas [H], a width for each query head."""

    sigma: float | None = None
    sigmas: Array | None = None
    _kind = _fovea.SCORE_GAUSSIAN

    def _options(self) -> dict:
        if self.sigma is None and self.sigmas is None:
            return {"kind": self._kind, "sigma": 1.0}
        if self.sigma is not None and self.sigmas is not None:
            raise BadOption("sigma: None is expected where sigmas are given")
        return super()._options()


def options_of(score: Score | None) -> dict | None:
    if score is None:
        return None
    if not isinstance(score, Score):
        raise TypeError(f"score: a fovea.Score is wanted, Dot() or another, not {type(score).__name__}")
    return score._options()

# SPDX-License-Identifier: Apache-2.0
"""Attention by the ranks of a communicator: as a ring, by heads, over a cache that they share, and on a grid."""
from __future__ import annotations

import ctypes
import threading
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from mpi4py import MPI

from .. import _fovea
from ..arrays import Array, as_array, empty, features_of, shape_of
from ..attention import results
from ..contexts import Context, options_of_context
from ..errors import BadValue
from ..gradients import Call
from ..options import AttentionOptions, choice, dtype_number, number, read, size
from ..scores import Score, options_of
from . import layouts
from .agreement import Failed, checked, collective, of_status
from .library import LIBRARY, handle_of
from .shares import ORDERS, Order

Transport = Literal["float16", "bfloat16"]
"""Or an element type of NumPy's, PyTorch's or ml_dtypes'."""


@dataclass(frozen=True)
class Figures:
    """What the calling rank did in the last call that succeeded."""

    bytes_sent: int
    """Of queries, keys, values and results to other ranks."""
    blocks_attended: int
    """Keys and values of how many ranks its queries met."""
    blocks_passed_by: int
    """Of how many others they met none: these were not computed."""
    seconds_computing: float
    seconds_waiting: float
    """For messages, with nothing to compute."""


class Ranks:
    """The ranks of a communicator of mpi4py's, for attention among them. Collective, as `close` and all that attends are.

    comm: an intracommunicator, which is duplicated. context: threads and instruction set of this rank, as elsewhere in fovea;
    the library over MPI makes one like it. message_bytes: the most that one message carries, up to 2^30, the default.

    Used in a `with` statement or closed by `close`. It is left open where the statement is left by an exception that other
    ranks know nothing of, as they would have to close it too; `python -m mpi4py` then ends them.
    Calls of several threads take turns.
    """

    def __init__(self, comm: MPI.Comm, *, context: Context | None = None, message_bytes: int | None = None):
        self._handle: int | None = None
        if not isinstance(comm, MPI.Comm):
            raise TypeError(f"comm: a communicator of mpi4py is wanted, not {type(comm).__name__}")
        if comm == MPI.COMM_NULL or comm.Is_inter():
            raise BadValue("comm is no intracommunicator: COMM_NULL, or one between two groups")
        self._lock = threading.Lock()
        refused, self._context = None, None
        try:
            options = layouts.Options(message_bytes=number("message_bytes", size("message_bytes", message_bytes), 64))
            self._context = None if context is None else _context_like(context)
        except BaseException as error:  # others are waiting
            refused = error
        try:
            checked(comm, refused)
            self._comm, handle = comm.Dup(), ctypes.c_void_p()
            status = LIBRARY.fovea_mpi_create(handle_of(self._comm), self._context, ctypes.byref(options), ctypes.byref(handle))
            if status != 0:
                error = of_status(status, LIBRARY.fovea_mpi_last_error().decode())
                if not isinstance(error, Failed):
                    self._comm.Free()
                    error.on_all_ranks = True
                raise error
        except BaseException:
            LIBRARY.fovea_context_destroy(self._context)
            raise
        self._handle, self._may_talk = handle.value, True

    @property
    def rank(self) -> int:
        """The calling rank's number."""
        return LIBRARY.fovea_mpi_rank(self._open())

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return LIBRARY.fovea_mpi_ranks(self._open())

    @property
    def figures(self) -> Figures:
        """Of this rank's last call that succeeded. Not collective."""
        read_figures = layouts.Figures()
        status = LIBRARY.fovea_mpi_last_figures(self._open(), ctypes.byref(read_figures))
        if status != 0:
            raise of_status(status, LIBRARY.fovea_mpi_last_error().decode())
        return Figures(**{name: getattr(read_figures, name) for name in Figures.__dataclass_fields__})

    def ring_attention(self, query: Array, key: Array, value: Array, *, score: Score | None = None,
                       order: Order = "contiguous", transport: Transport | None = None, out: Array | None = None,
                       **options: Unpack[AttentionOptions]):
        """As `fovea.attention` over all ranks' positions: keys and values travel from rank to rank (ring attention).

        query [B, H, Qr, D], key [B, Hkv, Kr, Dk], value [B, Hkv, Kr, Dv], out [B, H, Qr, Dv], or of rank 3 or 2: the calling
        rank's share of positions, in the order `order`; see `share`. All else is the same on all ranks and speaks of the
        whole: query_offset, windows and valid_lens [B] count positions of the whole sequence. Log-sum-exp is of the rank's
        queries. transport: float32 keys and values travel rounded to this type, in half the bytes.
        Refused: mask, bias, dropout, weights, scores, scaled int8, empty_rows "uniform"; ALiBi where striped.
        """
        def lay_out():
            own = layouts.RingOptions(order=choice("order", order, ORDERS), transport=_transport(transport))
            return _laid_out(score, query, key, value, out, options, own)

        return self._collective("fovea_mpi_ring_attention", lay_out)

    def ring_attention_backward(self, query: Array, key: Array, value: Array, out: Array, log_sum_exp: Array, grad_out: Array, *,
                                wanted: tuple[str, ...] = ("query", "key", "value"), grad_log_sum_exp: Array | None = None,
                                score: Score | None = None, order: Order = "contiguous", transport: Transport | None = None,
                                **options: Unpack[AttentionOptions]) -> dict:
        """The backward pass of `ring_attention`, as `fovea.attention_backward` over the whole: from its arguments, what it
        returned with return_log_sum_exp, and grad_out [B, H, Qr, Dv]. Gradients of queries, keys and values are local, those of
        alibi_slopes, sinks and the score's parameters the sums over all ranks. Refused: "bias", grad_weights.
        """
        def lay_out():
            call = Call((query, key, value, out, log_sum_exp), (grad_out, grad_log_sum_exp, None), (), wanted, score, options)
            made = call.make()
            kinds = (("score", "fovea_score"), ("query", "tensor"), ("key", "tensor"), ("value", "tensor"), ("out", "tensor"),
                     ("options", "fovea_attention_options, read"), ("gradients", "fovea_attention_gradients"))
            arguments = _fovea.Arguments(*((*kind, given) for kind, given in zip(kinds, call.arguments(made))))
            own = layouts.RingOptions(order=choice("order", order, ORDERS), transport=_transport(transport))
            return arguments, own, lambda: call.finish(made)

        return self._collective("fovea_mpi_ring_attention_backward", lay_out)

    def decode_attention(self, query: Array, key: Array, value: Array, *, score: Score | None = None,
                         query_on_rank_0: bool = False, out: Array | None = None, **options: Unpack[AttentionOptions]):
        """Attention to keys and values of which each rank holds some, as many as it likes and in no order; all ranks get the
        whole result, with the same bits.

        query [B, H, Q, D], the same on all ranks; with query_on_rank_0 that of rank 0, and of the others' only shape and
        element type are looked at. key [B, Hkv, Kr, Dk], value [B, Hkv, Kr, Dv] (int8 with key_scales, value_scales too), out
        [B, H, Q, Dv], or of rank 3 or 2. valid_lens count the calling rank's keys. Log-sum-exp is of the whole.
        Refused: all that counts positions (is_causal, windows, ALiBi, ...), mask, bias, dropout, weights, scores.
        """
        def lay_out():
            own = layouts.DecodeOptions(flags=layouts.QUERY_ON_RANK_0 if query_on_rank_0 else 0)
            return _laid_out(score, query, key, value, out, options, own)

        return self._collective("fovea_mpi_decode_attention", lay_out)

    def ulysses_attention(self, query: Array, key: Array, value: Array, *, score: Score | None = None,
                          order: Order = "contiguous", out: Array | None = None, **options: Unpack[AttentionOptions]):
        """As `ring_attention`, by an exchange of heads (Ulysses): each rank attends all positions of some heads.

        The number of query heads is a multiple of that of ranks, that of key/value heads a multiple or a divisor. mask, bias
        [B, H, Q, K] and valid_lens [B, Q], of the whole and in the order of the sequence, are taken as well.
        """
        def lay_out():
            return _laid_out(score, query, key, value, out, options, layouts.UlyssesOptions(order=choice("order", order, ORDERS)))

        return self._collective("fovea_mpi_ulysses_attention", lay_out)

    def close(self) -> None:
        """Frees it. Collective; once closed, it does nothing. After MPI is finalised, memory stays as it is."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is None or MPI.Is_finalized():
                return
            LIBRARY.fovea_mpi_destroy(handle)
            LIBRARY.fovea_context_destroy(self._context)
            if self._may_talk:
                self._comm.Free()

    def __enter__(self) -> Ranks:
        self._open()
        return self

    def __exit__(self, _, error, __) -> None:
        if error is None or getattr(error, "on_all_ranks", False):
            self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None and not MPI.Is_finalized():
            warnings.warn("a fovea.mpi.Ranks was not closed: only all ranks together can free it", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        return "<fovea.mpi.Ranks, closed>" if self._handle is None else f"<fovea.mpi.Ranks, rank {self.rank} of {self.size}>"

    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("these Ranks are closed")
        return self._handle

    def _collective(self, name: str, lay_out) -> Any:
        with self._lock:
            try:
                return collective(name, [self._open()], [self._comm], lay_out)
            except Failed:
                self._may_talk = False
                raise


def grid_attention(within: Ranks, between: Ranks, query: Array, key: Array, value: Array, *, score: Score | None = None,
                   order: Order = "contiguous", transport: Transport | None = None, out: Array | None = None,
                   **options: Unpack[AttentionOptions]):
    """Both at once: by heads `within` a group of ranks, those of one machine, a ring `between` the groups. Collective over all.

    between: of one rank of each group, those with the calling rank's number in `within`. Groups share positions by `order`;
    the ranks of a group have neighbours among the group's positions, any number of them. All else as in
    `Ranks.ring_attention`; the number of query heads is a multiple of within.size.
    """
    for name, ranks in (("within", within), ("between", between)):
        if not isinstance(ranks, Ranks):
            raise TypeError(f"{name}: fovea.mpi.Ranks are wanted, not {type(ranks).__name__}")
    if within is between:
        raise ValueError("within and between: two different Ranks are wanted")

    def lay_out():
        own = layouts.RingOptions(order=choice("order", order, ORDERS), transport=_transport(transport))
        return _laid_out(score, query, key, value, out, options, own)

    with within._lock, between._lock:
        try:
            return collective("fovea_mpi_grid_attention", [within._open(), between._open()], [within._comm, between._comm], lay_out)
        except Failed:
            within._may_talk = between._may_talk = False
            raise


def _transport(given) -> int:
    return 0 if given is None else dtype_number("transport", given, ("float16", "bfloat16"))


def _laid_out(score, query, key, value, out, options, own):
    query, key, value = as_array(query, "query"), as_array(key, "key"), as_array(value, "value")
    query_shape = shape_of(query, "query")
    key_len = (shape_of(key, "key")[-2:-1] or (0,))[0]
    if out is None:
        out = empty(query_shape[:-1] + features_of(value, options.get("value_scales")), query, key, value)
    members, outputs = read(options, query_shape, key_len, query)
    arguments = _fovea.Arguments(
        ("score", "fovea_score", options_of(score)), ("query", "tensor", query), ("key", "tensor", key),
        ("value", "tensor", value), ("out", "output", out), ("options", "fovea_attention_options", members))
    return arguments, own, lambda: results(query, out, outputs)


def _context_like(context: Context):
    """One of the libfovea that libfovea-mpi calls: the package's own is of another copy."""
    if not isinstance(context, Context):
        raise TypeError(f"context: a fovea.Context is wanted, not {type(context).__name__}")
    arguments = _fovea.Arguments(("options", "fovea_context_options", options_of_context(context)))
    made = ctypes.c_void_p()
    status = LIBRARY.fovea_context_create(*arguments.addresses, ctypes.byref(made))
    if status != 0:
        raise of_status(status, LIBRARY.fovea_last_error().decode())
    return made.value

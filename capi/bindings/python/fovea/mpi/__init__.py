# SPDX-License-Identifier: Apache-2.0
"""MPI: attention whose queries, keys and values lie on several ranks, over communicators of mpi4py.

    from mpi4py import MPI
    import fovea.mpi                                        # mpirun -n 4 python -m mpi4py program.py
    with fovea.mpi.Ranks(MPI.COMM_WORLD) as ranks:
        out = ranks.ring_attention(query, key, value, order="zigzag", is_causal=True)   # each rank's own positions

It needs mpi4py and the library libfovea-mpi, which is no part of a wheel: it is built for one MPI, which has to be mpi4py's.
Importing this is an ImportError where one of them is missing or does not go with the other, and says which and why.

Arrays are what `fovea.attention` takes, NumPy's, PyTorch's and JAX's, and so are options, of which the library refuses those that
cannot be shared out.

Methods of `Ranks` and `grid_attention` are collective: all ranks call them, in the same order. What one rank refuses, all refuse:
each raises a `fovea.Error` with the same words, which begin with "rank 2: " where it is that rank's fault. That holds for what
Python refuses as well (an option that there is not, an array that cannot be read): the library is called all the same, for the
other ranks to learn of it, and that rank raises its own exception. What all ranks raise has `on_all_ranks` set, which is true.
Of a `Ranks` that is closed, or was never made, others cannot learn: they wait, as they do for a rank that raises something
elsewhere; `python -m mpi4py` ends all of them then.
"""
from .agreement import Failed
from .ranks import Figures, Ranks, grid_attention
from .shares import Order, positions, share, share_length, unshare

__all__ = ["Failed", "Figures", "Order", "Ranks", "grid_attention", "positions", "share", "share_length", "unshare"]

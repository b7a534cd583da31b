# SPDX-License-Identifier: Apache-2.0
"""Pictures of attention weights; needs matplotlib."""
from __future__ import annotations

import numpy as np

from .arrays import Array


def show_heatmaps(weights: Array, *, query_labels=None, key_labels=None, titles=None, cmap: str = "Reds",
                  size: float = 2.5, file: str | None = None):
    """Draws weights [rows, columns, Q, K], one heatmap each, as one figure; also [n, Q, K] (one row) and [Q, K].

    query_labels, key_labels: words along the axes; titles: one for each column. file: where to save the picture. Returns
    matplotlib's figure, which a notebook shows.
    """
    import matplotlib

    if file is not None:
        matplotlib.use("agg")
    import matplotlib.pyplot as plt

    weights = np.asarray(weights)
    if not 2 <= weights.ndim <= 4:
        raise ValueError(f"weights: rank {weights.ndim}, expected 2 to 4")
    weights = weights.reshape((1,) * (4 - weights.ndim) + weights.shape)
    rows, columns = weights.shape[:2]
    figure, axes = plt.subplots(rows, columns, figsize=(columns * size + 1, rows * size), sharex=True, sharey=True,
                                squeeze=False, layout="constrained")
    for row in range(rows):
        for column in range(columns):
            axis = axes[row, column]
            image = axis.imshow(weights[row, column], cmap=cmap, vmin=0, vmax=max(float(weights.max()), 1e-6))
            if titles is not None and row == 0:
                axis.set_title(titles[column])
            if row == rows - 1:
                axis.set_xlabel("keys")
            if column == 0:
                axis.set_ylabel("queries")
            if key_labels is not None:
                axis.set_xticks(range(len(key_labels)), key_labels, rotation=90)
            if query_labels is not None:
                axis.set_yticks(range(len(query_labels)), query_labels)
    figure.colorbar(image, ax=axes, shrink=0.6)
    if file is not None:
        figure.savefig(file)
    return figure

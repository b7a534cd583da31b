#!/usr/bin/env python3
"""Draws with matplotlib what textbook.c has computed.

    plot_textbook.py DIRECTORY [FORMAT]

Reads the .csv files in DIRECTORY and writes DIRECTORY/matplotlib/*.FORMAT (png unless given; svg and pdf do as well).
"""

# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys

import matplotlib
import numpy

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402


def read(directory, name):
    return numpy.loadtxt(directory / f"{name}.csv", delimiter=",", ndmin=2)


def heatmap(figure, axes, values, x_label, y_label, bar_label, **limits):
    image = axes.imshow(values, aspect="auto", interpolation="nearest", **limits)
    axes.set(xlabel=x_label, ylabel=y_label)
    figure.colorbar(image, ax=axes, label=bar_label)


def additive_attention(directory):
    weights = read(directory, "additive_attention")
    figure, axes = plt.subplots(figsize=(7, 2.2), layout="constrained")
    heatmap(figure, axes, weights, "keys", "queries", "weight", cmap="Reds", vmin=0)
    axes.set_xticks(range(weights.shape[1]))
    axes.set_yticks(range(weights.shape[0]))
    axes.set_title("Additive attention, valid lengths 2 and 6")
    return figure


def kernel_regression(directory):
    data = read(directory, "kernel_regression_data")
    x, truth, wide, narrow = read(directory, "kernel_regression_lines").T
    figure, (curves, left, right) = plt.subplots(
        1, 3, figsize=(14, 4.2), layout="constrained", width_ratios=(1.5, 1, 1)
    )
    curves.scatter(*data.T, color="gray", alpha=0.7, label="noisy data")
    curves.plot(x, truth, "--", color="tab:green", label="truth")
    curves.plot(x, wide, color="tab:orange", label=r"$\sigma = 1$")
    curves.plot(x, narrow, color="tab:blue", label=r"$\sigma = 0.2$")
    curves.set(xlabel="x", ylabel="y", xlim=(0, 5), title=r"$y = 2\,\sin x + x^{0.8}$ + noise")
    curves.legend()
    for axes, name, title in (
        (left, "wide", r"weights, $\sigma = 1$"),
        (right, "narrow", r"weights, $\sigma = 0.2$"),
    ):
        weights = read(directory, f"kernel_regression_weights_{name}")
        heatmap(figure, axes, weights, "training input, sorted", "query, sorted", "weight", cmap="Reds", vmin=0)
        axes.set_title(title)
    return figure


def positional_encoding_columns(directory):
    encoding = read(directory, "positional_encoding")
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for column, style in zip(range(6, 10), ("-", "--", "-.", ":")):
        axes.plot(encoding[:, column], style, label=f"column {column}")
    axes.set(xlabel="position", ylabel="encoding", title=f"Positional encoding, d = {encoding.shape[1]}")
    axes.legend(loc="upper right")
    axes.grid(alpha=0.3)
    return figure


def positional_encoding(directory):
    encoding = read(directory, "positional_encoding")
    figure, axes = plt.subplots(figsize=(5, 6.5), layout="constrained")
    heatmap(figure, axes, encoding, "column", "position", "encoding", cmap="RdBu", vmin=-1, vmax=1)
    axes.set_title(f"Positional encoding, d = {encoding.shape[1]}")
    return figure


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[1])
    suffix = sys.argv[2] if len(sys.argv) == 3 else "png"
    (directory / "matplotlib").mkdir(exist_ok=True)
    for picture in (additive_attention, kernel_regression, positional_encoding_columns, positional_encoding):
        path = directory / "matplotlib" / f"{picture.__name__}.{suffix}"
        figure = picture(directory)
        figure.savefig(path, dpi=150)
        plt.close(figure)
        print(path)


if __name__ == "__main__":
    main()

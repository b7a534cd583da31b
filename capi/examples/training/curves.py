# SPDX-License-Identifier: Apache-2.0
"""Draws the losses of several trainings in one picture, and below it how far those by fovea are from PyTorch's."""
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

COLORS = ["#1f5fa8", "#e08a1e", "#3a8f4d", "#a83a6b"]


def draw_losses(losses, pairs, file):
    """losses: those of each step, by name; pairs: names of two that are compared, of which the second is the measure."""
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 6), height_ratios=(3, 1), layout="constrained")
    colors = dict(zip(losses, COLORS))
    for number, (name, values) in enumerate(losses.items()):
        dashes = (0, (4, 4)) if number % 2 else "-"
        above.plot(range(1, len(values) + 1), values, linestyle=dashes, color=colors[name], label=name)
    for name, measure in pairs:
        apart = [max(abs(a - b) / b, 1e-8) for a, b in zip(losses[name], losses[measure])]
        below.plot(range(1, len(apart) + 1), apart, color=colors[name], label=f"{name} from {measure}")
    for axes, label in ((above, "loss"), (below, "relative distance")):
        axes.set_yscale("log")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    below.set_xlabel("step")
    figure.savefig(file, dpi=110)
    plt.close(figure)

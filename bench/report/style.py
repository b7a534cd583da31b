"""How the pictures look: wide for a screen or narrow for a telephone, in light colours or dark ones."""
# SPDX-License-Identifier: Apache-2.0
import io
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

#         ink        paper      lines      soft
LIGHT = ("#1c2126", "#ffffff", "#d5dade", "#5b6670")
DARK = ("#e8ebee", "#14181c", "#3a424a", "#9aa5b1")
# Okabe and Ito's, told apart by the colour-blind too; the yellow one left out. Markers tell them apart once more.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#888888")
DARK_COLORS = ("#4aa3df", "#f08a4b", "#3cc79a", "#e3a3c6", "#8fd0f5", "#f2bd4a", "#aaaaaa")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class Style:
    def __init__(self, narrow=False):
        self.narrow = narrow
        self.ink, self.paper, self.lines, self.soft = LIGHT
        self.colors = COLORS

    def parameters(self):
        return {
            "font.size": 8.5 if self.narrow else 9.5,
            "font.family": "DejaVu Sans",
            "text.color": self.ink,
            "axes.labelcolor": self.ink,
            "axes.edgecolor": self.soft,
            "xtick.color": self.ink,
            "ytick.color": self.ink,
            "axes.facecolor": self.paper,
            "figure.facecolor": self.paper,
            "savefig.facecolor": self.paper,
            "grid.color": self.lines,
            "grid.linewidth": 0.6,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "lines.markersize": 4.5,
            "legend.frameon": False,
            "legend.handlelength": 3,
            "svg.hashsalt": "fovea",
            "axes.prop_cycle": matplotlib.cycler(color=self.colors),
        }

    def figure(self, height=4.2, panels=1, narrow_height=None):
        """A figure and its panels: beside one another where there is room, else below."""
        if self.narrow:
            tall = (narrow_height or height * 0.9) * panels
            return plt.subplots(panels, 1, figsize=(3.9, tall), layout="constrained", squeeze=False)
        return plt.subplots(1, panels, figsize=(9.6, height), layout="constrained", squeeze=False)

    def label(self, text):
        """In lines that fit the panel."""
        return textwrap.fill(text, 40) if self.narrow else text

    def look(self, number):
        """Colour and marker of the number-th of several."""
        return {
            "color": self.colors[number % len(self.colors)],
            "marker": MARKERS[(number + number // len(COLORS)) % len(MARKERS)],
        }

    def legend_below(self, figure, axes, columns=4, narrow_columns=2):
        """matplotlib 3.6 knows no legend outside of the panels that its layout leaves room for."""
        handles, labels = axes.get_legend_handles_labels()
        unique = dict(zip(labels, handles))
        columns = min(len(unique), narrow_columns if self.narrow else columns)
        height = 0.17 * -(-len(unique) // columns) + 0.12
        figure.set_figheight(figure.get_figheight() + height)
        share = height / figure.get_figheight()
        figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))
        figure.legend(
            unique.values(), unique.keys(), loc="lower center", ncols=columns, fontsize="small", borderaxespad=0.2
        )


def short(case, narrow):
    """A case's name without the type that most have, so that it fits beside bars on a telephone."""
    text = case.replace("/f32/", " ")
    return text if not narrow or len(text) <= 24 else text[:23] + "…"


def drawn(draw, narrow=False, form="svg", dpi=150):
    """Bytes of what draw(style) gives; None if it has nothing to show."""
    style = Style(narrow)
    with plt.rc_context(style.parameters()):
        figure = draw(style)
        if figure is None:
            return None
        target = io.BytesIO()
        figure.savefig(target, format=form, dpi=dpi, metadata={"Date": None} if form == "svg" else None)
        plt.close(figure)
    return target.getvalue()


def darkened(svg):
    """The same drawing in the dark's colours. No colour of the light is one of the dark."""
    for light, dark in zip((*LIGHT, *COLORS), (*DARK, *DARK_COLORS)):
        svg = svg.replace(light.encode(), dark.encode())
    return svg


def variants(draw):
    """{(dark, narrow): SVG}, or None."""
    made = {}
    for narrow in (False, True):
        svg = drawn(draw, narrow)
        if svg is None:
            return None
        made |= {(False, narrow): svg, (True, narrow): darkened(svg)}
    return made

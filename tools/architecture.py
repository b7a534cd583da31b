#!/usr/bin/env python3
"""Draws which folder includes which, from the sources as they are, and checks that nothing includes what is above it.

    architecture.py draw [ROOT]     writes ROOT/docs/architecture.svg with graphviz
    architecture.py check [ROOT]    exit code 1 if folders include each other in a circle, or if the picture is not that of
                                    the sources

A box is a folder, with its topics in it: folders in it, and the names of its files, those with a common first word as one. An arrow says that
some file of a folder includes one of another; arrows that follow from others are left out. Needs nothing but Python to check.
"""
# SPDX-License-Identifier: Apache-2.0

import collections
import html
import itertools
import pathlib
import re
import subprocess
import sys
import textwrap

SOURCE_FOLDERS = ("include", "capi", "src")
LEFT_OUT = ("bindings", "examples")  # around the library
SUFFIXES = {".c", ".cpp", ".h", ".hpp"}
LIBRARIES = {"xsimd": "xsimd", "tbb": "oneTBB", "oneapi": "oneTBB"}  # by the first word of what is included
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.M)


def sources(root):
    found = (path for folder in SOURCE_FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    return sorted(path for path in found if not set(LEFT_OUT) & set(path.relative_to(root).parts))


def room(folder):
    """The folder as drawn: topics of src/ops and src/kernels are part of it."""
    return "/".join(folder.split("/")[:2])


def includes(root, shown=room):
    """(including folder, included folder or library) -> lines that do so, for every pair that differs."""
    found = collections.defaultdict(list)
    for path in sources(root):
        folder = shown(path.parent.relative_to(root).as_posix())
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            library = LIBRARIES.get(re.split(r"\W", name)[0])
            places = (base / name for base in (path.parent, root / "src", root / "include"))
            file = next((place.resolve() for place in places if place.is_file()), None)
            target = shown(file.parent.relative_to(root.resolve()).as_posix()) if file else library
            if target and target != folder:
                found[folder, target].append(f"{path.relative_to(root).as_posix()} includes {name}")
    return found


def circle(arrows):
    """Folders of which each includes the next and the last the first; empty if there are none."""
    following = collections.defaultdict(list)
    for start, end in sorted(arrows):
        following[start].append(end)
    state, path = {}, []

    def walk(folder):
        state[folder] = "open"
        path.append(folder)
        for following_folder in following[folder]:
            if state.get(following_folder) == "open":
                return path[path.index(following_folder) :]
            if following_folder not in state and (found := walk(following_folder)):
                return found
        state[folder] = "done"
        path.pop()
        return []

    return next((found for folder in list(following) if folder not in state and (found := walk(folder))), [])


def reaches(arrows, start, end, without):
    reached, waiting = set(), [start]
    while waiting:
        folder = waiting.pop()
        for arrow in arrows:
            if arrow[0] == folder and arrow != without and arrow[1] not in reached:
                reached.add(arrow[1])
                waiting.append(arrow[1])
    return end in reached


def reduced(arrows):
    """Without those that follow from others."""
    return sorted(arrow for arrow in arrows if not reaches(arrows, *arrow, without=arrow))


def topics(names):
    """Files' names as words that stay together; those that begin alike as what they have in common."""
    for _, group in itertools.groupby(sorted(set(names)), key=lambda name: name.split("_")[0]):
        words = [name.split("_") for name in group]
        common = [each[0] for each in itertools.takewhile(lambda column: len(set(column)) == 1, zip(*words))]
        yield "\u00a0".join(common)


def boxes(root):
    """Folder or library -> the lines in its box."""
    files = collections.defaultdict(list)
    for path in sources(root):
        folder = path.parent.relative_to(root).as_posix()
        files[room(folder)].append(path.parent.name + "/" if room(folder) != folder else path.stem)
    found = {folder: [folder] + textwrap.wrap(", ".join(topics(names)), 44) for folder, names in files.items()}
    return found | {end: [end] for _, end in includes(root) if end not in found}


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_source(root):
    contents, arrows = boxes(root), reduced(includes(root))
    yield "digraph {"
    yield '  graph [bgcolor="transparent", nodesep=0.3, ranksep=0.35, pad=0.15]'
    yield '  node [shape=box, style=filled, fillcolor="#f4f5fa", color="#8a8fa8", fontname="Helvetica,Arial,sans-serif",'
    yield '        fontsize=11, margin="0.14,0.08"]'
    yield '  edge [color="#5a5f78", arrowsize=0.7]'
    for name, (title, *lines) in sorted(contents.items()):
        label = f"<b>{html.escape(title)}</b>" + "".join(
            f'<br/><font point-size="9">{html.escape(line)}</font>' for line in lines
        )
        outside = "" if lines else ', style="dashed"'
        yield f"  {quoted(name)} [label=<{label}>{outside}]"
    for start, end in arrows:
        yield f"  {quoted(start)} -> {quoted(end)}"
    yield "}"


def draw(root):
    picture = root / "docs" / "architecture.svg"
    source = "\n".join(dot_source(root))
    drawn = subprocess.run(["dot", "-Tsvg"], input=source, capture_output=True, text=True, check=True).stdout
    # The title of each thing is for check(), and a tooltip elsewhere.
    picture.write_text(re.sub(r"<!--.*?-->\n?", "", drawn, flags=re.S), encoding="utf-8")


def drawn_things(svg, kind):
    """(title, what is inside) of each box ("node") or arrow ("edge")."""
    pattern = rf'<g id="[^"]*" class="{kind}">\s*<title>(.*?)</title>(.*?)</g>'
    return [(html.unescape(title), inside) for title, inside in re.findall(pattern, svg, re.S)]


def middle(inside):
    heights = [float(pair.split(",")[1]) for pair in re.search(r'points="([^"]*)"', inside)[1].split()]
    return (min(heights) + max(heights)) / 2


def problems_of_picture(root):
    picture = root / "docs" / "architecture.svg"
    svg = picture.read_text(encoding="utf-8") if picture.exists() else ""
    nodes = dict(drawn_things(svg, "node"))
    lines = {name: [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", inside)] for name, inside in nodes.items()}
    arrows = sorted(tuple(title.split("->")) for title, _ in drawn_things(svg, "edge"))
    if lines != boxes(root) or arrows != reduced(includes(root)):
        yield "docs/architecture.svg is not of these sources: ./dev architecture draws it"
    for start, end in arrows:
        if start in nodes and end in nodes and middle(nodes[start]) >= middle(nodes[end]):
            yield f"docs/architecture.svg: the arrow from {start} to {end} points upward"


def problems(root):
    arrows = includes(root, shown=lambda folder: folder)
    arrows = {pair: lines for pair, lines in arrows.items() if not pair[0].startswith(pair[1] + "/")}
    if around := circle(arrows):
        yield "folders include each other in a circle:"
        for pair in zip(around, around[1:] + around[:1]):
            yield f"  {pair[0]} -> {pair[1]}: " + "; ".join(arrows[pair][:3])
    else:
        yield from problems_of_picture(root)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("draw", "check"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).resolve().parent.parent)
    if sys.argv[1] == "draw":
        draw(root)
    found = list(problems(root))
    print("\n".join(found) or "ok: nothing includes what is above it, and docs/architecture.svg shows it")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists every source file with the first sentence of its opening comment.

    files.py write [ROOT]     writes ROOT/docs/files.md
    files.py check [ROOT]     exit code 1 if that page is not what the sources say
"""
import pathlib
import re
import sys

FOLDERS = ("src", "capi", "tests", "bench", "tools")
LEFT_OUT = {"bindings", "data"}  # bindings have pages of their own
SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".py", ".sh", ".awk"}
HEAD = """# Source files

What each file is, in its own words: the first sentence of its opening comment. `./dev architecture` writes this page.
"""


def opening(text):
    """The comment that a file begins with, without its licence, as one line."""
    said, quoted = [], False
    for line in text.splitlines():
        if said and re.match(r"\s*(?://|#|\*)?\s{2,}\S", line):  # a formula or a table
            break
        line = line.strip()
        if line.startswith(("#!", "#pragma", "# shellcheck")) or "SPDX-License-Identifier" in line or (not line and not said):
            continue
        if line.startswith('"""'):
            quoted = True
        elif not quoted and not re.match(r"//|#(?!include|define|if)|/\*|\*", line):
            break
        words = line.strip('" ') if quoted else line.strip("/#*! ")
        if not words:
            break
        said.append(words)
        if quoted and line.endswith('"""') and len(line) > 3:
            break
    return " ".join(said)


def sentence(text):
    return re.split(r"(?<![.])[.](?= [A-Z(]|$)", text, maxsplit=1)[0].strip().rstrip(":")


def page(root):
    lines = [HEAD.rstrip()]
    folder = None
    paths = [path for top in FOLDERS for path in (root / top).rglob("*") if path.suffix in SUFFIXES]
    for path in sorted(paths, key=lambda path: (path.parent, path.name)):
        relative = path.relative_to(root)
        if LEFT_OUT & set(relative.parts) or "__pycache__" in relative.parts:
            continue
        said = sentence(opening(path.read_text(encoding="utf-8")))
        if not said:
            continue
        if relative.parent != folder:
            folder = relative.parent
            lines.append(f"\n## {folder.as_posix()}/\n\n| file | |\n|---|---|")
        cell = said.replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| `{relative.name}` | {cell} |")
    return "\n".join(lines) + "\n"


def main():
    root = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent
    target = root / "docs" / "files.md"
    if sys.argv[1:2] == ["write"]:
        target.write_text(page(root), encoding="utf-8")
        return 0
    if sys.argv[1:2] == ["check"]:
        if target.exists() and target.read_text(encoding="utf-8") == page(root):
            print("ok: docs/files.md is what the sources say")
            return 0
        print("docs/files.md is not what the sources say: run ./dev architecture")
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

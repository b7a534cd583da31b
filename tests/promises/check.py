#!/usr/bin/env python3
"""Checks that every sentence of the public headers has its row in the tables beside this script, in the header's order,
and that every test a row names exists.

usage: check.py SOURCE_ROOT          checks all tables
       check.py SOURCE_ROOT HEADER   prints the sentences of include/fovea/HEADER, to write rows from

A table is Markdown: under a heading for each of the header's sections, rows of three columns. The first quotes a
sentence; "…" leaves words out. The second names tests as "folder/file: test case", with " · " between them; a name may end in
"…" where its beginning is enough; "meson: name" is a test that is a program of its own. It is "—" where nothing is
promised, or nothing that a test could see, and the third column then says why. Else the third column says for which score
functions these tests ask.
"""
import pathlib
import re
import sys

TABLES = {
    "fovea.md": ["fovea.h"],
    "scores.md": ["scores.h"],
    "layers.md": ["layers.h"],
    "serving.md": ["serving.h"],
    "training.md": ["training.h"],
    "mpi.md": ["mpi.h"],
    "cpp.md": ["fovea.hpp", "layers.hpp", "serving.hpp", "tensor.hpp", "training.hpp"],
}
SCORES = {"all", "dot", "bilinear", "additive", "concat", "Gaussian"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*", re.S)
NO_SENTENCE = re.compile(r"FOVEA_\w+_HP*|namespace \w+|SPDX-License-Identifier: Apache-2.0")


def sentences(path):
    """(section, sentence) for each sentence of the comments, white space made plain."""
    section, found = "conventions", []
    for match in COMMENT.finditer(path.read_text()):
        text = match.group(0)
        if text.startswith("/*"):
            text = re.sub(r"\s*\*?\n\s*\*(?!/)", "\n", text[2:-2])
        else:
            text = re.sub(r"(?m)^\s*//", "", text)
        ruler = re.fullmatch(r"\s*-+ (.*?) -+\s*", text)
        if ruler:
            section = ruler.group(1)
            continue
        text = re.sub(r"SPDX-License-Identifier: \S+|-{20,}", "", text)
        text = re.sub(r"\s+", " ", text).strip()
        for sentence in re.split(r"(?<=[^ ]\.)(?<!et al\.) ", text):
            if sentence and not NO_SENTENCE.fullmatch(sentence):
                found.append((section, sentence))
    return found


def rows(path):
    """(line number, header, section, quote, tests, third column) for each row."""
    header = section = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("# "):
            header = line[2:].strip()
        elif line.startswith("## "):
            section = line[3:].strip()
        elif line.startswith("| "):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if len(cells) != 3:
                raise SystemExit(f"{path}:{number}: {len(cells)} columns, expected 3")
            if cells[1] != "tests":
                yield number, header, section, *cells


def parts_of(quote):
    return [part.strip() for part in quote.split("…")]


def quotes(quote, sentence):
    return re.search(".*".join(re.escape(part) for part in parts_of(quote)), sentence) is not None


def numbers_left_out(sentence, quotes_of_it):
    """Numbers that no quote holds, but for years: one that changes is a promise that changes."""
    for quote in quotes_of_it:
        for part in parts_of(quote):
            sentence = sentence.replace(part, " … ", 1)
    return [number for number in re.findall(r"\d[\d.,^-]*", sentence) if not re.match(r"(19|20)\d\d\b", number)]


def test_names(root):
    """Names of the test cases by file, and under "meson" those of programs."""
    names = {"meson": []}
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix == ".cpp":
            cases = re.findall(r'TEST_CASE\("((?:[^"\\]|\\.)*)"', path.read_text())
            if cases:
                names.setdefault(path.relative_to(root / "tests").with_suffix("").as_posix(), []).extend(case.replace('\\"', '"') for case in cases)
        elif path.name == "meson.build":
            names["meson"] += re.findall(r"test\('([^']+)'", path.read_text())
            names["meson"] += re.findall(r"'([^']+)': '\w+_test'", path.read_text())
    return names


def check_tests(cell, names):
    for reference in cell.split(" · "):
        file, _, case = reference.partition(": ")
        if file not in names:
            yield f'there is no test file "{file}"'
            continue
        if case.endswith("…"):
            matching = [name for name in names[file] if name.startswith(case[:-1])]
        else:
            matching = [name for name in names[file] if name == case]
        if len(matching) != 1:
            yield f'"{case}" names {len(matching)} tests of {file}, expected 1'


def check_table(root, table, headers, names):
    path = root / "tests" / "promises" / table
    expected = [(header, *s) for header in headers for s in sentences(root / "include" / "fovea" / header)]
    at = -1
    quoted = {}  # quotes of each sentence
    for number, header, section, quote, tests, third in rows(path):
        where = f"{path.name}:{number}"
        if at + 1 < len(expected) and expected[at + 1][:2] == (header, section) and quotes(quote, expected[at + 1][2]):
            at += 1
        elif at < 0 or expected[at][:2] != (header, section) or not quotes(quote, expected[at][2]):
            next_one = expected[at + 1] if at + 1 < len(expected) else ("", "", "the end")
            yield f'{where}: expected a quote from {next_one[0]}, "{next_one[1]}":\n    {next_one[2]}\n  found: {quote}'
            return
        quoted.setdefault(at, []).append((quote, tests))
        if tests == "—":
            if not third:
                yield f"{where}: no test, and no word why"
        else:
            yield from (f"{where}: {fault}" for fault in check_tests(tests, names))
            if third and not set(third.replace(",", "").split()) <= SCORES:
                yield f'{where}: "{third}" is no list of score functions'
    for which, found in quoted.items():
        left = numbers_left_out(expected[which][2], [quote for quote, _ in found])
        if left and any(tests != "—" for _, tests in found):
            yield f"{path.name}: no row quotes {', '.join(left)} of:\n    {expected[which][2]}"
    for header, section, sentence in expected[at + 1 :]:
        yield f'{path.name}: no row for a sentence of {header}, "{section}":\n    {sentence}'


def main():
    root = pathlib.Path(sys.argv[1])
    if len(sys.argv) > 2:
        before = ""
        for section, sentence in sentences(root / "include" / "fovea" / sys.argv[2]):
            if section != before:
                print(f"\n## {section}\n\n| promise | tests | scores |\n|---|---|---|")
            before = section
            print("|", sentence.replace("|", "\\|"), "| — | |")
        return 0
    names = test_names(root)
    faults = [fault for table, headers in TABLES.items() for fault in check_table(root, table, headers, names)]
    print("\n".join(faults) if faults else "every sentence has its row, every test that is named exists")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

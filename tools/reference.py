#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference pages: one HTML page for each operation, from the headers (capi/bindings/interface.json) and the
examples.

usage: reference.py FOLDER     writes index.html and the pages there

A page has the formula, what the header says, every option and flag, what can go wrong, and the same example in four
languages, cut from docs/reference/examples.*, which tests run. It is an error if a function, struct, enum or handle has no
page, a page no example, or a link no target.
"""
import html
import json
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = [("C", "docs/reference/examples.c"), ("C++", "docs/reference/examples.cpp"),
            ("Python", "docs/reference/examples.py"), ("Rust", "capi/bindings/rust/fovea/tests/reference_pages.rs")]
PAGES = json.loads((ROOT / "docs" / "reference" / "pages.json").read_text())
STYLE = (ROOT / "docs" / "reference" / "style.css").read_text()


class Incomplete(Exception):
    """Something has no page, no example or no target."""


class Reference:
    def __init__(self):
        self.interface = json.loads((ROOT / "capi" / "bindings" / "interface.json").read_text())
        self.by_name = {}
        for kind in ("functions", "structs", "handles", "callbacks", "aliases"):
            self.by_name.update({one["name"]: (kind, one) for one in self.interface[kind]})
        for enum in self.interface["enums"]:
            self.by_name[enum["values"][0]["name"]] = ("enums", enum)
        self.page_of = {}  # name: page
        for page in PAGES:
            for name in page["items"]:
                if name not in self.by_name:
                    raise Incomplete(f"page {page['name']} has {name}, which the headers do not")
                if name in self.page_of:
                    raise Incomplete(f"{name} is on two pages")
                self.page_of[name] = page["name"]
        self.place_the_rest()
        self.examples = {language: cut(ROOT / path) for language, path in EXAMPLES}

    def place_the_rest(self):
        """What is named on no page stands where the section's item before or after it does; values of enums with them."""
        self.notes = {}
        for section in self.interface["sections"]:
            here = None
            waiting = []
            for item in section["items"]:
                kind, name = next(iter(item.items()))
                if kind == "note":
                    waiting.append(name)
                    continue
                here = self.page_of.get(name, None)
                if here is None:
                    raise Incomplete(f"{name} is on no page: see docs/reference/pages.json")
                self.notes.setdefault(here, []).extend(waiting)
                waiting = []
            self.notes.setdefault(here, []).extend(waiting)
        for name, (kind, thing) in list(self.by_name.items()):
            if kind == "enums":
                for value in thing["values"]:
                    self.page_of[value["name"]] = self.page_of[name]

    # ---- text --------------------------------------------------------------------------------------------------------

    def linked(self, text, page):
        """Escaped, with names of the interface as links."""
        def link(found):
            target = self.page_of.get(found[0])
            return f'<a href="{"" if target == page else target + ".html"}#{found[0]}">{found[0]}</a>' if target else found[0]

        return re.sub(r"\b(?:fovea_\w+|FOVEA_\w+)\b", link, html.escape(text, quote=False))

    def prose(self, text, page):
        """Paragraphs, and what is indented as it stands: formulas, shapes, tables."""
        blocks, block, indented = [], [], False

        def close():
            if block and indented:
                blocks.append(f"<pre>{self.linked(textwrap.dedent(chr(10).join(block)), page)}</pre>")
            elif block:
                blocks.append(f"<p>{self.linked(' '.join(block), page)}</p>")
            block.clear()

        for line in text.split("\n"):
            is_indented = line.startswith("  ")
            if not line.strip() or is_indented != indented:
                close()
            indented = is_indented
            if line.strip():
                block.append(line if is_indented else line.strip())
        close()
        return "\n".join(blocks)

    def conventions(self):
        """Each begins with its word; what follows is indented below it."""
        found = re.findall(r"^([A-Z]\w+) {2,}(.*(?:\n {2,}.*)*)", self.interface["conventions"], re.M)
        rows = (f"<dt>{word}</dt><dd>{self.linked(re.sub(chr(92) + 's+', ' ', text), 'index')}</dd>" for word, text in found)
        return f"<dl>{''.join(rows)}</dl>"

    # ---- parts of a page ---------------------------------------------------------------------------------------------

    def signature(self, function):
        arguments = ", ".join(declared(a["type"]["c"], a["name"]) for a in function["arguments"]) or "void"
        return f"{declared(function['returns']['c'], function['name'])}({arguments});"

    def function(self, function, page):
        return (f'<section id="{function["name"]}"><h3>{function["name"]}</h3><pre class="code">'
                f'{self.linked(self.signature(function), page)}</pre>{self.prose(function["doc"], page)}</section>')

    def struct(self, struct, page):
        rows = []
        for member in struct["members"]:
            if member["name"].startswith("reserved"):
                continue
            said = "sizeof the struct" if member["name"] == "struct_size" else member["doc"]
            kind = member["type"]["c"] + (f"[{member['type']['array']}]" if "array" in member["type"] else "")
            rows.append(f"<tr><td><code>{member['name']}</code></td><td><code>{self.linked(kind, page)}</code></td>"
                        f"<td>{self.linked(said, page)}</td></tr>")
        return (f'<section id="{struct["name"]}"><h3>{struct["name"]}</h3>{self.prose(struct["doc"], page)}'
                f'<div class="wide"><table><tr><th>member</th><th>type</th><th>meaning</th></tr>{"".join(rows)}</table></div>'
                "</section>")

    def enum(self, enum, page):
        rows = "".join(f'<tr id="{value["name"]}"><td><code>{value["name"]}</code></td><td>{value["value"]}</td>'
                       f"<td>{self.linked(value['doc'], page)}</td></tr>" for value in enum["values"])
        title = "Flags of " if enum["bits"] else "Values of "
        doc = "" if enum["bits"] else self.prose(enum["doc"], page)
        return (f"<section><h3>{title}{self.linked(enum['of'], page)}</h3>{doc}"
                f'<div class="wide"><table><tr><th>name</th><th>value</th><th>meaning</th></tr>{rows}</table></div></section>')

    def plain(self, thing, page):
        return f'<section id="{thing["name"]}"><h3>{thing["name"]}</h3>{self.prose(thing["doc"], page)}</section>'

    def errors(self, functions):
        """By rule, from what the functions take."""
        found = set()
        for function in functions:
            if function["returns"]["c"] != "fovea_status":
                continue
            found |= {"FOVEA_NULL_POINTER", "FOVEA_INTERNAL_ERROR", "FOVEA_OUT_OF_MEMORY"}
            for argument in function["arguments"]:
                base, pointers = argument["type"]["base"], argument["type"]["pointers"]
                if base == "fovea_tensor":
                    found |= {"FOVEA_BAD_RANK", "FOVEA_BAD_SHAPE", "FOVEA_BAD_STRIDE", "FOVEA_BAD_DTYPE", "FOVEA_SIZE_OVERFLOW"}
                    found |= {"FOVEA_OVERLAP"} if argument.get("output") else set()
                if self.by_name.get(base, ("",))[0] == "structs" and base != "fovea_tensor":
                    found |= {"FOVEA_BAD_VALUE", "FOVEA_BAD_OPTION"}
                if base == "fovea_context":
                    found |= {"FOVEA_UNKNOWN_ISA"}
                if pointers == 0 or base.endswith("_kv_pool") or base.endswith("_schedule") or base.endswith("_keys"):
                    found |= {"FOVEA_BAD_VALUE"}
                if argument["name"] in ("workspace", "bytes"):
                    found |= {"FOVEA_WORKSPACE_TOO_SMALL"}
                if base == "fovea_kv_pool" and not argument["type"]["const"]:
                    found |= {"FOVEA_POOL_EXHAUSTED"}
        statuses = next(e["values"] for e in self.interface["enums"] if e["of"] == "fovea_status")
        rows = "".join(f"<tr><td><code>{self.linked(s['name'], '')}</code></td><td>{html.escape(s['doc'])}</td></tr>"
                       for s in statuses if s["name"] in found)
        if not rows:
            return ""
        return ('<h2 id="errors">Errors</h2><p>Outputs are as they were; '
                + self.linked("fovea_last_error", "") + " says which argument, its value and what was expected.</p>"
                f'<div class="wide"><table>{rows}</table></div>')

    def example(self, page):
        parts = []
        for language, snippets in self.examples.items():
            if page["name"] not in snippets:
                raise Incomplete(f"no example in {language} for page {page['name']}")
            parts.append(f'<h3>{language}</h3><pre class="code">{html.escape(snippets[page["name"]], quote=False)}</pre>')
        return '<h2 id="example">Example</h2>' + "".join(parts)

    def page(self, page):
        name = page["name"]
        things = [self.by_name[item] for item in page["items"]]
        render = {"functions": self.function, "structs": self.struct, "enums": self.enum}
        functions = [thing for kind, thing in things if kind == "functions"]
        parts = [f"<h1>{page['title']}</h1>", f'<p class="formula">{page["formula"]}</p>', self.example(page)]
        for title, kinds in (("Functions", ["functions"]), ("Options and types", ["structs", "enums", "handles", "callbacks", "aliases"])):
            rendered = [render.get(kind, self.plain)(thing, name) for kind, thing in things if kind in kinds]
            if rendered:
                parts.append(f'<h2 id="{kinds[0]}">{title}</h2>' + "".join(rendered))
        notes = self.notes.get(name, [])
        if notes:
            parts.append('<h2 id="notes">Notes</h2>' + "".join(self.prose(note, name) for note in notes))
        parts.append(self.errors(functions))
        return document(page["title"], name, "".join(parts))

    def index(self):
        cards = "".join(f'<li><a href="{page["name"]}.html"><b>{page["title"]}</b><span>{page["formula"]}</span></a></li>'
                        for page in PAGES)
        names = sorted(name for name, (kind, _) in self.by_name.items() if kind == "functions")
        listed = " ".join(f"<code>{self.linked(name, 'index')}</code>" for name in names)
        return document("fovea reference", "index", f'<h1>fovea {self.interface["version"]}</h1>'
                        "<p>Attention kernels for CPUs. Each page has the formula, shapes, options and errors of an operation, "
                        f'and the same example in C, C++, Python and Rust.</p><ul class="cards">{cards}</ul>'
                        f"<h2>What holds everywhere</h2>{self.conventions()}<h2>All functions</h2>"
                        f'<p class="names">{listed}</p>')


def declared(kind, name):
    return kind + ("" if kind.endswith("*") else " ") + name


def cut(path):
    """{name: lines between [name] and [end], wherever there are some}, moved to the left."""
    found = {}
    for name, body in re.findall(r"^ *(?://|#) \[(\w+)\]\n(.*?)^ *(?://|#) \[end\]", path.read_text(), re.M | re.S):
        found.setdefault(name, []).append(textwrap.dedent(body).rstrip("\n"))
    return {name: "\n".join(parts) for name, parts in found.items()}


def document(title, name, body):
    links = "".join(f'<a href="{page["name"]}.html"{" class=here" if page["name"] == name else ""}>{page["title"]}</a>'
                    for page in PAGES)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
            f'<nav><a class="home" href="index.html">fovea</a><div>{links}</div></nav><main>{body}</main></body></html>\n')


def check_links(folder):
    ids = {path.name: set(re.findall(r'\bid="([^"]+)"', path.read_text())) for path in folder.glob("*.html")}
    for path in folder.glob("*.html"):
        for target, anchor in re.findall(r'href="([^"#]*)(?:#([^"]*))?"', path.read_text()):
            page = target or path.name
            if page not in ids or (anchor and anchor not in ids[page]):
                raise Incomplete(f"{path.name} links to {target}#{anchor}, which is not there")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.html"):
        old.unlink()
    try:
        reference = Reference()
        for page in PAGES:
            (folder / f"{page['name']}.html").write_text(reference.page(page))
        (folder / "index.html").write_text(reference.index())
        check_links(folder)
    except Incomplete as missing:
        sys.exit(f"reference.py: {missing}")
    print(f"{len(PAGES)} pages: {folder}/index.html")


if __name__ == "__main__":
    main()

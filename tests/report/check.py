#!/usr/bin/env python3
"""What README.md and the report promise.

  check.py readme SOURCE | command SOURCE | cases SOURCE BENCH | page SOURCE SCRATCH

readme: the marked blocks are what `./dev report --readme` would write of the stored run, its pictures small.
command: ./dev knows the command and refuses what it does not take.
cases: every case that is stored or asked for by name is one of the bench's.
page: the page loads nothing; a browser, where there is one, shows all of its pictures without a network.
"""
# SPDX-License-Identifier: Apache-2.0
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def fail(text):
    sys.exit(f"FAILED: {text}")


def check_readme(root):
    import readme

    text = (root / "README.md").read_text(encoding="utf-8")
    kept, name = readme.newest(root)
    names = [found[2] for found in readme.MARKED.finditer(text)]
    if sorted(names) != sorted(readme.BLOCKS):
        fail(f"README.md has the marked blocks {names}, expected {sorted(readme.BLOCKS)}")
    if readme.rewritten(text, kept) != text:
        fail(f"README.md's figures are not those of docs/measured/{name}: ./dev report --draw --readme writes them")
    if readme.rewritten(text.replace(kept["date"], "2001-01-01"), kept) != text:
        fail("a changed date within the blocks would not be noticed")
    for picture in readme.PICTURES:
        path = root / "docs" / picture
        if f"docs/{picture}" not in text or not path.exists() or not 1000 < path.stat().st_size < 100_000:
            fail(f"docs/{picture} is not shown in README.md, not there, or not between 1 and 100 kB")
    for document in ("README.md", "docs/performance.md"):
        for target in re.findall(r"\]\(([^)#:]+)", (root / document).read_text(encoding="utf-8")):
            if not ((root / document).parent / target).exists():
                fail(f"{document} links {target}, which is not there")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def check_command(root):
    with tempfile.TemporaryDirectory() as scratch:  # where nothing is lost should a refusal be missing
        shutil.copytree(root / "tools", pathlib.Path(scratch) / "tools")
        check_refusals(root, shutil.copy(root / "dev", scratch))


def check_refusals(root, dev):
    if not re.search(r"^  report ", run(dev, "help").stdout, re.M):
        fail("./dev help does not list report")
    for wrong in ("--nonsense", "everything", "--only"):
        refused = run(dev, "report", wrong)
        if refused.returncode != 2 or wrong not in refused.stderr:
            fail(f"./dev report {wrong} is not refused: {refused.returncode}, {refused.stderr[:200]}")
    text = (root / "README.md").read_text(encoding="utf-8")
    for command in set(re.findall(r"`\./dev (\w+)", text)):
        if not re.search(rf"^  {command}\b", run(dev, "help").stdout, re.M):
            fail(f"README.md names ./dev {command}, which there is not")


def check_cases(root, bench):
    import cases
    import collect
    import readme

    known = {cases.split(name)[0] for name in collect.names_of(bench)}
    kept, _ = readme.newest(root)
    stored = {row["case"] for row in kept["bench"] + kept["peers"]}
    for case in sorted(
        {*cases.CHOSEN, *cases.LEFT_OUT_WHEN_QUICK, *cases.BOTH_WHEN_QUICK, *cases.QUICK_PEERS, *cases.CHOSEN_PEERS, *stored} - known
    ):
        fail(f"the bench has no case {case}")
    if not stored & set(cases.CHOSEN):
        fail("the stored run has none of the cases that README.md shows")


class Loads(html.parser.HTMLParser):
    """Collects what a page would load from elsewhere, and counts its pictures."""

    def __init__(self):
        super().__init__()
        self.elsewhere, self.pictures, self.headings, self.without_text = [], 0, 0, 0

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.pictures += tag == "img"
        self.without_text += tag == "img" and not given.get("alt")
        self.headings += tag == "h2"
        if tag in ("script", "link", "iframe", "object", "embed", "base"):
            self.elsewhere.append(f"<{tag}>")
        for name, value in given.items():
            inside = (value or "").startswith(("#", "data:"))
            if name in ("src", "srcset", "href", "poster", "data", "action", "xlink:href") and not inside:
                self.elsewhere.append(f"{tag} {name}={value[:60]}")
            elif name == "style" and "url(" in (value or ""):
                self.elsewhere.append(f"{tag} style={value[:60]}")

    def handle_data(self, data):
        if (self.get_starttag_text() or "").startswith("<style") and re.search(r"url\(|@import", data):
            self.elsewhere.append("the style sheet")


def loads_of(text):
    found = Loads()
    found.feed(text)
    return found


def sample_results():
    """A run as measured, in small: each part of the page has something to show."""
    bench = [
        {
            "case": f"sdpa/f32/{shape}",
            "operation": "sdpa",
            "dtype": "f32",
            "shape": shape,
            "isa": isa,
            "threads": threads,
            "seconds": 0.004 / threads,
            "rate": 100.0,
            "rate_unit": "GFLOP/s",
            "share": 0.8,
            "limit": 120.0,
            "scaling": 1.9,
        }
        for shape in ("bert_base", "decode_cold")
        for isa in ("avx2", "avx512")
        for threads in (1, 2)
    ]
    lengths = [
        {
            "operation": operation,
            "dtype": "f32",
            "length": length,
            "isa": "avx512",
            "threads": threads,
            "seconds": 1e-7 * length**2 / threads,
            "workspace": 3e5,
            "tensor_bytes": 4 * length**2,
        }
        for operation in ("attention", "additive attention")
        for length in (64, 128, 256)
        for threads in (1, 2)
    ]
    many = {"1": 8, "2": 8, "16": 16, "64": 16, "128": 16}
    calls = [
        {
            "name": name,
            "bound": bound,
            "warm": True,
            "bytes": 1 << 20,
            "tasks": many,
            "inflation": dict.fromkeys(many, 1.0),
            "traffic": dict.fromkeys(many, 1 << 22),
            "seconds": {"1": 0.008, "2": 0.0042},
        }
        for name, bound in (("encoder", "flops"), ("decoding", "bytes"))
    ]
    return {
        "date": "2001-01-01",
        "version": "0",
        "isa": "avx512",
        "quick": True,
        "bench": bench,
        "lengths": lengths,
        "machine": {
            "processor": "one <made up>",
            "architecture": "x86_64",
            "family": "",
            "model": "",
            "cores_seen": 2,
            "nodes": 1,
            "virtual": True,
            "sets": ["avx2"],
            "memory_bytes": 1 << 33,
            "system": "Linux",
            "caches": [{"level": 1, "bytes": 32768, "shared_by": 1}],
        },
        "cases": {"sdpa/f32/bert_base": {"bound": "flops", "flops": 8e8, "bytes": 3e6}},
        "limits": [
            {"isa": "avx512", "threads": threads, "flops": 1e11 * threads, "read_bytes": 3e10 * threads}
            for threads in (1, 2)
        ],
        "threads": calls,
        "barely_shared": [[4e-5, 3e-5]],
        "errors": [
            {"operation": operation, "dtype": "f32", "keys": keys, "way": way, "error": 1e-7}
            for operation in ("attention", "additive attention")
            for keys in (16, 64)
            for way in ("avx512", "plain float32")
        ],
        "peers": {
            "versions": {"other": "1"},
            "results": [
                {
                    "case": "sdpa/f32/bert_base",
                    "operation": "sdpa",
                    "library": "other",
                    "way": "fused",
                    "dtype": "f32",
                    "threads": 2,
                    "seconds": 0.005,
                    "fovea_seconds": 0.004,
                    "status": "ok",
                    "error": 1e-7,
                    "fovea_error": 1e-7,
                    "bytes": 1000000,
                    "ratio": {"median": 1.2, "low": 1.1, "high": 1.3, "pairs": 5},
                },
                {
                    "case": "sdpa/f32/bert_base",
                    "operation": "sdpa",
                    "library": "none",
                    "way": "",
                    "dtype": "f32",
                    "threads": 2,
                    "seconds": None,
                    "status": "missing",
                    "reason": "<not there>",
                },
            ],
        },
    }


def check_loads(text):
    found = loads_of(text)
    if found.elsewhere:
        fail(f"the page loads {', '.join(found.elsewhere)}")
    if found.pictures != 8 or found.without_text:
        fail(f"the page has {found.pictures} pictures of 8, {found.without_text} without words for them")
    if "<made up>" in text or "<not there>" in text:
        fail("text from outside is markup in the page")
    for bad in (
        '<img src="https://example.org/a.png">',
        '<link rel="stylesheet" href="a.css">',
        "<script>1</script>",
        '<style>p { background: url("a.png") }</style>',
        '<source srcset="a.svg">',
    ):
        if not loads_of(text.replace("</main>", bad + "</main>")).elsewhere:
            fail(f"{bad} would not be noticed")
    return found


def check_in_browser(path, text, found):
    """The page as a browser has read it, without a network: how many pictures have a size, and all its headings."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("left out: no Chromium to open the page with")
        return
    counting = path.with_name("counting.html")
    count = (
        "<script>addEventListener('load', () => { document.title = 'pictures: ' + [...document.images].filter("
        "each => each.naturalWidth > 100).length; });</script>"
    )
    counting.write_text(
        text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';").replace(
            "</main>", "</main>" + count
        ),
        encoding="utf-8",
    )
    shown = run(
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000",
        "--dump-dom",
        counting.as_uri(),
    )
    if f"<title>pictures: {found.pictures}</title>" not in shown.stdout or shown.stdout.count("<h2>") != found.headings:
        fail(
            f"Chromium does not show the page: {re.findall('<title>.*?</title>', shown.stdout)}, {shown.stderr[-300:]}"
        )
    print("ok: all pictures are shown in Chromium without a network")


def check_page(scratch):
    try:
        import page
        import report
    except ImportError as missing:
        print(f"left out: {missing}")
        sys.exit(SKIPPED)
    scratch.mkdir(parents=True, exist_ok=True)
    results = sample_results()
    report.add_model(results)
    page.write(results, scratch)
    report.write_csv(results, scratch / "results.csv")
    path = scratch / "report.html"
    text = path.read_text(encoding="utf-8")
    check_in_browser(path, text, check_loads(text))


def main():
    what, root = sys.argv[1], pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(root / "bench" / "report"))
    sys.dont_write_bytecode = True
    if what == "readme":
        check_readme(root)
    elif what == "command":
        check_command(root)
    elif what == "cases":
        check_cases(root, sys.argv[3])
    else:
        check_page(pathlib.Path(sys.argv[3]))
    print(f"ok: {what}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""What the headers' words say of a tensor: its axes, element types, the numbers it holds. For generate.py.

The headers describe every tensor in one manner, `key F32 [B,Hkv,K,D]`, which is read here. A letter is a size of the call,
"..." a few axes of any size, `H D` a product, `x's shape` that of another argument. A function that says none of an
argument takes what the functions say that it names ("as fovea_sdpa"). What is said in no such manner gets a random shape.
"""
import re

TYPES = r"(?:F32|F16|BF16|I32|I64|I8|U8|BOOL|F)"
# Not `out[i,2j]`, an element in a formula.
BETWEEN = rf"(?:'s|,|\s)(?:,|\s|{TYPES}\b|NULL\b|or\b|and\b|output\b)*"
GROUP = r"\[[^\]\n]*\]"
GROUPS = rf"{GROUP}(?:(?:,|\s|\()*or\s+{GROUP})*"


class Symbols:
    """Letters and words that stand for sizes, numbered as they are met."""

    def __init__(self):
        self.names = []

    def number(self, name):
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def expression(self, text):
        """C++ for `(H + 2 Hkv) D`, or None if it is no such thing."""
        tokens = re.findall(r"[A-Za-z]\w*|\d+|[+()]|\S", text)
        if not tokens or any(not re.fullmatch(r"[A-Za-z]\w*|\d+|[+()]", token) for token in tokens):
            return None
        written, before = [], None
        for token in tokens:
            if before is not None and before not in "+(" and token not in "+)":
                written.append("*")
            written.append(f"s[{self.number(token)}]" if token[0].isalpha() else
                           f"{token}u" if token[0].isdigit() else token)
            before = token
        return " ".join(written)

    def axes(self, group):
        """[(C++, the symbol's number or -1, a bit for each in it)], "..." as None, of `[B,Hkv,K,D]`; None if it does
        not read."""
        found = []
        for part in re.split(r",(?![^(]*\))", group.strip("[]")):
            part = part.strip()
            if part == "...":
                found.append(None)
                continue
            code = self.expression(part)
            if code is None:
                return None
            bits = sum(1 << int(number) for number in set(re.findall(r"s\[(\d+)\]", code)))
            found.append((code, self.names.index(part) if part in self.names else -1, bits))
        return found


def groups_in(text):
    return re.findall(GROUP, text)


class Docs:
    def __init__(self, interface, symbols):
        self.symbols = symbols
        self.functions = {function["name"]: function for function in interface["functions"]}
        self.order = [function["name"] for function in interface["functions"]]

    def texts(self, name, seen=None):
        """The comment of a function, then those of the functions it names, or of the one before if it names none."""
        seen = set() if seen is None else seen
        if name in seen:
            return
        seen.add(name)
        doc = self.functions[name].get("doc", "")
        yield doc
        named = [other for other in re.findall(r"\bfovea_\w+", doc) if other in self.functions]
        at = self.order.index(name)
        for other in named or ([self.order[at - 1]] if at and re.search("likewise|^The same ", doc) else []):
            yield from self.texts(other, seen)

    def may_be_null(self, function, name):
        words = rf"\b{name}( {TYPES})?( {GROUP})?( or)? NULL\b"
        return any(re.search(words, text) for text in self.texts(function))

    def argument(self, function, name):
        """(shapes, the text around them) of an argument, as the comments say them."""
        for text in self.texts(function):
            match = re.search(rf"\b{name}\b{BETWEEN}({GROUPS})", text)
            if match:
                shapes = list(filter(None, map(self.symbols.axes, groups_in(match[1]))))
                return shapes, text[match.start():match.end() + 60]
            match = re.search(rf"\b{name}\b[^.\[]*?\brank (\d)\b", text)
            if match and " to " not in text[match.end():match.end() + 4]:
                return [self.symbols.axes(f"[{','.join(f'n{axis}' for axis in range(int(match[1])))}]")], match[0]
        return [], ""

    def member(self, doc):
        """The shapes of a struct's member, which says them beside itself: not `each in [0, K]`, nor `cosines[p,j]`."""
        groups = re.findall(rf"(?<![\w\]])(?<!\bin )({GROUP})", doc)
        return list(filter(None, map(self.symbols.axes, groups)))

    @staticmethod
    def shape_of(doc):
        """x, of `x's shape`."""
        match = re.search(r"\b(\w+)(?:'s|(?<=s)') shape", doc)
        return match[1] if match else None


def element_types(text, name=""):
    """Whether integers, truth values, numbers with a point, or the scales of numbers of 8 or 4 bits."""
    if re.fullmatch(r"(\w+_)?scales", name):
        return "scales"
    head = text.split("]")[0] + text[text.find("]"):][:60]
    if re.search(r"\bI(32|64)\b", head):
        return "integers"
    return "truth" if re.search(r"\bBOOL\b", head) else "floats"


def bound(text, symbols):
    """(C++ of the largest integer a tensor may hold, or None)."""
    match = re.search(r"each\s+in\s+\[0, (\w+)([\])])", text)
    if not match:
        return None
    code = symbols.expression(match[1])
    return code if match[2] == "]" else f"{code} - 1"


def rows_by_kind(struct, symbols):
    """{kind: {member: shapes}} of a table in a struct's comment whose head begins with one of its members' names, and
    {kind: (symbol, symbol)} of sizes said to be equal."""
    members = {member["name"] for member in struct["members"]}
    lines = struct.get("doc", "").split("\n")
    rows, equal = {}, {}
    for at, line in enumerate(lines):
        head = [(match.start(), match[0]) for match in re.finditer(r"\w+", line)]
        if len(members.intersection(word for _, word in head)) < 3 or not head or head[0][1] not in members:
            continue
        ends = [start for start, _ in head[1:]] + [None]
        for row in lines[at + 1:]:
            kind = re.match(r"\s*([A-Z]\w*)\b", row)
            if not kind:
                break
            cells = {word: row[start:end] for (start, word), end in zip(head[1:], ends[1:]) if word in members}
            rows[kind[1]] = {word: list(filter(None, map(symbols.axes, groups_in(cell))))
                             for word, cell in cells.items() if cell.strip()}
            same = re.search(r"\b([A-Z]\w*) = ([A-Z]\w*)", row)
            if same:
                equal[kind[1]] = (symbols.number(same[1]), symbols.number(same[2]))
        break
    return rows, equal


def rows_by_words(struct, kinds, symbols):
    """{kind: {member: shapes}} of members that say `of YARN: ...` or `of all kinds but PLAIN: ...`; those that say nothing
    of the kind go with each. {} where none says so."""
    rows, said = {kind: {} for kind in kinds}, False
    docs = Docs({"functions": []}, symbols)
    for member, doc in zip(struct["members"], member_docs(struct)):
        match = re.match(r"of (all kinds but )?([A-Z][A-Z0-9]+(?:(?:,| and) [A-Z][A-Z0-9]+)*):", member["doc"])
        said = said or match is not None
        named = re.findall(r"[A-Z][A-Z0-9]+", match[2]) if match else kinds
        for kind in kinds:
            if (kind in named) != bool(match and match[1]) and member["name"] not in ("struct_size", "kind"):
                rows[kind][member["name"]] = docs.member(doc)
    return rows if said else {}


def member_docs(struct):
    """What each member says; one that says "likewise" what the one before does too."""
    docs = []
    for member in struct["members"]:
        doc = member["doc"]
        if re.search(r"\blikewise\b", doc) and docs and "[" not in doc:
            doc = re.sub(r"\blikewise\b", lambda _: re.sub(r"^output |^of [^:]*: ", "", docs[-1]), doc, count=1)
        docs.append(doc)
    return docs

"""Everything the C interface has is reached from Python: a new function or option fails here until it is, or until it is
named below with the reason why not."""
import json
import os
import pathlib
import re

import pytest

import fovea
from fovea import _fovea, options

PACKAGE = pathlib.Path(fovea.__file__).parent
SOURCES = {path.stem: path.read_text() for path in PACKAGE.glob("*.py")}

WITHOUT_A_WRAPPER = {
    "fovea_last_error": "exceptions carry it", "fovea_last_error_copy": "exceptions carry it",
    "fovea_tensor_contiguous": "arrays describe themselves", "fovea_tensor_from_dlpack": "every array goes through it",
    "fovea_attention_run": "Plan calls it",
    "fovea_schedule_run_tasks": "Python's threads take turns, fovea_schedule_run has its own", "fovea_plan_workspace_size": "Plan.workspace_size",
    "fovea_plan_describe": "Plan.describe",
    "fovea_sdpa_plan_create": "fovea_attention_plan_create plans it too", "fovea_matmul_pack": "fovea_linear_pack packs it",
    "fovea_multi_head_attention_once": "MultiHeadAttention packs",
}
WITHOUT_A_KEYWORD = {
    "parallel_for": "a Python function would hold the lock for each task", "parallel_for_user": "the same",
    "workers": "of fovea_schedule_run_tasks",
    "struct_size": "the extension sets it", "reserved": "0", "reserved_tail": "0",
}


def interface():
    path = os.environ.get("FOVEA_INTERFACE")
    if not path:
        pytest.skip("FOVEA_INTERFACE does not name interface.json")
    return json.loads(pathlib.Path(path).read_text())


def test_every_function_is_called():
    destroyers = {handle["destroy"] for handle in interface()["handles"]}
    called = set(re.findall(r"_fovea\.(\w+)", " ".join(SOURCES.values())))
    for function in interface()["functions"]:
        name = function["name"]
        if name in destroyers | set(WITHOUT_A_WRAPPER):
            continue
        assert hasattr(_fovea, name.removeprefix("fovea_")), f"the extension lacks {name}"
        assert name.removeprefix("fovea_") in called, f"no function of the package calls {name}"


def test_every_member_can_be_given():
    words = {name: set(re.findall(r"\w+", text)) for name, text in SOURCES.items()}
    anywhere = set().union(*words.values())
    for struct in interface()["structs"]:
        if not struct["options"] or struct["name"] in ("fovea_attention_buffers", "fovea_mha_buffers"):
            continue
        for member in struct["members"]:
            name = member["name"]
            if name in WITHOUT_A_KEYWORD:
                continue
            assert name in _fovea.members()[struct["name"]], f"the extension lacks {struct['name']}.{name}"
            assert name in anywhere, f"no function of the package gives {struct['name']}.{name}"


def test_every_option_of_attention_is_a_keyword():
    """And has its line in AttentionOptions, which type checkers know."""
    declared = set(options.AttentionOptions.__annotations__)
    for name in options.names():
        assert name in declared, f"AttentionOptions lacks {name}"


def test_every_flag_and_choice_is_used():
    text = " ".join(SOURCES.values())
    for enum in interface()["enums"]:
        if enum["of"] in ("fovea_status", "fovea_dtype"):
            continue
        for value in enum["values"]:
            name = value["name"].removeprefix("FOVEA_")
            assert hasattr(_fovea, name) and f"_fovea.{name}" in text, f"the package lacks {value['name']}"


def test_layouts_are_the_headers():
    """Offsets are the compiler's own; what is left to see is that the description has the same members in the same order."""
    for struct in interface()["structs"]:
        if struct["name"] in _fovea.members():
            names = [m["name"] for m in struct["members"] if m["name"] not in WITHOUT_A_KEYWORD]
            assert names == list(_fovea.members()[struct["name"]])


def test_the_version():
    assert fovea.__version__ == interface()["version"]


def test_what_is_public_is_documented():
    for name in fovea.__all__:
        assert getattr(fovea, name).__doc__, f"fovea.{name} says nothing of itself"

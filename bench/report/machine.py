"""Finds out what machine this is: processor, caches, instruction sets, memory, system."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import platform
import statistics

CACHE_FOLDER = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")
NODE_FOLDER = pathlib.Path("/sys/devices/system/node")
# What tells kernels apart, as /proc/cpuinfo names it.
SETS = (
    "sse2",
    "avx2",
    "fma",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "amx_fp16",
    "asimd",
    "bf16",
    "sve",
)


def read(path):
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def cpu_facts():
    """The first processor's lines of /proc/cpuinfo."""
    facts = {}
    for line in read(pathlib.Path("/proc/cpuinfo")).split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    return facts


def count_of(list_text):
    """How many numbers "0-3,8" names."""
    count = 0
    for part in filter(None, list_text.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def caches():
    found = []
    for folder in sorted(CACHE_FOLDER.glob("index*")):
        kind = read(folder / "type")
        if kind != "Instruction":
            found.append(
                {
                    "level": int(read(folder / "level")),
                    "bytes": int(read(folder / "size").rstrip("K")) * 1024,
                    "shared_by": count_of(read(folder / "shared_cpu_list")),
                }
            )
    return found


def describe():
    facts = cpu_facts()
    flags = set(facts.get("flags", facts.get("Features", "")).split())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    return {
        "processor": facts.get("model name", platform.processor() or platform.machine()),
        "architecture": platform.machine(),
        "family": facts.get("cpu family", ""),
        "model": facts.get("model", ""),
        "cores_seen": len(os.sched_getaffinity(0)),
        "nodes": max(1, len(list(NODE_FOLDER.glob("node[0-9]*")))),
        "virtual": "hypervisor" in flags,
        "sets": [name for name in SETS if name in flags],
        "caches": caches(),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def kind(machine):
    """In a word or two, where the model tells more than the name that a virtual machine is given."""
    if machine["processor"].startswith("AMD") and machine["family"] == "25":
        model = int(machine["model"] or 0)
        zen4 = 0x10 <= model <= 0x1F or 0x60 <= model <= 0x7F or model >= 0xA0
        return "AMD Zen 4" if zen4 else "AMD Zen 3"
    if "amx_tile" in machine["sets"]:
        return "Intel with AMX"
    return machine["processor"]


def bytes_text(count):
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count} bytes"


def rows(machine):
    """(what, value) pairs, as a table shows them."""
    shown = [
        ("processor", f"{machine['processor']} ({kind(machine)}{', a virtual machine' if machine['virtual'] else ''})"),
        (
            "cores",
            f"{machine['cores_seen']} seen, {machine['nodes']} node{'s' if machine['nodes'] > 1 else ''} of memory",
        ),
    ]
    for cache in machine["caches"]:
        owner = "each core" if cache["shared_by"] == 1 else f"shared by {cache['shared_by']} of those seen"
        shown.append((f"cache, level {cache['level']}", f"{bytes_text(cache['bytes'])}, {owner}"))
    return shown + [
        ("memory", bytes_text(machine["memory_bytes"])),
        ("instruction sets", ", ".join(machine["sets"])),
        ("system", machine["system"]),
    ]


def spread(values):
    """Least, median and most of some measurements."""
    return {"low": min(values), "median": statistics.median(values), "high": max(values), "count": len(values)}

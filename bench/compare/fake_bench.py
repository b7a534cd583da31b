"""A program for the tests that speaks fovea_bench's language and makes its times up.

fake_bench.py SETTINGS ARGUMENTS... where SETTINGS is a JSON file: "seconds" by case; "log", a file that gets a line for
each request; and what goes wrong: "banner", "refuses" (cases), "dies" (cases, when they are to be timed), "silent".
"""
import json
import os
import random
import sys
import time


def serve(settings):
    print(settings.get("banner", "ok fovea_bench serves 1"), flush=True)
    name = None
    for line in sys.stdin:
        words = line.split()
        if "log" in settings:
            with open(settings["log"], "a", encoding="utf-8") as log:
                log.write(f"{os.getpid()} {settings['side']} {line}")
        if words[0] == "prepare":
            name = words[1]
            refused = name in settings.get("refuses", [])
            print("error FOVEA_BAD_OPTION: flags" if refused else f"ok avx2 {words[3].replace('-', '2')}", flush=True)
            continue
        if name in settings.get("dies", []):
            print("out of memory", file=sys.stderr)
            sys.exit(3)
        if name in settings.get("silent", []):
            time.sleep(60)
        if name in settings.get("babbles", []):
            print("ok fast", flush=True)
            continue
        blocks = int(words[2]) if len(words) > 2 else 1
        seconds = settings["seconds"][name]
        print("ok " + " ".join(f"{seconds * random.uniform(0.999, 1.001):.9g}" for _ in range(blocks)), flush=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    if sys.argv[2] == "--serve":
        serve(settings)
    else:
        pattern = sys.argv[3] if len(sys.argv) > 3 else ""
        print(json.dumps([{"name": name} for name in settings["seconds"] if pattern in name]))


main()

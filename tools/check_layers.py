#!/usr/bin/env python3
"""Fails when a folder of src/ includes a folder that layers.txt does not allow, or by a relative path.

usage: check_layers.py SRC LAYERS
"""
import os
import re
import sys

src, layers = sys.argv[1:3]
allowed, problems = {}, []
for line in open(layers):
    if not line.strip():
        continue
    folder, uses = line.split(":")
    folder, uses = folder.strip(), uses.split()
    problems += [f"layers.txt: {folder} may name only folders on lines above, not {u}" for u in uses if u not in allowed]
    allowed[folder] = set(uses) | {folder}

files = {}
for root, _, names in os.walk(src):
    for name in sorted(names):
        if not name.endswith((".h", ".cpp", ".inc")):
            continue
        path = os.path.join(root, name)
        relative = os.path.relpath(path, src)
        folder = relative.split(os.sep)[0]
        if folder not in allowed:
            problems.append(f"{relative}: folder {folder} is not in layers.txt")
            continue
        files[relative] = []
        for number, line in enumerate(open(path), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            target = m.group(1)
            files[relative].append(os.path.normpath(target))
            if target.startswith("."):
                problems.append(f"{relative}:{number}: relative include {target}")
            elif not os.path.exists(os.path.join(src, target)):
                problems.append(f"{relative}:{number}: {target} is not a path below src/")
            elif target.split("/")[0] not in allowed[folder]:
                problems.append(f"{relative}:{number}: {folder} may not include {target}")


def walk(file, trail):  # a circle between files, inside a folder too
    if file in trail:
        problems.append("circle: " + " -> ".join(trail[trail.index(file):] + [file]))
        return
    if file in done:
        return
    for target in files.get(file, []):
        walk(target, trail + [file])
    done.add(file)


done = set()
for file in list(files):
    walk(file, [])
for p in problems:
    print(p)
print(f"{len(files)} files, {len(problems)} problems")
sys.exit(bool(problems))

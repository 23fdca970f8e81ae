#!/usr/bin/env python3
"""Fails when the objects of the SIMD kernels could lend each other code built for another instruction set.

usage: check_symbols.py BUILT SOURCES
BUILT is the build folder of src/kernel, SOURCES is src/kernel/cpu. Of two weak symbols of one name (inline functions,
templates) the linker keeps either, so a function compiled for AVX-512 could be called where only AVX2 is. Therefore
such an object defines no weak symbol, and no strong one that another instruction set's object of the same source
defines too. An object counts as SIMD when its source lies below SOURCES and is compiled more than once.
"""
import collections
import os
import re
import subprocess
import sys

built, sources = sys.argv[1:3]
folder_name = os.path.basename(os.path.normpath(sources))
names = {os.path.join(folder_name, os.path.relpath(os.path.join(folder, n), sources))
         for folder, _, files in os.walk(sources) for n in files if n.endswith((".cpp", ".inc"))}
objects = collections.defaultdict(list)  # cpu/name.cpp: its objects, each below .../TARGET.dir/
for folder, _, files in os.walk(built):
    for file in files:
        path = os.path.join(folder, file)
        name = re.sub(r".*\.dir/", "", path)[:-2]
        if file.endswith(".o") and name in names:
            objects[name].append(path)
objects = {source: paths for source, paths in objects.items() if len(paths) > 1}

problems, count = [], 0
for source, paths in sorted(objects.items()):
    seen = {}
    for path in sorted(paths):
        count += 1
        where = os.path.relpath(path, built)
        lines = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", path], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        for line in lines:
            m = re.match(r"\S*\s+(\w)\s+(.*)", line)
            kind, symbol = m[1], m[2]
            if kind in "WwVvu":
                problems.append(f"{where}: weak symbol {symbol}")
            elif symbol in seen:
                problems.append(f"{where}: {symbol} is defined by {seen[symbol]} too")
            else:
                seen[symbol] = where
for p in problems:
    print(p)
print(f"{count} objects of {len(objects)} sources, {len(problems)} problems")
sys.exit(bool(problems))

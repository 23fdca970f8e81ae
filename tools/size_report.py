#!/usr/bin/env python3
"""Reports what is over the soft budgets of size: files, functions, the training step, the strategies.

usage: size_report.py [SRC]
Budgets: 400 lines a file, 60 a function, 150 for train/step.cpp, 120 for a strategy. Reported, never enforced: passing
one asks for a sentence in the change that does.
"""
import os
import re
import sys

src = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src")
kFile, kFunction, kStep, kStrategy = 400, 60, 150, 120
STRATEGIES = ("single.cpp", "all_gather.cpp", "ring.cpp", "ulysses.cpp", "usp.cpp")


def functions(lines):
    """(name, first line, lines) of every function: an unindented line that is followed by a body closed by a lone }."""
    begin = None
    for number, line in enumerate(lines, 1):
        if begin is None and re.match(r"[A-Za-z_~].*[({,]\s*$", line) and not re.match(
                r"(namespace|struct|class|enum|union|using|#|typedef|extern)\b", line) and "=" not in line.split("(")[0]:
            begin = number
        if begin is not None and (line.startswith("}") or re.match(r"\S.*;\s*$", line)):
            if line.startswith("}"):
                head = " ".join(lines[begin - 1:begin + 3])
                m = re.search(r"([\w:~]+)\s*\(", head)
                yield (m[1] if m else "?"), begin, number - begin + 1
            begin = None


over, files, total, largest = [], 0, 0, []
for folder, _, names in os.walk(src):
    for name in sorted(names):
        if not name.endswith((".h", ".cpp", ".inc", ".cu")):
            continue
        path = os.path.join(folder, name)
        relative = os.path.relpath(path, src)
        lines = open(path).read().splitlines()
        files += 1
        total += len(lines)
        largest.append((len(lines), relative))
        budget = kFile
        if relative == os.path.join("train", "step.cpp"):
            budget = kStep
        elif relative.startswith("strategy" + os.sep) and name in STRATEGIES:
            budget = kStrategy
        if len(lines) > budget:
            over.append(f"{relative}: {len(lines)} lines, budget {budget}")
        for function, at, length in functions(lines):
            if length > kFunction:
                over.append(f"{relative}:{at}: {function} has {length} lines, budget {kFunction}")
print("\n".join(sorted(over)) or "nothing is over its budget")
print("largest: " + ", ".join(f"{name} {n}" for n, name in sorted(largest, reverse=True)[:5]))
print(f"{files} files, {total} lines, {len(over)} over a budget")

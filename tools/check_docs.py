#!/usr/bin/env python3
"""Fails when a page names a file of this project that does not exist, or links to one.

usage: check_docs.py ROOT
Looks at README.md, CONTRIBUTING.md and docs/**/*.md: at `code` that looks like a path below a folder of the project or
like a file of its root, and at [links](path). `a/b.{h,cpp}` means both. A name with * or <> or $ is not a path.
"""
import glob
import os
import re
import sys

root = sys.argv[1]
pages = [os.path.join(root, n) for n in ("README.md", "CONTRIBUTING.md")]
pages += sorted(glob.glob(os.path.join(root, "docs", "**", "*.md"), recursive=True))
tops = {n for n in os.listdir(root) if os.path.isdir(os.path.join(root, n))} - {".git", "build", "runs"}
layers = {line.split(":")[0].strip() for line in open(os.path.join(root, "src", "layers.txt")) if line.strip()}


def expand(name):
    m = re.match(r"(.*)\{([^}]*)\}(.*)$", name)
    return [m[1] + part + m[3] for part in m[2].split(",")] if m else [name]


def exists(name, page):
    """A path from the root, from src/ (pages name src/train/step.cpp as train/step.cpp), or from the page's folder; a
    name without an extension stands for a header and its source."""
    paths = [os.path.join(base, name) for base in (root, os.path.join(root, "src"), os.path.dirname(page))]
    return any(os.path.exists(p) or os.path.exists(p + ".h") or os.path.exists(p + ".cpp") for p in paths)


problems, count = [], 0
for page in pages:
    if not os.path.exists(page):
        problems.append(f"{os.path.relpath(page, root)} is missing")
        continue
    fenced = False
    for number, line in enumerate(open(page), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        names = [(n, False) for n in re.findall(r"`([^`\s]+)`", line)]
        names += [(n.split("#")[0], True) for n in re.findall(r"\]\(([^)\s]+)\)", line) if "://" not in n]
        for name, link in names:
            for path in expand(name.removeprefix("./").rstrip("/")):
                top = path.split("/")[0]
                ours = "/" in path and top in tops | layers and not re.search(r"[*<>$=]", path)
                ours |= bool(re.fullmatch(r"[A-Z]+\.md|CMake\w+\.\w+", path))
                if not path or not (ours or link):
                    continue
                count += 1
                if not exists(path, page):
                    problems.append(f"{os.path.relpath(page, root)}:{number}: {path} does not exist")
for p in problems:
    print(p)
print(f"{len(pages)} pages, {count} paths, {len(problems)} problems")
sys.exit(bool(problems))

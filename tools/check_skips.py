#!/usr/bin/env python3
"""Fails when a GoogleTest test was skipped that the checked-in list does not allow to be.

usage: check_skips.py RESULTS LIST
A line of LIST is `Suite.Test  reason`; the name may hold * (machines differ: one lacks an instruction set, another not).
"""
import fnmatch
import glob
import json
import os
import sys

results, path = sys.argv[1:3]
allowed, problems, ran, skips = [], [], 0, 0
for number, line in enumerate(open(path), 1):
    line = line.split("#")[0].strip()
    if not line:
        continue
    name, _, reason = line.partition(" ")
    if not reason.strip():
        problems.append(f"{path}:{number}: {name} has no reason")
    allowed.append(name)
for file in sorted(glob.glob(os.path.join(results, "*.json"))):
    for suite in json.load(open(file))["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            ran += 1
            if test["result"] == "COMPLETED" or test["status"] == "NOTRUN" and "DISABLED" not in name:
                continue  # NOTRUN: left out by a filter, as slow tests are from the fast program
            skips += 1
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed):
                problems.append(f"{name} at {test.get('file')}:{test.get('line')} was skipped, and {path} does not list it")
for p in problems:
    print(p)
print(f"{ran} tests, {skips} skipped, {len(problems)} problems")
sys.exit(bool(problems))

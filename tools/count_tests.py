#!/usr/bin/env python3
"""Prints how many tests passed, failed and were skipped in the last run of ctest, and names the slowest.

usage: count_tests.py RESULTS
RESULTS holds ctest.xml (ctest --output-junit) and in gtest/ one JSON file a program (see tests/CMakeLists.txt).
Exit 1 when a test failed or none ran.
"""
import json
import os
import sys
import xml.etree.ElementTree

results = sys.argv[1]
passed, failed, skipped, times = 0, [], [], []
for entry in xml.etree.ElementTree.parse(os.path.join(results, "ctest.xml")).getroot().iter("testcase"):
    name, ok = entry.get("name"), entry.get("status") == "run"
    path = os.path.join(results, "gtest", name + ".json")
    if name == "results_begin":  # only clears the folder
        continue
    failures = len(failed)
    if os.path.exists(path):  # a GoogleTest program that came to its end
        for suite in json.load(open(path))["testsuites"]:
            for test in suite["testsuite"]:
                full = f"{name}: {suite['name']}.{test['name']}"
                times.append((float(test["time"].rstrip("s")), full))
                if test["result"] == "SKIPPED":
                    skipped.append(full)
                elif "failures" in test:
                    failed.append(full)
                elif test["result"] == "COMPLETED":
                    passed += 1
    elif ok:  # a script, or a test of another kind
        passed += 1
        times.append((float(entry.get("time")), name))
    if not ok and len(failed) == failures:  # crashed, ran out of time, or failed outside its tests
        failed.append(f"{name} ({entry.get('status')})")

print("slowest: " + ", ".join(f"{name} {seconds:.1f} s" for seconds, name in sorted(times, reverse=True)[:5]))
for name in failed:
    print(f"failed: {name}")
for name in skipped:
    print(f"skipped: {name}")
print(f"{passed} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
sys.exit(bool(failed) or passed == 0)

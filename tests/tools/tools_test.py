#!/usr/bin/env python3
"""The checks of tools/ pass on what is right and fail on each planted mistake."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Tools(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_tool(self, name, *arguments):
        r = subprocess.run([sys.executable, os.path.join(ROOT, "tools", name), *arguments], capture_output=True, text=True)
        self.assertNotIn("Traceback", r.stderr)
        return r.returncode, r.stdout

    def expect(self, want, tool, *arguments, says=""):
        code, out = self.run_tool(tool, *arguments)
        self.assertEqual(code, want, f"{tool} {arguments}:\n{out}")
        self.assertIn(says, out)

    # ---- layers

    def test_layers(self):
        table = self.write("layers.txt", "base :\nmask : base\nexec : base mask\n")
        src = self.path("src")
        self.write("src/base/a.h", "#include <vector>\n")
        self.write("src/exec/b.cpp", '#include "base/a.h"\n')
        self.expect(0, "check_layers.py", src, table)
        for name, text, says in (
            ("src/base/up.h", '#include "exec/b.cpp"\n', "base may not include exec/b.cpp"),
            ("src/base/near.h", '#include "./a.h"\n', "relative include"),
            ("src/base/none.h", '#include "base/none_such.h"\n', "is not a path"),
            ("src/base/self.h", '#include "base/self.h"\n', "circle"),
            ("src/other/c.h", "", "folder other is not in layers.txt"),
        ):
            path = self.write(name, text)
            self.expect(1, "check_layers.py", src, table, says=says)
            os.remove(path)
        self.write("layers.txt", "base : mask\nmask : base\nexec : base mask\n")
        self.expect(1, "check_layers.py", src, table, says="may name only folders on lines above")

    # ---- docs

    def test_docs(self):
        self.write("src/layers.txt", "base :\n")
        self.write("src/base/a.h", "")
        self.write("src/base/a.cpp", "")
        self.write("CONTRIBUTING.md", "Nothing.\n")
        self.write("docs/path.md", "`base/a.{h,cpp}`, [the readme](../README.md), `not a path`, `/usr/include/x.h`\n")
        good = "`src/base/a.h` `base/a.h` `base/a` `docs/` `src/*/x.h` `runs/quickstart-1` [path](docs/path.md#top)\n"
        self.write("README.md", good)
        self.expect(0, "check_docs.py", self.folder.name, says="0 problems")
        for bad in ("`src/base/b.h`", "`base/b.h`", "`base/a.{h,inc}`", "[x](docs/none.md)", "`DESIGN.md`", "`docs/none/`"):
            self.write("README.md", good + bad + "\n")
            self.expect(1, "check_docs.py", self.folder.name, says="README.md:2:")
        os.remove(self.path("README.md"))
        self.expect(1, "check_docs.py", self.folder.name, says="README.md is missing")

    # ---- symbols

    def compile(self, variant, source, flags=(), folder="cpu"):
        path = self.write(f"{folder}/kernel.cpp", source)
        built = self.path(f"built/CMakeFiles/{variant}.dir/{folder}/kernel.cpp.o")
        os.makedirs(os.path.dirname(built), exist_ok=True)
        subprocess.run(["g++", "-std=c++20", "-O2", "-c", path, "-o", built, *flags], check=True)

    def test_symbols(self):
        good = "namespace ISA { namespace { template <class T> T twice(T x) { return x + x; } } int f(int x) { return twice(x); } }"
        for isa in ("avx2", "avx512"):
            self.compile(isa, good, [f"-DISA={isa}"])
        arguments = ("check_symbols.py", self.path("built"), self.path("cpu"))
        self.expect(0, *arguments, says="2 objects of 1 sources, 0 problems")
        # Another folder's source of the same name is not the same source, and an ordinary one.
        self.compile("kernel", good, ["-DISA=avx2"], folder="ref")
        self.expect(0, *arguments, says="2 objects of 1 sources, 0 problems")
        # Without optimisation the template is a function of its own: weak, and of one name in both objects.
        weak = good.replace("namespace { template", "template").replace("; } } int", "; } int")
        self.compile("avx512", weak, ["-DISA=avx512", "-O0"])
        self.expect(1, *arguments, says="weak symbol")
        self.compile("avx512", good, ["-DISA=avx2"])
        self.expect(1, *arguments, says="is defined by")

    # ---- skips and counts

    def results(self, tests):
        rows = []
        for name, status, result in tests:
            row = {"name": name, "status": status, "result": result, "time": "0.5s"}
            if result == "FAILED":  # as GoogleTest writes it
                row |= {"result": "COMPLETED", "failures": [{"failure": "text"}]}
            rows.append(row)
        self.write("results/gtest/mask.json", json.dumps({"testsuites": [{"name": "Suite", "testsuite": rows}]}))

    def test_skips(self):
        listed = self.write("skips.txt", "# comment\nSuite.Amx*  a machine may lack AMX\n")
        arguments = ("check_skips.py", self.path("results/gtest"), listed)
        self.results([("A", "RUN", "COMPLETED"), ("AmxTiles", "RUN", "SKIPPED"), ("SLOW_B", "NOTRUN", "SUPPRESSED")])
        self.expect(0, *arguments, says="3 tests, 1 skipped, 0 problems")
        self.results([("A", "RUN", "SKIPPED")])
        self.expect(1, *arguments, says="Suite.A")
        self.results([("DISABLED_A", "NOTRUN", "SUPPRESSED")])
        self.expect(1, *arguments, says="DISABLED_A")
        self.results([])
        self.write("skips.txt", "Suite.A\n")
        self.expect(1, *arguments, says="has no reason")

    def count(self, *entries):
        rows = "".join(f'<testcase name="{n}" status="{s}" time="1"/>' for n, s in entries)
        self.write("results/ctest.xml", f"<testsuite>{rows}</testsuite>")
        return self.run_tool("count_tests.py", self.path("results"))

    def test_counts(self):
        self.results([("A", "RUN", "COMPLETED"), ("B", "RUN", "COMPLETED"), ("C", "RUN", "SKIPPED"),
                      ("D", "NOTRUN", "SUPPRESSED")])
        code, out = self.count(("results_begin", "run"), ("mask", "run"), ("layers", "run"))
        self.assertEqual((code, out.splitlines()[-1]), (0, "3 passed, 0 failed, 1 skipped"))
        code, out = self.count(("mask", "run"), ("exec", "fail"))  # exec crashed: it left no results
        self.assertEqual((code, out.splitlines()[-1]), (1, "2 passed, 1 failed, 1 skipped"))
        self.assertIn("failed: exec (fail)", out)
        self.results([("A", "RUN", "COMPLETED"), ("B", "RUN", "FAILED")])
        code, out = self.count(("mask", "fail"))
        self.assertEqual((code, out.splitlines()[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("failed: mask: Suite.B", out)
        self.results([])
        code, out = self.count(("mask", "run"))
        self.assertEqual((code, out.splitlines()[-1]), (1, "0 passed, 0 failed"))

    # ---- sizes

    def test_sizes(self):
        body = "  f();\n" * 70
        self.write("src/base/a.cpp", "int g(\n    int x) {\n" + body + "}\n\nstruct S {\n" + "  int x;\n" * 80 + "};\n")
        self.write("src/train/step.cpp", "\n" * 151)
        self.write("src/strategy/ring.cpp", "\n" * 121)
        self.write("src/strategy/mesh.cpp", "\n" * 121)
        self.expect(0, "size_report.py", self.path("src"), says="4 files")
        _, out = self.run_tool("size_report.py", self.path("src"))
        self.assertIn("base/a.cpp:1: g has 73 lines, budget 60", out)
        self.assertIn("train/step.cpp: 151 lines, budget 150", out)
        self.assertIn("strategy/ring.cpp: 121 lines, budget 120", out)
        self.assertIn("3 over a budget", out)


if __name__ == "__main__":
    unittest.main()

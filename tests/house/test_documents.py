# SPDX-License-Identifier: BSD-3-Clause
"""What the documents name exists: tests, files, make targets, and one version everywhere."""

import glob
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/**/*.md"]
SOURCES = ["src", "include", "python", "tests", "tools", "bench", "examples"]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def documents():
    for pattern in DOCUMENTS:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
            yield os.path.relpath(path, ROOT), read(path)


def test_names():
    """Suite.Name of each GoogleTest, and test_name of each pytest."""
    names = set()
    for path in glob.glob(os.path.join(ROOT, "tests", "**", "*.cpp"), recursive=True):
        test = r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)"
        found = re.findall(test, read(path), re.MULTILINE)
        names.update(f"{suite}.{name}" for suite, name in found)
    for path in glob.glob(os.path.join(ROOT, "tests", "**", "*.py"), recursive=True):
        names.update(re.findall(r"def (test_\w+)", read(path)))
    return names


class Documents(unittest.TestCase):
    def test_every_test_that_testing_md_names_exists(self):
        named = re.findall(r"`([A-Z]\w+\.[A-Z]\w+|test_\w+)`", read("docs/reference/testing.md"))
        self.assertGreater(len(named), 50)
        self.assertEqual(sorted(set(named) - test_names()), [])

    def test_every_link_to_a_file_leads_somewhere(self):
        # In the source tree, that is. The build of the site checks where links lead there.
        found = list(documents())
        self.assertGreater(sum(text.count("](") for _, text in found), 100)
        for document, text in found:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
                path = os.path.join(ROOT, os.path.dirname(document), target)
                self.assertTrue(os.path.exists(path), f"{document}: {target}")

    def test_every_wheel_that_a_document_installs_is_found_by_the_shell(self):
        wheel = "fleetblas-0.1.0-py3-none-manylinux_2_34_x86_64.whl"
        commands = [
            command
            for _, text in documents()
            for command in re.findall(r"pip install [^#`\n]*\.whl[^#`\n]*", text)
        ]
        self.assertGreater(len(commands), 5)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "dist"))
            for place in (folder, os.path.join(folder, "dist")):
                open(os.path.join(place, wheel), "w").close()
            pip = 'pip() { for word; do echo "$word"; done; }\n'
            script = pip + "\n".join(commands)
            said = subprocess.run(
                ["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=True
            ).stdout
        named = [word for word in said.splitlines() if "whl" in word]
        self.assertEqual(len(named), len(commands))
        for word in named:
            self.assertRegex(word, rf"^(dist/)?{re.escape(wheel)}(\[\w+\])?$")

    def test_every_document_that_is_named_exists(self):
        files = dict(documents())
        for folder in SOURCES:
            for path in glob.glob(os.path.join(ROOT, folder, "**", "*.*"), recursive=True):
                if path.endswith((".cpp", ".hpp", ".cu", ".h", ".c", ".py", ".sh", ".S")):
                    files[os.path.relpath(path, ROOT)] = read(path)
        named = [
            (file, name)
            for file, text in files.items()
            for name in re.findall(r"(?<![\w/.])docs/[\w/-]+\.\w+", text)
        ]
        self.assertGreater(len(named), 10)
        wrong = [each for each in named if not os.path.exists(os.path.join(ROOT, each[1]))]
        self.assertEqual(wrong, [])

    def test_every_make_target_that_a_document_names_exists(self):
        targets = set(
            re.findall(r"[\w-]+", " ".join(re.findall(r"^([\w -]+):", read("Makefile"), re.M)))
        )
        for document, text in documents():
            for words in re.findall(r"(?:`|^)make ([a-z -]+?)\s*(?:`|#|$)", text, re.MULTILINE):
                for word in words.split():
                    self.assertIn(word, targets, f"{document}: make {words}")

    def test_every_function_and_setting_beside_xkblas_s_exists(self):
        header = read("include/fleetblas/fleetblas.h") + read("include/fleetblas/lapack.h")
        settings = read("src/base/options.cpp")
        functions = set(re.findall(r"\b(fleet_\w+)(?:\(|;)", header))
        known = {f"FLEETBLAS_{word.upper()}" for word in re.findall(r'"(\w+)"', settings)}
        page = read("docs/reference/xkblas.md")
        self.assertGreater(page.count("`fleet_"), 20)
        self.assertEqual(set(re.findall(r"`(fleet_\w+)", page)) - functions, set())
        self.assertGreater(page.count("`FLEETBLAS_"), 8)
        self.assertEqual(set(re.findall(r"`(FLEETBLAS_\w+)", page)) - known, set())

    def test_the_version_is_the_same_everywhere(self):
        version = re.search(r"project\(fleetblas VERSION ([\d.]+)", read("CMakeLists.txt")).group(1)
        header = read("include/fleetblas/fleetblas.h")
        parts = re.findall(r"#define FLEETBLAS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
        self.assertEqual(".".join(parts), version)
        self.assertIn(f'version = "{version}"', read("pyproject.toml"))
        self.assertIn(f"## {version}", read("CHANGELOG.md"))


if __name__ == "__main__":
    unittest.main()

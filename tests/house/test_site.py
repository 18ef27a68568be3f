# SPDX-License-Identifier: BSD-3-Clause
"""The site of the documents: strictly built, complete, and at home without a network.

It knows no page's text but that of the references, which come from the code.
"""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "out" / "site"
LIBRARIES = str(ROOT / "python" / "fleetblas" / "lib")
sys.path.insert(0, str(ROOT / "python"))


def build(root):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build"],  # strict by mkdocs.yml
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "FLEETBLAS_LIB_DIR": LIBRARIES},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def site():
    done = build(ROOT)
    assert done.returncode == 0, done.stderr
    return SITE


class Page(html.parser.HTMLParser):
    """What a page has: its text, ids, links, and what a browser loads for it."""

    def __init__(self, path):
        super().__init__()
        self.words, self.ids, self.links, self.loaded = [], set(), [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "link" or given.get("src"):
            self.loaded.append(given.get("href") or given.get("src"))

    def handle_data(self, data):
        self.words.append(data)


def test_no_page_loads_or_names_another_host(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}

    away = [
        (path.name, target)
        for path, page in pages.items()
        for target in page.loaded + page.links
        if re.match(r"\w+:|//", target) and not target.startswith("data:")
    ]
    assert len(pages) > 20
    assert away == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]*", styles) == []


HEADERS = pytest.mark.parametrize(
    ("header", "reference", "whole"),
    [("fleetblas.h", "c-api", "fleetblas-h"), ("lapack.h", "c-lapack", "lapack-h")],
)


@HEADERS
def test_the_c_reference_has_every_function_and_the_line_that_declares_it(
    site, header, reference, whole
):
    lines = (ROOT / "include/fleetblas" / header).read_text(encoding="utf-8").splitlines()
    declared = {
        match[1]: number
        for number, line in enumerate(lines, 1)
        if (match := re.search(r"^FLEET_API .*?\b(fleet_\w+)\(", line))
    }

    page, shown = (Page(site / "reference" / f"{name}.html") for name in (reference, whole))

    assert len(declared) == sum(line.startswith("FLEET_API ") for line in lines) > 50
    lacking = [n for n, line in declared.items() if f"{whole}.html#line-{line}" not in page.links]
    assert lacking == []
    assert [name for name in declared if f"{name}(" not in page.text] == []
    assert {f"line-{number}" for number in range(1, len(lines) + 1)} <= shown.ids


@HEADERS
def test_the_c_reference_has_every_comment_of_the_header(site, header, reference, whole):
    text = (ROOT / "include/fleetblas" / header).read_text(encoding="utf-8")
    comments = re.findall(r"^/\*(.*?)\*/$", text, re.M | re.S)

    shown = re.sub(r"[\s`]", "", Page(site / "reference" / f"{reference}.html").text)

    assert len(comments) > 10
    for comment in comments:
        text = re.sub(r"^ \*|SPDX-License-Identifier.*", "", comment, flags=re.M)
        assert re.sub(r"[\s`]", "", text) in shown


def test_the_python_and_command_references_have_every_name(site):
    import fleetblas
    from fleetblas import cli

    python = Page(site / "reference" / "python.html").text
    commands = Page(site / "reference" / "command-line.html").text

    assert [name for name in fleetblas.__all__ if name not in python] == []
    help_text = cli.make_parser().format_help()
    assert len(cli.COMMANDS) >= 8
    for command in cli.COMMANDS:
        assert f"fleetblas {command}" in commands and command in help_text
    for option in ("--devices", "--place", "--dataset", "--no-energy", "--budget", "--output"):
        assert option in commands


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [("[to nowhere](nowhere.md)", "nowhere.md"), ("[no anchor](#nowhere)", "#nowhere")],
)
def test_a_broken_link_fails_the_build(tmp_path, broken, complaint):
    for name in ("docs", "include", "python", "tools"):
        ignored = shutil.ignore_patterns("lib", "__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("mkdocs.yml", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{broken}\n")

    done = build(tmp_path)

    assert done.returncode != 0
    assert complaint in done.stderr

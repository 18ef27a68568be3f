# SPDX-License-Identifier: BSD-3-Clause
"""site_pages.py: the generated pages of the site, as a hook of MkDocs.

The C reference is made from the public headers, the Python reference from docstrings, that of the
command line from its parsers, and the documents at the root are copied. Nothing is written into the
tree. It must not know what any function does.
"""

from __future__ import annotations

import argparse
import html
import inspect
import os
import pathlib
import re
import sys
import textwrap
from dataclasses import dataclass, field

from mkdocs.structure.files import File
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CLexer

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = {  # header -> its pages: as a reference, and as it is; and the title of the reference
    "fleetblas.h": ("c-api.md", "fleetblas-h.md", "C API"),
    "lapack.h": ("c-lapack.md", "lapack-h.md", "C API: LAPACK"),
    "linpack.h": ("c-linpack.md", "linpack-h.md", "C API: Linpack, simulated"),
    "mpi.h": ("c-mpi.md", "mpi-h.md", "C API: matrices over MPI"),
}
COPIES = {  # page of the site -> document at the root
    "explanation/architecture.md": "ARCHITECTURE.md",
    "explanation/contributing.md": "CONTRIBUTING.md",
    "explanation/changelog.md": "CHANGELOG.md",
}
# Files that documents link to, for readers of the source tree -> the page in their place.
PAGES = {
    **{document: page for page, document in COPIES.items()},
    **{f"include/fleetblas/{header}": f"reference/{HEADERS[header][0]}" for header in HEADERS},
    "python/fleetblas/_context.py": "reference/python.md",
    "python/fleetblas/cli.py": "reference/command-line.md",
}
USAGE_COLUMNS = "90"
SUMMARY_LENGTH = 90
# Lines that a C compiler needs and a reader does not.
BOILERPLATE = re.compile(
    r"#(include|ifndef|ifdef|if|else|endif)\b.*|#define (FLEETBLAS_\w*H|FLEET_API)\b.*|"
    r'extern "C" \{|\}'
)


def on_files(files, config):
    """Adds the pages; MkDocs calls this function."""
    sys.path.insert(0, str(ROOT / "python"))
    import fleetblas
    from fleetblas import cli

    pages = {
        "reference/python.md": python_page(fleetblas),
        "reference/command-line.md": command_line_page(cli.make_parser()),
    }
    for header in HEADERS:
        text = (ROOT / "include/fleetblas" / header).read_text(encoding="utf-8")
        reference, whole, _ = HEADERS[header]
        pages["reference/" + reference] = c_page(header, text)
        pages["reference/" + whole] = header_page(header, text)
    for page, document in COPIES.items():
        pages[page] = copied((ROOT / document).read_text(encoding="utf-8"), page)
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to files of the source tree lead to their pages; MkDocs calls this function."""
    folder = os.path.dirname(page.file.src_uri)

    def link(match: re.Match) -> str:
        target = PAGES.get(os.path.normpath(os.path.join("docs", folder, match[1])))
        if target is None:
            return match[0]
        return f"]({os.path.relpath(target, folder or '.')}{match[2] or ''})"

    return re.sub(r"\]\(([^)#:]+)(#[^)]*)?\)", link, markdown)


# ---- texts --------------------------------------------------------------------------------------


def inline(text: str) -> str:
    """HTML of a comment line, with names of the library and words in backticks as code."""
    parts = re.split(r"`([^`\n]+)`|\b((?:FLEET|fleet)\w*_\w+(?:\(\))?)", text)
    shown = []
    for i in range(0, len(parts), 3):
        shown.append(html.escape(parts[i], quote=False))
        code = next((part for part in parts[i + 1 : i + 3] if part), None)
        if code:
            shown.append(f"<code>{html.escape(code, quote=False)}</code>")
    return "".join(shown)


def prose(text: str) -> str:
    """HTML of a comment or docstring: indented lines verbatim, the rest as paragraphs.

    If the text begins with an indented line, a line below without indentation continues it.
    """
    begins_indented = text.startswith("  ")
    blocks: list[tuple[str, list[str]]] = []  # ("p" or "pre", lines)
    fresh = True
    for line in text.splitlines():
        if not line.strip():
            fresh = True
            continue
        kind = "pre" if line.startswith("  ") else "p"
        if not fresh and blocks[-1][0] == "pre" and begins_indented:
            kind = "pre"
        if fresh and kind == "pre" and blocks and blocks[-1][0] == "pre":
            blocks[-1][1].append("")
        elif fresh or kind != blocks[-1][0]:
            blocks.append((kind, []))
        blocks[-1][1].append(line)
        fresh = False
    shown = []
    for kind, lines in blocks:
        if kind == "p":
            shown.append(f"<p>{inline(' '.join(lines))}</p>")
        else:
            text = textwrap.dedent("\n".join(lines))
            shown.append(f"<pre><code>{html.escape(text, quote=False)}</code></pre>")
    return "\n\n".join(shown)


def summary(text: str) -> str:
    """The first sentence, shortened, as the text of a link."""
    sentence = re.split(r"(?<=\.) ", " ".join(text.split()), maxsplit=1)[0]
    sentence = re.sub(r"(?<!\.)\.$", "", sentence)
    shown = (
        sentence if len(sentence) < SUMMARY_LENGTH else sentence[:SUMMARY_LENGTH].rsplit(" ", 1)[0]
    )
    shown += "" if shown == sentence else " ..."
    return re.sub(
        r"[|*_\[\]]", lambda found: f"&#{ord(found[0])};", html.escape(shown, quote=False)
    )


def copied(text: str, page: str) -> str:
    """A document of the root as a page, with its links to docs/ made relative to the page."""
    folder = "docs/" + os.path.dirname(page)
    pages = {document: "docs/" + copy for copy, document in COPIES.items()}

    def link(match: re.Match) -> str:
        target = pages.get(match[1], match[1])
        return f"]({os.path.relpath(target, folder)}{match[2] or ''})"

    return re.sub(r"\]\(([^)#:]+)(#[^)]*)?\)", link, text)


# ---- the C API ----------------------------------------------------------------------------------


@dataclass
class Chunk:
    """A comment of the header and the declarations below it, up to the next comment."""

    comment: str = ""
    code: list[tuple[int, str]] = field(default_factory=list)  # line number, line

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.code)

    @property
    def functions(self) -> dict[str, int]:
        """Name -> line of each declared function."""
        return {
            match[1]: line
            for line, text in self.code
            if (match := re.match(r"FLEET_API .*?(\w+)\(", text))
        }

    @property
    def others(self) -> list[str]:
        """The names of types and constants."""
        ends = r"^(?:typedef .*?|\} )(fleet_\w+);|^#define (\w+)|\(\*(fleet_\w+)\)|\} (fleet_\w+);"
        found = [next(filter(None, groups)) for groups in re.findall(ends, self.text, re.M)]
        return list(dict.fromkeys(found))

    @property
    def title(self) -> str:
        """fleet_sgemm, fleet_dgemm, ... as fleet_{s,d}gemm."""
        letters: dict[str, list[str]] = {}
        for name in self.functions or self.others:
            match = re.fullmatch(
                r"fleet_([sdcz])((?:ge|sym|hem|syr|her|tr[mst]|axp|dot|po|or|un|la)\w*)", name
            )
            letters.setdefault(match[2] if match else name, []).append(match[1] if match else "")
        return ", ".join(
            f"fleet_{{{','.join(found)}}}{stem}" if found[0] else stem
            for stem, found in letters.items()
        )


def comment_text(lines: list[str]) -> str:
    """A C comment without its stars."""
    whole = "\n".join(lines)
    inside = re.sub(r"^/\*|\s*\*/\s*$", "", whole)
    return "\n".join(re.sub(r"^ ?\* ?|^ ", "", line).rstrip() for line in inside.split("\n"))


def chunks_of(header: str) -> tuple[str, list[Chunk]]:
    """The opening comment of the header, and its chunks in order."""
    opening, chunks = "", [Chunk()]
    lines = header.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("/*"):
            end = at
            while "*/" not in lines[end]:
                end += 1
            text = comment_text(lines[at : end + 1])
            if not opening:
                opening = text
            else:
                chunks.append(Chunk(text))
            at = end + 1
            continue
        if not line.strip() and chunks[-1].code and not chunks[-1].functions:
            chunks.append(Chunk())  # each group of types or constants is a chunk
        elif line.strip() and not BOILERPLATE.fullmatch(line):
            chunks[-1].code.append((at + 1, line))
        at += 1
    return opening, [chunk for chunk in chunks if chunk.code or chunk.comment]


def anchor(chunk: Chunk) -> str:
    """The id of the chunk's heading: its first name."""
    return next(iter(chunk.functions), None) or next(iter(chunk.others), "texts")


def c_page(header: str, text: str) -> str:
    opening, chunks = chunks_of(text)
    _, whole, title = HEADERS[header]

    def line_link(shown: str, line: int) -> str:
        return f"[{shown}]({whole}#line-{line})"

    opening = re.sub(r"^SPDX.*\n+", "", opening)
    rows = ["| function (its line of the header) | what it does |", "|---|---|"]
    for chunk in chunks:
        if chunk.functions:
            names = ", ".join(line_link(f"`{n}`", line) for n, line in chunk.functions.items())
            rows.append(f"| {names} | [{summary(chunk.comment)}](#{anchor(chunk)}) |")
    page = [f"# {title}", prose(opening), "## Index", "\n".join(rows)]
    for chunk in chunks:
        if not chunk.code:
            page.append(prose(chunk.comment))
            continue
        first = chunk.code[0][0]
        page.append(f"## `{chunk.title}` {{ #{anchor(chunk)} }}")
        page.append(prose(chunk.comment))
        page.append(f"```c\n{chunk.text}\n```")
        page.append(line_link(f"{header}, line {first}", first))
    return "\n\n".join(page) + "\n"


def header_page(header: str, text: str) -> str:
    """The header as HTML, since MkDocs has no anchors for the lines of a code block."""
    lines = HtmlFormatter(linespans="line", linenos="inline", wrapcode=True)
    return f"# {header}\n\n{highlight(text, CLexer(), lines)}\n"


# ---- Python -------------------------------------------------------------------------------------


def python_entry(name: str, function, level: str) -> str:
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    shown = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    text = f"{level} `{name}` {{ #{name} }}\n\n```python\n{name}{shown}\n```\n"
    return text + "\n" + prose(inspect.getdoc(function) or "")


def python_page(package) -> str:
    page = ["# Python", prose(inspect.getdoc(package)), "## `Context` { #Context }"]
    page.append(prose(inspect.getdoc(package.Context)))
    page.append("## `Cost` { #Cost }")
    page.append(prose(inspect.getdoc(package.Cost)))
    page.append("## Functions\n\nEach is a method of `Context`, and a function of the module that "
                "uses the default context.")  # fmt: skip
    methods = [name for name in vars(package.Context) if name in package.__all__]
    page += [python_entry(name, getattr(package.Context, name), "###") for name in methods]
    for name in ("offload", "compose"):
        page.append(python_entry(name, inspect.unwrap(getattr(package, name)), "##"))
    for kind in ("Tracked", "Event"):
        owner = getattr(package, kind)
        page += [f"## `{kind}` {{ #{kind} }}", prose(inspect.getdoc(owner))]
        for name, member in vars(owner).items():
            text = prose(inspect.getdoc(member) or "")
            if name.startswith("_") or not text:
                continue
            if callable(member):
                page.append(python_entry(f"{kind}.{name}", member, "###"))
            else:
                page.append(f"### `{kind}.{name}` {{ #{kind}.{name} }}\n\n{text}")
    page += ["## `linalg` { #linalg }", prose(inspect.getdoc(package.linalg))]
    functions = [getattr(package.linalg, name) for name in package.linalg.__all__]
    for function in filter(inspect.isfunction, functions):
        page.append(python_entry(f"linalg.{function.__name__}", function, "###"))
    page.append("## Errors\n\n| exception | also a | when |\n|---|---|---|")
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value) and issubclass(value, Exception):
            bases = [base.__name__ for base in value.__bases__ if base is not package.Error]
            page[-1] += f"\n| `{name}` | `{', '.join(bases)}` | {inspect.getdoc(value)} |"
    return "\n\n".join(page) + "\n"


# ---- the command line ---------------------------------------------------------------------------


def argument_entry(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    value = formatter._format_args(action, action.dest) if action.nargs != 0 else ""
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
    if isinstance(action, argparse.BooleanOptionalAction):
        names = list(action.option_strings)
    text = formatter._expand_help(action) if action.help else ""
    return f"`{', '.join(names)}`\n:   {html.escape(text, quote=False)}\n"


def command_entry(name: str, parser: argparse.ArgumentParser) -> str:
    formatter = parser._get_formatter()
    page = [f"## `fleetblas {name}` {{ #{name} }}", parser.description]
    page.append("```text\n" + parser.format_usage() + "```")
    page += [
        argument_entry(action, formatter) for action in parser._actions if action.dest != "help"
    ]
    page.append("```text\n" + parser.epilog + "\n```")
    return "\n\n".join(page)


def command_line_page(parser: argparse.ArgumentParser) -> str:
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), USAGE_COLUMNS
    try:
        commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        page = ["# Command line", parser.description]
        page.append(
            "Every command takes `--help`, and exits with status 0 (done), 1 (failed) or 2 (wrong "
            "usage); `fleetblas run` exits with the status of its program. Sizes take the binary "
            "suffixes K, M and G. An option overrides the [setting](settings.md) of the same name."
        )
        page += [command_entry(name, each) for name, each in commands.choices.items()]
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return "\n\n".join(page) + "\n"

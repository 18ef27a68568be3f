# SPDX-License-Identifier: BSD-3-Clause
"""HTML of a report: tables, figures with captions, sections, and numbers as text.

All text is escaped. Knows nothing of the contents of reports; report.html has the style.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import _native
from .report_figures import escape

PAGE = _native.PACKAGE / "report.html"
PLACE_OF_REPORT = "<!--REPORT-->"
NARROWEST = 300  # pixels of a figure


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


def html_of(text) -> Html:
    if text is None:
        return Html("-")
    return text if isinstance(text, Html) else Html(escape(str(text)))


def join(*parts) -> Html:
    return Html("\n".join(html_of(part) for part in parts if part))


def element(name: str, *parts, **attributes) -> Html:
    """Attributes as Python can write them: class_="soft", aria_label="..."."""
    words = ""
    for key, value in attributes.items():
        words += f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
    return Html(f"<{name}{words}>{''.join(map(html_of, parts))}</{name}>")


def paragraph(*parts, soft: bool = False) -> Html:
    return element("p", *parts, class_="soft") if soft else element("p", *parts)


def table(head: list[str], rows: list[list], left: int = 1, wrapped: int | None = None) -> Html:
    """The first `left` columns are left-aligned text; column `wrapped` may have several lines."""

    def cell(name: str, i: int, text) -> Html:
        classes = " ".join((["left"] if i < left else []) + (["wrap"] if i == wrapped else []))
        return element(name, text, class_=classes) if classes else element(name, text)

    def line(name: str, words: list) -> Html:
        return element("tr", *(cell(name, i, word) for i, word in enumerate(words)))

    inside = join(
        element("thead", line("th", head)), element("tbody", *(line("td", r) for r in rows))
    )
    return element("div", element("table", inside), class_="scroll")


def figure(svg: str, caption: str) -> Html:
    """A figure as wide as the drawing, and wide enough for the caption."""
    width = max(NARROWEST, int(re.search(r"max-width:(\d+)px", svg)[1]))
    inside = (Html(svg), element("figcaption", caption))
    return element("figure", *inside, style=f"width:{width}px")


def figures(made: list[Html]) -> Html:
    return element("div", *made, class_="figures") if made else Html("")


def heading(text: str) -> Html:
    return element("h3", text)


@dataclass
class Section:
    title: str
    parts: list[Html]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def html(self) -> Html:
        return element("section", element("h2", self.title), join(*self.parts), id=self.anchor)


def page(title: str, intro: list[Html], cards: list[tuple[str, str]], sections: list) -> str:
    links = [element("a", section.title, href="#" + section.anchor) for section in sections]
    shown = [
        element("div", element("b", value), element("span", name), class_="card")
        for value, name in cards
    ]
    body = join(
        element("h1", title),
        *intro,
        element("div", *shown, class_="cards"),
        element("nav", *links, aria_label="Sections"),
        *(section.html() for section in sections),
    )
    return PAGE.read_text(encoding="utf-8").replace(PLACE_OF_REPORT, body)


# ---- numbers ------------------------------------------------------------------------------------


def factor(value: float | None) -> str:
    """2.35x."""
    if value is None:
        return "-"
    return f"{value:.2f}x" if value < 9.995 else f"{value:.1f}x"


def as_printed(value: float | None) -> str:
    """A factor such as 1.4x, with as many digits as the papers give."""
    return "-" if value is None else f"{value:g}x"


def counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def share(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def signed_share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %"

# SPDX-License-Identifier: BSD-3-Clause
"""Figures as SVG: lines, bars, boxes, each with its title inside. Knows nothing of benchmarks.

Colours are classes of the page (s0, s1, ...), so that they follow its light or dark theme; series
also differ by the shape of their points and by dashes. All coordinates lie inside the view.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

STYLES = 8  # classes s0 .. s7 of the page
SHAPES = ("circle", "square", "triangle", "diamond", "down", "cross", "plus", "ring")
LETTER = 6.4  # upper estimate of the mean width of a letter at 11 px
LINE = 14
MANY = 200  # from this number of points on they are drawn smaller
LEFT, RIGHT, TOP, BOTTOM = 54, 16, 30, 40


def escape(text: str) -> str:
    return html.escape("".join(c if c.isprintable() else " " for c in text))


def width_of(text: str) -> float:
    return LETTER * len(text)


def shortened(text: str, width: float) -> str:
    letters = max(2, int(width / LETTER))
    return text if len(text) <= letters else text[: letters - 1] + "…"


# ---- axes ---------------------------------------------------------------------------------------


@dataclass
class Axis:
    """Values from low to high, and the ticks (value, text) among them."""

    name: str
    low: float
    high: float
    ticks: list[tuple[float, str]]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """0 at the lower end, 1 at the upper; values beyond an end are drawn at that end."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        return min(1.0, max(0.0, (value - low) / (high - low)))


def nice_step(span: float, count: int) -> float:
    """A step of 1, 2 or 5 times a power of ten; about `count` steps cover the span."""
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)


def tick_text(value: float, step: float, unit: str = "") -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{digits}f}{unit}"


def linear_axis(name: str, values, low: float = 0.0, scale: float = 1.0, unit: str = "") -> Axis:
    """An axis from `low` to a tick at or above the largest value; texts show value * scale."""
    most = max([*values, low])
    most = most if most > low else low + 1.0
    step = nice_step((most - low) * scale, 6) / scale
    count = max(1, math.ceil((most - low) / step - 1e-9))
    at = [low + i * step for i in range(count + 1)]
    ticks = [(value, tick_text(value * scale, step * scale, unit)) for value in at]
    return Axis(name, low, at[-1], ticks)


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(decades) <= 3 else (1,)
    return [factor * 10.0**power for power in decades for factor in factors]


def log_axis(name: str, values, text=lambda value: f"{value:g}") -> Axis:
    """A logarithmic axis from the 1, 2 or 5 below the positive values to that above them."""
    least, most = min(values), max(values)
    candidates = _log_ticks(least, max(most, least * 2))
    low = max((tick for tick in candidates if tick <= least), default=least)
    high = min((tick for tick in candidates if tick >= most), default=most)
    high = high if high > low else low * 10
    ticks = [(tick, text(tick)) for tick in candidates if low <= tick <= high]
    return Axis(name, low, high, ticks, logarithmic=True)


def size_axis(name: str, values, text) -> Axis:
    """An axis of matrix edges: a few that are far apart get equal distances, many a linear axis
    from 0.

    Ticks are the sizes themselves, or multiples of a power of two.
    """
    sizes = sorted(set(values))
    if len(sizes) < 8 and sizes[-1] >= 2 * sizes[0]:
        edge = 1.08
        ticks = [(size, text(int(size))) for size in sizes]
        return Axis(name, sizes[0] / edge, sizes[-1] * edge, ticks, logarithmic=True)
    step = 2.0 ** math.ceil(math.log2(sizes[-1] / 8))
    count = math.ceil(sizes[-1] / step)
    ticks = [(i * step, text(int(i * step)) if i else "0") for i in range(count + 1)]
    return Axis(name, 0.0, max(sizes[-1] * 1.02, count * step), ticks)


def count_axis(name: str, values) -> Axis:
    """An axis of device counts, logarithmic, so that doubling is a constant distance."""
    counts = sorted(set(values))
    ticks = [(count, f"{count:g}") for count in counts]
    return Axis(name, counts[0] / 1.1, counts[-1] * 1.1, ticks, logarithmic=True)


# ---- drawing ------------------------------------------------------------------------------------


def shape(kind: int, x: float, y: float, r: float = 4.0) -> str:
    """The outline of a point, as SVG without its class."""
    name = SHAPES[kind % len(SHAPES)]
    if name in ("circle", "ring"):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"'
    corners = {
        "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        "triangle": [(0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        "diamond": [(0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)],
        "down": [(0, 1.2), (1.1, -0.9), (-1.1, -0.9)],
        "cross": [(-1, -1), (1, 1), (0, 0), (1, -1), (-1, 1), (0, 0)],
        "plus": [(-1.2, 0), (1.2, 0), (0, 0), (0, -1.2), (0, 1.2), (0, 0)],
    }[name]
    points = " ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}"'


@dataclass
class Drawing:
    """A figure of this size; `label` describes it for screen readers."""

    width: float
    height: float
    title: str
    label: str
    parts: list[str] = field(default_factory=list)

    def add(self, element: str) -> None:
        self.parts.append(element)

    def text(self, x, y, text: str, anchor: str = "start", style: str = "soft") -> None:
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">'
            f"{escape(text)}</text>"
        )

    def line(self, x1, y1, x2, y2, style: str) -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.add(f'<line {ends} class="{style}"/>')

    def box(self, x, y, width, height, style: str, tip: str = "") -> None:
        at = f'x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}"'
        self.add(f'<rect {at} class="{style}"><title>{escape(tip)}</title></rect>')

    def point(self, kind: int, x, y, style: str, tip: str = "", r: float = 4.0) -> None:
        hollow = " hollow" if SHAPES[kind % len(SHAPES)] in ("ring", "cross", "plus") else ""
        outline = shape(kind, x, y, r)
        closing = "circle" if outline.startswith("<circle") else "polygon"
        inside = f"<title>{escape(tip)}</title>" if tip else ""
        self.add(f'{outline} class="point {style}{hollow}">{inside}</{closing}>')

    def svg(self) -> str:
        view = f"0 0 {self.width:.0f} {self.height:.0f}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img" '
            f'aria-label="{escape(self.label)}" style="max-width:{self.width:.0f}px">'
            f"<title>{escape(self.title)}</title>{''.join(self.parts)}</svg>"
        )


class Plot(Drawing):
    """A drawing with two axes and a title above; `room` is the space under the lower axis."""

    def __init__(self, width, height, title, label, x: Axis, y: Axis, room=BOTTOM):
        super().__init__(width, height, title, label)
        self.x_axis, self.y_axis = x, y
        widest = max(width_of(text) for _, text in y.ticks)
        self.left = max(LEFT, widest + 14) if widest > 34 else LEFT
        self.right, self.top, self.bottom = width - RIGHT, TOP + LINE, height - room
        self.text(8, 16, shortened(title, width - 16), style="title")
        self.text(8, TOP + 4, shortened(y.name, width - 16))
        for value, text in y.ticks:
            self.line(self.left, self.y(value), self.right, self.y(value), "grid")
            self.text(self.left - 6, self.y(value) + 4, text, "end")
        self.line(self.left, self.bottom, self.right, self.bottom, "axis")

    def x_ticks(self) -> None:
        self.text(self.right, self.bottom + 2 * LINE + 4, self.x_axis.name, "end")
        end = -math.inf
        for value, text in self.x_axis.ticks:
            half = width_of(text) / 2
            self.line(self.x(value), self.bottom, self.x(value), self.bottom + 4, "axis")
            middle = min(self.x(value), self.width - half - 2)
            # A text that would touch its neighbour is omitted.
            if middle - half > end + 4:
                self.text(middle, self.bottom + LINE + 2, text, "middle")
                end = middle + half

    def x(self, value: float) -> float:
        return self.left + self.x_axis.share(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self.y_axis.share(value) * (self.bottom - self.top)


# ---- kinds of figures ---------------------------------------------------------------------------


@dataclass
class Series:
    """Points (x, y, tooltip). `style` is s0 .. s7, or ink for lines that belong to no engine; a
    series without a name is not in the legend.
    """

    name: str
    points: list[tuple[float, float, str]]
    style: str = "s0"
    dash: str = ""  # a class: dashed, dotted
    joined: bool = True
    marked: bool = True

    @property
    def kind(self) -> int:
        return int(self.style[1:]) if self.style[1:].isdigit() else 3


def _legend(series: list[Series], width: float) -> list[tuple[float, int, Series]]:
    """The position of each legend entry: (x, line, series)."""
    placed, x, line = [], 8.0, 0
    for one in (one for one in series if one.name):
        wanted = 40 + width_of(one.name)
        if x > 8 and x + wanted > width:
            x, line = 8.0, line + 1
        placed.append((x, line, one))
        x += wanted
    return placed


def lines(
    title: str, label: str, x: Axis, y: Axis, series: list[Series], width=560, height=320
) -> str:
    """A line per series, or only its points, with a legend below."""
    series = [one for one in series if one.points]
    legend = _legend(series, width)
    rows = legend[-1][1] + 1 if legend else 0
    plot = Plot(width, height, title, label, x, y)
    plot.x_ticks()
    radius = 4.0 if sum(len(one.points) for one in series) <= MANY else 2.5
    plot.height = height + rows * (LINE + 4) + 4
    for one in series:
        points = sorted(one.points, key=lambda point: point[0])
        if one.joined and len(points) > 1:
            path = " ".join(f"{plot.x(a):.1f},{plot.y(b):.1f}" for a, b, _ in points)
            plot.add(f'<polyline points="{path}" class="curve {one.style} {one.dash}"/>')
        if one.marked or (one.joined and len(points) == 1):
            for a, b, tip in points:
                plot.point(one.kind, plot.x(a), plot.y(b), one.style, tip, radius)
    for left, row, one in legend:
        middle = height + row * (LINE + 4) + 2
        if one.joined:
            plot.line(left, middle, left + 24, middle, f"curve {one.style} {one.dash}")
        if one.marked:
            plot.point(one.kind, left + 12, middle, one.style)
        plot.text(left + 30, middle + 4, shortened(one.name, width - left - 30), style="ink")
    return plot.svg()


@dataclass
class Bar:
    name: str
    value: float
    text: str  # at the end of the bar
    style: str = "s0"
    tip: str = ""


def bars(title: str, label: str, axis: Axis, bars: list[Bar], mark: float | None = None) -> str:
    """Horizontal bars; `mark` is a value with a dashed line through all of them."""
    row, width = 26, 560
    left = min(230.0, 14 + max(width_of(bar.name) for bar in bars))
    text = min(230.0, 12 + max(width_of(bar.text) for bar in bars))
    height = TOP + 8 + row * len(bars) + BOTTOM
    drawing = Drawing(width, height, title, label)
    drawing.text(8, 16, shortened(title, width - 16), style="title")
    span = width - left - text

    def x(value: float) -> float:
        return left + axis.share(value) * span

    bottom = TOP + 4 + row * len(bars)
    end = -math.inf
    for value, words in axis.ticks:
        drawing.line(x(value), TOP, x(value), bottom, "grid")
        half = width_of(words) / 2
        if x(value) - half > end + 4:
            drawing.text(x(value), bottom + LINE, words, "middle")
            end = x(value) + half
    for i, bar in enumerate(bars):
        top = TOP + 4 + i * row
        drawing.text(left - 6, top + 15, shortened(bar.name, left - 12), "end", "ink")
        drawing.box(left, top + 2, x(bar.value) - left, row - 8, f"bar {bar.style}", bar.tip)
        end = max(bar.value, mark or bar.value)
        drawing.text(x(end) + 6, top + 15, shortened(bar.text, text - 8), style="ink")
    if mark is not None:
        drawing.line(x(mark), TOP, x(mark), bottom, "curve ink dashed")
    drawing.text(width - 8, bottom + 2 * LINE, axis.name, "end")
    return drawing.svg()


def boxes(title: str, label: str, y: Axis, items: list[tuple[str, object, list[str]]]) -> str:
    """A box per item (name, summary, tooltips of its values): quartiles and the median, lines to
    the minimum and maximum, every value as a dot, the geometric mean as a diamond.
    """
    slanted = max(width_of(name) for name, _, _ in items) > 44
    step = 44 if len(items) <= 16 else 34
    width = max(250, LEFT + RIGHT + step * len(items))
    longest = max(width_of(name) for name, _, _ in items)
    below = min(110, longest * 0.72) if slanted else 0
    height = 270 + below
    x = Axis("", 0.0, float(len(items)), [])
    plot = Plot(width, height, title, label, x, y, 24 + below)
    for i, (name, summary, tips) in enumerate(items):
        middle = plot.x(i + 0.5)
        half = 0.3 * (plot.right - plot.left) / len(items)
        half = min(half, 16)
        top, bottom = plot.y(summary.upper), plot.y(summary.lower)
        tip = f"{name}: median {summary.median:.2f} of {len(summary.values)}"
        plot.line(middle, plot.y(summary.most), middle, plot.y(summary.least), "whisker")
        plot.box(middle - half, top, 2 * half, bottom - top, "quartiles", tip)
        plot.line(
            middle - half, plot.y(summary.median), middle + half, plot.y(summary.median), "median"
        )
        for j, (value, words) in enumerate(zip(summary.values, tips)):
            aside = ((j * 7) % 11 - 5) / 5 * half * 0.6  # so that equal values do not overlap
            plot.point(0, middle + aside, plot.y(value), "s0 dot", words, 2.2)
        plot.point(3, middle, plot.y(summary.mean), "s1", f"{name}: mean {summary.mean:.2f}", 3.6)
        if slanted:
            at = f"{middle + 4:.1f} {plot.bottom + 14:.1f}"
            room = min(below / 0.72, (middle - 8) / 0.72)
            plot.add(
                f'<text transform="translate({at}) rotate(-45)" text-anchor="end" class="ink">'
                f"{escape(shortened(name, room))}</text>"
            )
        else:
            plot.text(middle, plot.bottom + LINE + 2, name, "middle", "ink")
    return plot.svg()

# SPDX-License-Identifier: BSD-3-Clause
"""The report: numbers that can be checked by hand, failures, escaping, drawable figures."""

import html.parser
import json
import math
import os
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import pytest
from fleetblas.commands import report, report_figures, report_papers, report_rows

RESULTS = sorted((pathlib.Path(__file__).resolve().parents[2] / "bench" / "results").glob("*.json"))
VOID = {"meta", "br", "hr", "link", "img", "input"}
ROUNDING = 0.06  # coordinates are written to a tenth


def row(engine="fleetblas", n=8192, seconds=1.0, bound=None, **words):
    """A square of DGEMM at h,h,h unless the words say otherwise; `bound` in seconds."""
    made = {"engine": engine, "type": "d", "m": n, "n": n, "k": n, "place": "h,h,h"}
    made.update({"devices": 4, "median_s": seconds, "bound_s": bound, "status": "ok"})
    made.update({"measured": "measured", **words})
    made.setdefault("beside", made["place"])
    return made


class Page(html.parser.HTMLParser):
    """Its texts, tables by the cells of their rows, and figures; every element has to be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.texts, self.links = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []
        self.figures = [
            ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.S)
        ]

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href")]
        assert tag != "script"
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "svg" in self.open or "style" in self.open:
            return
        self.texts.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def row(self, *first):
        """The one row of all tables that begins with these cells."""
        (found,) = [cells for cells in self.rows if tuple(cells[: len(first)]) == first]
        return found[len(first) :]

    @property
    def text(self):
        return " ".join(self.texts)


def check_figure(figure):
    """All numbers finite, and all points, lines and texts within the view."""
    left, top, width, height = map(float, figure.get("viewBox").split())
    assert (left, top) == (0, 0)
    assert figure.get("aria-label")
    assert figure.find("{*}title").text

    def inside(x, y):
        assert math.isfinite(x) and math.isfinite(y)
        assert -ROUNDING <= x <= width + ROUNDING and -ROUNDING <= y <= height + ROUNDING, (x, y)

    for part in figure.iter():
        name = part.tag.rpartition("}")[2]
        get = {key: float(value) for key, value in part.items() if re.fullmatch(r"[-\d.]+", value)}
        if name == "line":
            inside(get["x1"], get["y1"])
            inside(get["x2"], get["y2"])
        elif name == "rect":
            inside(get["x"], get["y"])
            inside(get["x"] + get["width"], get["y"] + get["height"])
        elif name == "circle":
            inside(get["cx"], get["cy"])
        elif name in ("polygon", "polyline"):
            for point in part.get("points").split():
                inside(*map(float, point.split(",")))
        elif name == "text" and "x" in get:
            inside(get["x"], get["y"])
            share = {"start": (0, 1), "middle": (0.5, 0.5), "end": (1, 0)}[part.get("text-anchor")]
            long = report_figures.width_of(part.text)
            inside(get["x"] - share[0] * long, get["y"])
            inside(get["x"] + share[1] * long, get["y"])
        elif name == "text":
            inside(
                *map(float, re.match(r"translate\((\S+) (\S+)\)", part.get("transform")).groups())
            )


@pytest.fixture
def page_of(tmp_path, main):
    """The page of files; each is a list of rows, or what the file holds."""

    def make(*files):
        names = []
        for i, content in enumerate(files):
            content = {"results": content} if isinstance(content, list) else content
            names.append(f"results{i}.json")
            (tmp_path / names[-1]).write_text(json.dumps(content))
        done = main(f"report {' '.join(names)} -o report.html")
        assert (done.returncode, done.stderr) == (0, "")
        page = Page((tmp_path / "report.html").read_text())
        for figure in page.figures:
            check_figure(figure)
        return page

    return make


def labels(page):
    return [figure.find("{*}title").text for figure in page.figures]


def test_ratios_over_peers_and_what_the_paper_prints(page_of):
    # 2 and 8 times as fast: 4 in the geometric mean.
    rows = [row(n=8192, seconds=1, bound=0.5), row("cublasxt", 8192, 2)]
    rows += [row(n=16384, seconds=2, bound=1.5), row("cublasxt", 16384, 16)]
    page = page_of({"dataset": "regular", "machine": "four GPUs", "results": rows})
    cells = page.row("DGEMM", "h,h,h", "cuBLASXt")
    assert cells == ["2", "4.00x", "2.00x", "8.00x", "3.42x"]
    assert page.row("DGEMM", "h,h,h", "XKBLAS") == ["-", "-", "-", "-", "1.4x"]
    assert "Measured on four GPUs: DGEMM at h,h,h, 2 sizes" in page.text
    assert page.row("8K") == ["50.0 % (1.00 s)"]
    assert page.row("16K") == ["75.0 % (2.00 s)"]


def test_routines_have_figures_rates_ratios_and_balances_of_their_own(page_of):
    rows = []
    for n in (4096, 8192):
        for routine, place in (("gemm", "h,h,h"), ("syrk", "h,h")):
            words = {"routine": routine, "place": place}
            rows.append(row(n=n, seconds=1, bound=0.5, balance=n / 32768, **words))
            rows.append(row("cublasxt", n, 3, **words))
    rows.append(row(n=8192, routine="syrk", place="h,h", uplo="u", transa="t", bound=0.25))
    page = page_of({"dataset": "level3", "results": rows})
    assert labels(page)[:2] == ["DGEMM at h,h,h", "DSYRK at h,h"]
    # 2 n^3 and n^3 flops in a second, and no number of paper 1, which has gemm only.
    for figure, rate in zip(page.figures, ("1.10 TFLOPS", "550 GFLOPS")):
        assert rate in " ".join(part.text for part in figure.findall(".//{*}title"))
    assert page.row("DSYRK", "h,h", "cuBLASXt") == ["2", "3.00x", "3.00x", "3.00x", "-"]
    assert page.row("DGEMM", "h,h,h", "2") == ["18.8 %", "25.0 %", "8K"]
    assert "DSYRK 8K uplo=u transa=t" in page.text


def test_calls_on_resident_operands_are_no_others(page_of):
    rows = [row(n=n, seconds=2) for n in (4096, 8192)]
    rows += [row(n=n, seconds=1, resident=True) for n in (4096, 8192)]
    page = page_of(rows)
    assert {"DGEMM at h,h,h", "DGEMM at h,h,h resident"} <= set(labels(page))


def test_a_line_chart_has_a_line_per_engine_the_bound_and_the_prediction(page_of):
    rows = []
    for n in (4096, 8192, 16384):
        rows += [row(n=n, seconds=1, bound=0.5, predicted_s=0.9), row("cublasxt", n, 2)]
    page = page_of(rows)
    chart = page.figures[labels(page).index("DGEMM at h,h,h")]
    curves = [part.get("class").split() for part in chart.findall(".//{*}polyline")]
    assert curves == [["curve", "s0"], ["curve", "s1"], ["curve", "ink"], ["curve", "s0", "dashed"]]
    texts = [part.text for part in chart.findall(".//{*}text")]
    for text in ("4K", "8K", "16K", "FleetBLAS", "cuBLASXt", "bound", "predicted", "TFLOPS"):
        assert text in texts
    # 2 n^3 / s: 0.137, 1.10 and 8.80 TFLOPS; the tips say so.
    tips = " ".join(part.text for part in chart.findall(".//{*}title"))
    assert "8.80 TFLOPS" in tips and "50 % of the bound" in tips


def test_quartiles_means_and_the_worst_cases(page_of):
    # 5 cases at 20, 40, 60, 80 and 100 % of their bound.
    rows = [
        row(n=1024 * i, seconds=1, bound=0.2 * i, shape="square", limited_by=f"port {i}")
        for i in (1, 2, 3, 4, 5)
    ]
    rows += [row(n=8192, seconds=1, bound=0.5, k=512, shape="fat-thin", place="0,0,0")]
    page = page_of({"dataset": "irregular", "results": rows})
    mean = 100 * (0.2 * 0.4 * 0.6 * 0.8) ** 0.2
    numbers = [f"{mean:.1f} %", "20.0 %", "40.0 %", "60.0 %", "80.0 %", "100.0 %"]
    assert page.row("DGEMM", "square", "h,h,h") == ["5", *numbers, "2"]
    assert page.row("DGEMM", "fat-thin", "0,0,0")[:2] == ["1", "50.0 %"]
    assert page.row("DGEMM", "all shapes", "all places")[0] == "6"
    assert page.row("DGEMM 1K", "square", "h,h,h", "port 1")[0] == "20.0 %"
    assert labels(page)[:2] == ["DGEMM, square", "DGEMM, fat-thin"]


def test_ratios_by_shape_of_the_irregular_data_set(page_of):
    rows = [row(n=n, seconds=1, shape="square") for n in (5120, 6144)]
    rows += [row("cublasxt", n, seconds, shape="square") for n, seconds in ((5120, 3), (6144, 12))]
    page = page_of({"dataset": "irregular", "results": rows})
    for shape, printed in (("all shapes", "11.8x"), ("square", "8.7x")):
        cells = page.row("DGEMM", shape, "cuBLASXt")
        assert cells == ["2", "6.00x", "3.00x", "12.0x", printed]


def test_folded_places_are_named_as_the_paper_has_them(page_of):
    rows = [row(place="2,1,h", named_place="4,2,h", bound=0.5)]
    rows += [row(place="2,1,h", named_place="5,3,h", bound=0.25)]
    page = page_of({"dataset": "irregular", "results": rows})
    assert page.row("DGEMM", "square", "2,1,h (for 4,2,h)")[1] == "50.0 %"
    assert page.row("DGEMM", "square", "2,1,h (for 5,3,h)")[1] == "25.0 %"


def test_ablation_factors_are_each_over_the_bar_before(page_of):
    bars = {"naive SUMMA": 12, "+ caching, overlap": 6, "+ bandwidth routing": 4, "all": 2}
    rows = [row(n=n, seconds=s, bar=bar) for n in (8192, 16384) for bar, s in bars.items()]
    # Only one of the sizes: left out of the bars that follow each other.
    rows += [row(n=20480, seconds=1, bar="naive SUMMA")]
    rows += [
        row(n=8192, seconds=4, bar="without lazy"),
        row(n=16384, seconds=16, bar="without lazy"),
    ]
    page = page_of({"dataset": "ablation", "results": rows})
    # 2 * 8192^3 / 12 s = 0.0916 TFLOPS, 8 times that at 16384: 0.259 is their geometric mean.
    assert page.row("naive SUMMA") == ["0.259", "-", "-"]
    assert page.row("+ caching, overlap")[1:] == ["2.00x", "almost 2x"]
    assert page.row("+ bandwidth routing")[1:] == ["1.50x", "1.33x"]
    assert page.row("all rules")[1:] == ["2.00x", "-"]
    assert "geometric means over 2 sizes" in page.text
    (left_out,) = [f for f in page.figures if "left out" in f.find("{*}title").text]
    texts = [part.text for part in left_out.findall(".//{*}text")]
    assert "without lazy" in texts and "25.0 % (12 % to 50 %)" in texts


def test_scaling_stands_beside_the_bound_and_the_paper(page_of):
    rows = [row(devices=d, seconds=s, bound=b) for d, s, b in ((1, 8, 4), (2, 4, 2), (4, 2.5, 1))]
    rows += [row("cublasxt", devices=d, seconds=s) for d, s in ((1, 8), (2, 5), (4, 16))]
    page = page_of({"dataset": "scaling", "results": rows})
    first = ("DGEMM 8K", "h,h,h", "FleetBLAS")
    assert page.row(*first, "1") == ["8.00 s", "1.00x", "1.00x", "100 %", "-"]
    assert page.row(*first, "4") == ["2.50 s", "3.20x", "4.00x", "80 %", "3x"]
    assert page.row("DGEMM 8K", "h,h,h", "cuBLASXt", "4") == ["16.0 s", "0.50x", "-", "-", "2.5x"]
    assert "DGEMM 8K at h,h,h" in labels(page)


def test_scaling_from_two_devices_on_has_no_numbers_of_the_paper(page_of):
    rows = [row(devices=d, seconds=s, bound=1) for d, s in ((2, 4), (4, 2))]
    page = page_of({"dataset": "scaling", "results": rows})
    assert page.row("DGEMM 8K", "h,h,h", "FleetBLAS", "4")[1:] == ["2.00x", "1.00x", "200 %", "-"]


def test_predictions_have_their_median_error(page_of):
    rows = [
        row(n=1024 * (i + 1), seconds=1, predicted_s=1 + error)
        for i, error in enumerate((-0.3, -0.05, 0.0, 0.08, 0.12))
    ]
    page = page_of({"dataset": "regular", "results": rows})
    cells = page.row("regular", "DGEMM")
    assert cells == ["5", "8.0 %", "22.8 %", "30.0 %", "+0.0 %", "3 of 5"]
    assert "5 cases, median error 8.0 %" in page.text


def test_simulated_rows_say_so_and_are_no_test_of_predictions(page_of):
    rows = [row(n=n, seconds=1, predicted_s=1, measured="simulated") for n in (4096, 8192)]
    page = page_of({"machine": "karolina", "results": rows})
    assert "Simulated on karolina: DGEMM at h,h,h, 2 sizes" in page.text
    assert "median error" not in page.text
    assert "Measured on" not in page.text


def test_energy_by_engine(page_of):
    # 2 * 8192^3 flops in 1099.511627776 J: 1 GFLOPS per watt; cuBLASXt needs four times as much.
    joules = 2 * 8192**3 / 1e9
    rows = [row(joules=joules), row("cublasxt", joules=4 * joules, seconds=2)]
    page = page_of(rows)
    assert page.row("bench", "DGEMM", "h,h,h", "FleetBLAS") == ["1", "1", ""]
    assert page.row("bench", "DGEMM", "h,h,h", "cuBLASXt") == ["1", "0.25", "4.00x"]


def test_first_calls(page_of):
    page = page_of([row(first_s=2, n=8192), row(first_s=8, n=16384)])
    cells = page.row("DGEMM", "h,h,h", "2", "4.00x", "8.00x")
    assert cells == ["16K: 8.00 s, then 1.00 s"]


def test_mean_rates_of_paralia_are_flops_over_seconds(page_of):
    # The small half: 2 * 1024^3 flops in 1 s, the large one: 2 * 8192^3 in 1 s.
    page = page_of({"dataset": "paralia", "results": [row(n=8192), row(n=1024)]})
    assert page.row("FleetBLAS", "here") == ["2", "2", "1100", "551", "-"]
    assert page.row("cuBLASXt", "printed, 8 V100 of CLX-AI")[1:] == ["1827", "8516", "7484", "3.23"]


def test_failures_are_listed_and_never_drawn(page_of):
    rows = [row(n=4096), row(n=8192), row("cublasxt", 4096, 2)]
    bad = {"status": "no_memory", "message": "out of memory", "bound_fraction": 0.99}
    rows += [row("cublasxt", 8192, 0.001, **bad)]
    page = page_of(rows)
    cells = page.row("results0.json", "cuBLASXt", "DGEMM 8K", "h,h,h")
    assert cells == ["-", "no_memory", "out of memory"]
    assert page.row("DGEMM", "h,h,h", "cuBLASXt")[:2] == ["1", "2.00x"]
    assert "1 row failed and is not drawn" in page.text
    assert "1.00 ms" not in "".join(labels(page)) + " ".join(
        part.text or "" for figure in page.figures for part in figure.iter()
    )


def test_names_are_escaped_everywhere(page_of, tmp_path):
    evil = "<b>&\"'</svg><script>alert(1)</script>"
    rows = [row(evil, n, limited_by=evil, place=evil, bar=None) for n in (4096, 8192)]
    rows += [row("fleetblas", n, place=evil, bound=0.5) for n in (4096, 8192)]
    rows += [row("x", status=evil, message=evil)]
    page = page_of({"machine": evil, "dataset": evil, "notes": [evil], "results": rows})
    assert evil in page.text  # as text
    assert evil in " ".join(part.text or "" for f in page.figures for part in f.iter())
    assert "<script" not in (tmp_path / "report.html").read_text()


def test_odd_values_are_dashes(page_of):
    odd = [
        {},
        {"engine": "fleetblas"},
        {"engine": 3, "m": "big", "median_s": "fast", "grid": 4, "tile": None, "new": [1]},
        row(seconds=None),
        row(seconds=0),
        row(seconds=-1, bound=0),
        row(n=0),
        row(seconds=10**400),
        row(type="q", tflops=2.0),
        row(place=None, beside=None),
        row(joules=[1], first_s={}, predicted_s=True),
        7,
    ]
    page = page_of(odd)
    assert "1 result is no row and left out" in page.text
    assert sum(cells[:1] == ["results0.json"] for cells in page.rows) == 1 + len(odd) - 1


def test_one_machine_is_one_setup_unless_measured_again(page_of):
    file = {"machine": "here", "dataset": "regular"}
    first, second = [row(n=4096, bound=0.5)], [row(n=8192, bound=0.5)]
    page = page_of({**file, "results": first}, {**file, "results": second})
    assert "Measured on here: DGEMM at h,h,h, 2 sizes" in page.text
    page = page_of({**file, "results": first}, {**file, "results": first + second})
    assert "Measured on here (results0.json): DGEMM at h,h,h, 1 size" in page.text
    assert "Measured on here (results1.json): DGEMM at h,h,h, 2 sizes" in page.text


def test_the_page_needs_nothing_from_elsewhere(page_of):
    page = page_of([row(n=4096), row(n=8192)])
    assert page.links
    assert all(link.startswith("#") for link in page.links)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_of_the_tree(path, tmp_path, main):
    done = main(f"report {path} -o report.html")
    assert (done.returncode, done.stderr) == (0, "")
    page = Page((tmp_path / "report.html").read_text())
    for figure in page.figures:
        check_figure(figure)
    assert len(page.rows) > 5


def test_numpy_is_not_needed(cli, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps({"results": [row()]}))
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(name='numpy')")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    done = cli("report r.json -o -", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert "DGEMM 8K" in done.stdout


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot read"),
        ("{", "is not JSON"),
        ("\xff", "is not JSON"),
        ("[" * 100000, "is not JSON"),
        ("[]", "has no results"),
        ("{}", "has no results"),
        ('{"results": 3}', "has no results"),
        ('{"results": []}', "has no results"),
    ],
)
def test_files_that_hold_no_results(main, tmp_path, content, reason):
    if content is not None:
        (tmp_path / "odd.json").write_bytes(content.encode("latin-1"))
    done = main("report odd.json -o report.html")
    assert done.returncode == 1
    assert done.stderr.startswith("fleetblas report: ")
    assert reason in done.stderr and "odd.json" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_wrong_usage(main, tmp_path):
    assert main("report").returncode == 2
    assert main("report results.json").returncode == 2
    assert main("report -o report.html").returncode == 2
    (tmp_path / "r.json").write_text(json.dumps({"results": [row()]}))
    done = main("report r.json -o nowhere/report.html")
    assert done.returncode == 1
    assert "cannot write" in done.stderr


# ---- pieces -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (208, ["0", "50", "100", "150", "200", "250"]),
        (0.9, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (7.2, ["0", "2", "4", "6", "8"]),
        (0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (1200, ["0", "200", "400", "600", "800", "1000", "1200"]),
    ],
)
def test_ticks_are_round(most, texts):
    assert [text for _, text in report_figures.linear_axis("", [most]).ticks] == texts


def test_axes_hold_what_they_are_made_of():
    for values in ([1e-6, 3.0], [0.5], [1.0, 1.0], [2e-5, 2.1e-5], [999.0, 1001.0]):
        axis = report_figures.log_axis("", values)
        assert axis.low <= min(values) and max(values) <= axis.high
        assert len(axis.ticks) >= 2
        assert 0 <= axis.share(min(values)) <= axis.share(max(values)) <= 1
    sizes = [*range(5120, 16385, 1024), *range(20480, 32769, 2048)]
    axis = report_figures.size_axis("N", sizes, str)
    assert [value for value, _ in axis.ticks] == [4096 * i for i in range(9)]


def test_statistics():
    assert report_rows.geometric_mean([1, 4, 16]) == pytest.approx(4)
    assert report_rows.geometric_mean([]) is None
    assert [report_rows.quantile([4, 1, 3, 2], q) for q in (0, 0.25, 0.5, 1)] == [1, 1.75, 2.5, 4]
    assert report_rows.quantile([3], 0.25) == 3


def test_printed_speedups():
    assert report_papers.speedup("DGEMM", "h,h,h", 32768, 8) == 7.5
    assert report_papers.speedup("DGEMM", "0,0,0", 8192, 8, "cublasxt") == 0.15
    for words in (("SGEMM", "h,h,h", 32768, 8), ("DGEMM", "h,h,h", 4096, 8)):
        assert report_papers.speedup(*words) is None
    assert report_papers.speedup("DGEMM", "h,h,h", 32768, 1) is None
    assert report_papers.speedup("DGEMM", "h,h,h", 32768, 8, "XKBLAS") is None


def test_the_same_rows_make_the_same_page(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"results": [row(n=4096), row("other", 4096)]}))
    assert report.page_of([report_rows.read(path)]) == report.page_of([report_rows.read(path)])

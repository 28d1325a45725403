"""The page of a report: what it says, and in a browser."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.pages.report.conftest import GOLDEN, WriteRun, logged, validated

from heedful.pages.report.curves import figures, layer_figures, thin
from heedful.pages.report.page import report_page
from heedful.pages.report.record import read_run, read_runs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RUNS = [GOLDEN / "transformer/run", GOLDEN / "recurrent/run"]


def test_text_of_a_run_is_never_markup(write_run: WriteRun) -> None:
    hostile = "</script><script>alert(1)</script>"
    run = write_run(lines=[logged(10), validated(10, **{"loss": 1.0, hostile: 2.0})], note=hostile)
    page = report_page([read_run(run)])
    assert "alert(1)</script>" not in page
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}  # the name of SVG


def test_runs_are_compared_by_curves_and_by_the_keys_that_differ(write_run: WriteRun) -> None:
    lines = [logged(10, 2.0, learning_rate=0.1), validated(10, loss=1.0, bleu=3.0)]
    records = read_runs([write_run("a", lines), write_run("b", [logged(20, 4.0)], {"seed": 2})])
    drawn = {figure.name: figure for figure in figures(records)}
    assert [(one.name, list(one.x), list(one.y)) for one in drawn["training-loss"].series] == [
        ("a", [10], [2.0]),
        ("b", [20], [4.0]),
    ]
    assert [one.colour for one in drawn["training-loss"].series] == [0, 1]
    assert [one.name for one in drawn["score-bleu"].series] == ["a"]
    page = report_page(records)
    assert "<code>train.seed</code></th><td>nothing</td><td>2</td>" in page
    assert "train.steps</code>" not in page


def test_a_baseline_is_in_the_chart_of_its_metric(write_run: WriteRun) -> None:
    run = write_run(lines=[validated(10, accuracy=0.5, baseline_accuracy=0.75)], task="classify")
    (drawn,) = figures([read_run(run)])
    assert [(one.name, list(one.y)) for one in drawn.series] == [("model", [0.5]), ("baseline", [0.75])]


def test_layers_are_drawn_where_instruments_measured_them(write_run: WriteRun) -> None:
    run = write_run(lines=[logged(10)])
    parts = [("encoder.1", 3.0), ("encoder.1", 4.0), ("encoder.2", 2.0)]
    part = {"kind": "bias", "size": 3, "weight": 10.0}
    weights = [{"layer": layer, "gradient": norm, "update": norm, **part} for layer, norm in parts]
    attention = [{"layer": "encoder.1", "kind": "self", "entropy": [1.0, 2.0]}]
    record = {"step": 5, "learning_rate": 0.1, "weights": weights, "attention": attention}
    (run / "instruments.jsonl").write_text(json.dumps(record) + "\n")
    drawn = {figure.name: figure for figure in layer_figures([read_run(run)])}
    assert {one.name: list(one.y) for one in drawn["layer-gradients"].series} == {
        "encoder.1": [5.0],
        "encoder.2": [2.0],
    }
    (update, _) = drawn["layer-updates"].series
    assert list(update.y) == [pytest.approx(5.0 / 200**0.5)]
    assert [(one.name, list(one.y)) for one in drawn["layer-entropy"].series] == [("encoder.1, self", [1.5])]
    assert 'id="figure-layer-gradients"' in report_page([read_run(run)])


def test_samples_are_shown_over_time_with_their_reference(write_run: WriteRun) -> None:
    run = write_run(lines=[logged(10)])
    said = [(10, "un <b>"), (20, "un perro")]
    lines = [{"step": s, "samples": [{"input": "a dog", "reference": "el perro", "output": o}]} for s, o in said]
    (run / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"step": 30}]))
    page = report_page([read_run(run)])
    assert '<th scope="row">step 10</th><td>un &lt;b&gt;</td>' in page
    assert (
        '<th scope="row">step 20</th><td>un perro</td></tr><tr><th scope="row">reference</th><td>el perro</td>' in page
    )


def test_a_long_run_is_drawn_with_fewer_points_from_its_first_to_its_last() -> None:
    assert thin(range(5), 5) == [0, 1, 2, 3, 4]
    assert thin(range(10_001), 5) == [0, 2500, 5000, 7500, 10_000]


class Opened:
    """A page, the requests that it made, and what went wrong in it."""

    def __init__(self, browser: "Browser", path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")

    def close(self) -> None:
        """End, and check that all went well."""
        self.context.close()
        assert not self.errors
        assert all(url.startswith(("file:", "data:", "blob:")) for url in self.requests)
        assert len([url for url in self.requests if url.startswith("file:")]) == 1


def write(path: Path, runs: list[Path]) -> Path:
    path.write_text(report_page(read_runs(runs)), encoding="utf-8")
    return path


def test_values_that_the_page_shows_are_those_of_the_run(browser: "Browser", tmp_path: Path) -> None:
    opened = Opened(browser, write(tmp_path / "page.html", RUNS[:1]))
    lines = [json.loads(line) for line in (RUNS[0] / "metrics.jsonl").read_text().splitlines()]
    chart = opened.page.locator("#figure-loss")
    chart.locator("svg").focus()
    for line in sorted(lines, key=lambda line: line["step"]):
        steps = sorted({one["step"] for one in lines})
        opened.page.keyboard.press("Home")
        for _ in range(steps.index(line["step"])):
            opened.page.keyboard.press("ArrowRight")
        series = {"train": "training", "valid": "validation"}[line["part"]]
        shown = chart.locator(f".readout b[data-series='{series}']").get_attribute("data-value")
        assert float(shown or "nan") == line["loss"]
    opened.page.mouse.move(0, 0)
    box = chart.locator("svg").bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] / 2)
    assert chart.locator(".readout").inner_text().startswith("step 10, training ")
    opened.close()


@pytest.mark.wide
def test_every_chart_downloads_as_svg(browser: "Browser", tmp_path: Path) -> None:
    opened = Opened(browser, write(tmp_path / "page.html", RUNS))
    buttons = opened.page.locator("[data-save]").all()
    assert len(buttons) == len(figures(read_runs(RUNS)))
    with opened.page.expect_download() as download:
        buttons[0].click()
    assert download.value.suggested_filename == "training-loss.svg"
    assert "<polyline" in Path(download.value.path()).read_text()
    opened.close()


@pytest.mark.wide
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_the_report_without_scrolling_sideways(
    browser: "Browser", tmp_path: Path, scheme: str
) -> None:
    path = write(tmp_path / "page.html", RUNS)
    opened = Opened(browser, path, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    for summary in opened.page.locator("summary").all():
        summary.click()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    ground = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 21, 28)") == (scheme == "dark")
    opened.close()

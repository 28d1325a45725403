"""Images of the pages: the pipeline of the README, and recordings of a terminal."""

import re
from xml.etree import ElementTree

import pytest
from scripts.terminal_recording import SHOWN, Line, draw
from tests.docs.blocks import PAGES, ROOT

LINES = [Line(1.0, "step 1"), Line(30.0, ""), Line(60.0, "  a < b & c")]


def _delays(image: str) -> list[float]:
    return [float(delay) for delay in re.findall(r"animation-delay: ([\d.]+)s", image)]


def test_a_recording_shows_the_command_and_every_line_as_it_was_printed() -> None:
    texts = ["".join(element.itertext()) for element in ElementTree.fromstring(draw("make demo", LINES)).iter()]
    assert "$ make demo" in texts
    assert "  a < b & c" in texts
    assert texts.index("step 1") < texts.index("  a < b & c")


def test_a_long_recording_is_faster_says_so_and_keeps_its_proportions() -> None:
    image = draw("make demo", LINES)
    assert _delays(image) == pytest.approx([0, SHOWN / 60, SHOWN], abs=0.01)
    assert "recorded in 60 s, shown 3 times as fast" in image


def test_a_short_recording_is_in_real_time() -> None:
    image = draw("ls", [Line(2.0, "README.md")])
    assert _delays(image) == [0, 2]
    assert "times as fast" not in image


def test_every_photograph_is_small_and_shown_by_a_page() -> None:
    shown = {
        ((ROOT / page).parent / name).resolve()
        for page in PAGES
        for name in re.findall(r"[\w./-]+\.png", (ROOT / page).read_text(encoding="utf-8"))
    }
    for path in (ROOT / "docs/images").rglob("*.png"):
        assert path.stat().st_size < 150_000, path
        assert path in shown, path


def test_every_image_of_a_page_is_whole_and_needs_nothing_but_itself() -> None:
    shown = {
        ((ROOT / page).parent / name).resolve()
        for page in PAGES
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+\.svg)\)", (ROOT / page).read_text(encoding="utf-8"))
    }
    assert ROOT / "docs/images/pipeline.svg" in shown
    for path in shown:
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in text or "#14181d" in text
        for element in ElementTree.fromstring(text).iter():
            assert element.tag.rpartition("}")[2] not in {"script", "image", "foreignObject", "use", "a"}

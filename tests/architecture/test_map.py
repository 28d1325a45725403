"""`docs/architecture.md` and its image say what the source tree is today."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts.architecture_map import Map, Room, current_files, draw
from tests.docs.blocks import PAGES

ROOT = Path(__file__).parents[2]
# Where a path in a page may start.
HOMES = [ROOT, ROOT / "docs", ROOT / "src/heedful", ROOT / "src"]
PATH = re.compile(r"`([a-z_]+(?:/[a-z_0-9]+)*/?(?:\.(?:py|toml|md|json|svg))?)`")


def test_the_map_is_current_run_make_map_where_it_is_not() -> None:
    for path, text in current_files(ROOT).items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {name for name in PATH.findall(text) if "/" in name and not name.startswith(NOT_OURS)}
    assert not {name for name in named if not any((home / name).exists() for home in HOMES)}


# A reader's own folders in examples, folders inside a run's folder, and the owner/name of someone else's project.
NOT_OURS = ("runs/", "single/", "mean/", "checkpoints/", "records/")


LINK = re.compile(r"""(?<=\]\()[^)\s]+(?=\))|(?<=\bsrc=")[^"]+|(?<=\bsrcset=")[^"]+""")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = {link.partition("#")[0] for link in LINK.findall(text) if "://" not in link}
    assert not {link for link in links if link and not ((ROOT / page).parent / link).exists()}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_part_of_a_page_names_one_of_its_headings(page: str) -> None:
    links = [link.partition("#") for link in LINK.findall((ROOT / page).read_text(encoding="utf-8"))]
    for name, hash_, anchor in links:
        if hash_ and "://" not in name and not name.endswith(".py"):
            text = ((ROOT / page).parent / name if name else ROOT / page).read_text(encoding="utf-8")
            assert anchor in {_anchor(heading) for heading in re.findall(r"^##* (.*)$", text, re.M)}, name


def _anchor(heading: str) -> str:
    """Return the name that a heading has in a link: its words in lower case, joined by hyphens."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/design.md"])
def test_every_class_and_function_that_a_page_on_the_sources_names_is_defined_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"`([A-Z][A-Za-z_]+)`", text)) | set(re.findall(r"`(?:\w+\.)?([a-z_]+)\(\)`", text))
    assert len(named) > 8
    assert not {
        name for name in named if not re.search(rf"^\s*(?:class|def|async def) {name}\b|^{name}\b", source, re.M)
    }


def test_the_image_needs_nothing_but_itself() -> None:
    text = (ROOT / "docs/images/architecture.svg").read_text(encoding="utf-8")
    for element in ElementTree.fromstring(text).iter():
        assert element.tag.rpartition("}")[2] not in {"script", "image", "foreignObject", "use", "a"}
        assert not any("href" in name or value.startswith("url(") for name, value in element.items())
    assert "@import" not in text


def test_every_room_and_every_arrow_is_drawn_with_its_weight() -> None:
    rooms = [Room(name, "", 3, ["one", "two"]) for name in ("top", "middle", "bottom")]
    image = draw(Map([[room] for room in rooms], {"leaf": 7}, {("top", "bottom"): 41, ("middle", "bottom"): 1}))
    texts = re.findall(r">([^<>\n]+)</t", image)
    assert [texts.count(name) for name in ("top", "middle", "bottom")] == [1, 1, 1]
    assert [text for text in texts if text.isdigit()] == ["1", "41"]  # thin lines first, thick ones above them
    assert "imported by 7" in texts

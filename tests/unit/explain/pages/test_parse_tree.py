"""A parse as a drawn tree."""

from xml.etree import ElementTree

from heedful.base.trees import read_tree
from heedful.explain.pages.trees import parse_svg

SVG = "{http://www.w3.org/2000/svg}"
TREE = read_tree("(S (NP (DT a) (NN <dog>&)) (VP (VBZ barks) (ADVP (RB now))))", "here")


def test_words_are_in_one_row_in_their_order_under_their_constituents() -> None:
    root = ElementTree.fromstring(parse_svg(TREE))
    placed = {text.text: (float(text.get("x", "nan")), float(text.get("y", "nan"))) for text in root.iter(f"{SVG}text")}
    words = [placed[word] for word in ("a", "<dog>&", "barks", "now")]
    assert [x for x, _ in words] == sorted(x for x, _ in words)
    assert len({y for _, y in words}) == 1
    assert placed["S"][1] < placed["NP"][1] == placed["VP"][1] < placed["ADVP"][1] < placed["DT"][1] < words[0][1]
    assert words[0][0] < placed["NP"][0] < words[1][0]
    assert len(list(root.iter(f"{SVG}path"))) == 7, "a line to every constituent and word below another"
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert all(0 < x < width and 0 < y < height for x, y in placed.values())

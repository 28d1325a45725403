"""The charts of a study's page."""

from heedful.lab.study.figures import alignments


def test_an_alignment_names_pieces_without_the_marks_of_a_words_end() -> None:
    found = {"output": "ein hund", "source": ["a</w>", "do", "g</w>"], "target": ["ein</w>", "</w>"]}
    cell = {"name": "base", "alignment": {**found, "weights": [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]]}}
    page = alignments({"cells": [cell]})
    shown = [name for name in (">a<", ">do<", ">g<", ">ein<") if name in page]
    assert shown == [">a<", ">do<", ">g<", ">ein<"]
    assert page.count("&lt;/w&gt;") == page.count(">&lt;/w&gt;<") > 0, "a piece that is only a mark keeps it"

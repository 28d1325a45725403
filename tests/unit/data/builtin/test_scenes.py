"""The scenes generator: sentences and answers are true of the image, and test has pairs that no other part has."""

import hashlib
import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.data.builtin.scenes import COLOURS, HELD_OUT, NUMBERS, SHAPES, SIZES, Scene, Thing, scenes
from heedful.data.builtin.scenes_drawing import BACKGROUND, PAINT, RADII, coverage, draw_scene

COUNT = 300


def test_one_tenth_of_the_pairs_is_held_out_and_occurs_in_test_only() -> None:
    assert len(HELD_OUT) == round(len(SHAPES) * len(COLOURS) / 10)
    for part in ("train", "valid", "test"):
        for scene in scenes(part, COUNT):
            assert any(thing.pair in HELD_OUT for thing in scene.things) == (part == "test")


def test_every_other_pair_and_every_size_is_trained_on() -> None:
    things = [thing for scene in scenes("train", COUNT) for thing in scene.things]
    assert {thing.pair for thing in things} == {(s, c) for s in SHAPES for c in COLOURS} - HELD_OUT
    assert {thing.size for thing in things} == {*SIZES}


def test_a_scene_has_three_to_five_different_things_in_cells_of_their_own() -> None:
    sizes = Counter(len(scene.things) for scene in scenes("train", COUNT))
    assert {*sizes} == {3, 4, 5}
    for scene in scenes("train", COUNT):
        cells = [(thing.row, thing.column) for thing in scene.things]
        assert cells == sorted({*cells})
        assert len({thing.pair for thing in scene.things}) == len(cells)


def test_parts_have_no_scene_in_common() -> None:
    train, valid, test = ({scene.sentence for scene in scenes(part, 1000)} for part in ("train", "valid", "test"))
    assert not train & valid
    assert not test & (train | valid)


def test_the_parts_are_the_same_everywhere() -> None:
    told = [
        [scene.sentence, *((asked.question, asked.answer) for asked in scene.questions)]
        for part in ("train", "valid", "test")
        for scene in scenes(part, 100)
    ]
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    assert digest == "73e913b5dc660ed958240b9d57074f4c2d7c6677b7cadf7522bac088ce3e52e7", (
        "a change of the scenes needs a new version in GENERATORS"
    )


def test_a_longer_draw_begins_with_the_shorter_one() -> None:
    assert [*scenes("valid", 10)] == [*islice(scenes("valid", 30), 10)]


def test_an_unknown_part_is_refused() -> None:
    with refuses("scenes has no part `dev`. Its parts are train, valid and test."):
        scenes("dev", 1)


# --- sentences and questions ------------------------------------------------------------------------------------------


def test_a_sentence_names_all_things_and_how_they_relate() -> None:
    things = (
        Thing("star", "red", "small", 0, 0),
        Thing("circle", "blue", "large", 0, 2),
        Thing("cross", "cyan", "medium", 2, 1),
    )
    scene = Scene(things)
    assert scene.sentence == "a small red star left of a large blue circle above a medium cyan cross"
    words = scene.sentence.split()
    for word, number in zip(words, scene.named(), strict=True):
        if number is None:
            assert word in ("a", "left", "of", "above")
        else:
            assert word in things[number].words.split()


def test_every_answer_is_true_of_its_scene() -> None:
    """Each kind of question is answered again, from the words of the question alone."""
    for scene in scenes("train", COUNT):
        for asked in scene.questions:
            assert asked.answer == _answer(asked.question.removesuffix(" ?").split(), scene.things), asked


def _answer(words: list[str], things: tuple[Thing, ...]) -> str:
    def matching(said: list[str]) -> list[Thing]:
        names = {word for word in said if word in (*SHAPES, *COLOURS, *SIZES)}
        return [thing for thing in things if names <= {*thing.words.split()}]

    match words:
        case ["what", key, "is", "the", "thing", side, "of", *rest]:
            (thing,) = matching(rest)
            beside = [other for other in things if other.row == thing.row]
            (found,) = [o for o in beside if (o.column < thing.column if side == "left" else o.column > thing.column)]
            return str(getattr(found, key))
        case ["what", key, "is", *rest]:
            (thing,) = matching(rest)
            return str(getattr(thing, key))
        case ["how", "many", *rest]:
            named = [word.removesuffix("es" if word == "crosses" else "s") for word in rest]
            return NUMBERS[len(matching(named))]
        case ["is", "there", *rest]:
            return "yes" if matching(rest) else "no"
        case ["is", "the", colour, shape, where, *rest]:
            (one,), (other,) = matching([colour, shape]), matching(rest)
            true = {
                "above": one.row < other.row,
                "below": one.row > other.row,
                "left": one.column < other.column,
                "right": one.column > other.column,
            }
            return "yes" if true[where] else "no"
        case _:
            raise AssertionError(words)


def test_yes_and_no_are_about_as_frequent() -> None:
    answers = Counter(asked.answer for scene in scenes("train", 1000) for asked in scene.questions)
    assert 0.6 < answers["yes"] / answers["no"] < 2.5
    assert {*answers} <= {*SHAPES, *COLOURS, *SIZES, *NUMBERS, "yes", "no"}


# --- images ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thing_is_painted_in_its_cell_and_nowhere_else(shape: str) -> None:
    image = draw_scene(Scene((Thing(shape, "orange", "large", 1, 2),)), 60)
    assert image.shape == (60, 60, 3)
    assert tuple(image[30, 50]) == PAINT["orange"]
    outside = image.copy()
    outside[20:40, 40:60] = BACKGROUND
    assert (outside == BACKGROUND).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_coverage_of_a_pixel_is_the_share_of_it_that_is_inside(shape: str) -> None:
    """At 16 times the resolution, where a pixel is inside or outside, the areas are nearly the same."""
    thing = Thing(shape, "red", "medium", 1, 1, 0.03, -0.02)
    fine = (coverage(thing, 60 * 16) > 0.5).reshape(60, 16, 60, 16).mean(axis=(1, 3))
    coarse = coverage(thing, 60)
    assert abs(fine.sum() - coarse.sum()) < 0.03 * fine.sum()
    assert np.abs(fine - coarse).max() < 0.35


def test_shapes_and_sizes_can_be_told_apart() -> None:
    areas = {size: [coverage(Thing(shape, "red", size, 1, 1), 64).sum() for shape in SHAPES] for size in SIZES}
    for small, medium, large in zip(*areas.values(), strict=True):
        assert 1.7 * small < medium < large / 1.7
    planes = [coverage(Thing(shape, "red", "small", 1, 1), 64) for shape in SHAPES]
    for number, plane in enumerate(planes):
        for other in planes[:number]:
            assert np.abs(plane - other).sum() > 3
    assert sorted(RADII.values()) == [*RADII.values()]

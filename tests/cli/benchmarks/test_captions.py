"""The benchmark of captions: when a word points at the thing that it names."""

from benchmarks.images.captions import pointed

from heedful.data.builtin.scenes import Scene, Thing
from heedful.tasks.caption.caption import Caption

SCENE = Scene((Thing("circle", "red", "small", 0, 0), Thing("star", "blue", "large", 2, 2)))


def _caption(text: str, *patches: tuple[int, int] | None) -> Caption:
    return Caption(text, 0.0, (), True, patches=patches)


def test_a_word_points_at_a_thing_if_its_patch_shows_some_of_it() -> None:
    assert SCENE.sentence == "a small red circle above a large blue star"
    here, far, other = (1, 1), (7, 0), (6, 6)  # of 8 x 8 patches: in the circle, in nothing, in the star
    found = pointed(SCENE, _caption(SCENE.sentence, far, here, other, None, far, far, other, other, here), 8)
    assert found == [True, False, False, True, True, False]


def test_the_words_of_a_wrong_caption_point_at_nothing() -> None:
    assert pointed(SCENE, _caption("a small red circle", (1, 1), (1, 1), (1, 1), (1, 1)), 8) == []

"""The line that captioners have to beat: the caption of the nearest training image."""

import numpy as np
import pytest

from heedful.data.images.decoding import Pixels
from heedful.data.prepare.images import image_streams
from heedful.data.token_store import TokenStore
from heedful.tasks.caption.baseline import nearest_captions
from heedful.tasks.caption.data import CaptionStore
from heedful.tasks.shared import pixels


def image(*values: int, side: int = 4) -> Pixels:
    """An image whose rows have these values."""
    return np.repeat(np.array(values, np.uint8), side)[:, None, None].repeat(len(values) * side, 1)


def store(images: list[Pixels], captions: list[tuple[int, list[int]]]) -> CaptionStore:
    """Images, and captions with the number of their image."""
    texts = TokenStore.of(text=[text for _, text in captions], picture=[[number] for number, _ in captions])
    return CaptionStore(texts.streams, images=TokenStore(image_streams(images)))


TRAIN = [
    store([image(0, 0), image(200, 0), image(90, 90)], [(0, [5]), (1, [6, 7]), (1, [8])]),
    store([image(0, 200), image(255, 255)], [(1, [9]), (0, [4, 4])]),
]


def naive(train: list[CaptionStore], asked: Pixels) -> list[int]:
    """The definition, for images of one size, none of which is averaged."""
    found = []
    for one in train:
        for number in range(len(one.images)):
            own = [row for row in range(len(one)) if one.sentence("picture", row)[0] == number]
            values = one.images.sentence("pixels", number).astype(float)
            if own:
                distance = float(((values - asked.reshape(values.shape)) ** 2).sum())
                found.append((distance, one.sentence("text", own[0]).tolist()))
    return min(found, key=lambda pair: pair[0])[1]


def test_the_caption_is_the_first_one_of_the_nearest_image_that_has_any() -> None:
    asked = [image(10, 10), image(180, 20), image(88, 92), image(30, 180), image(240, 240), image(127, 129)]
    found, sample = nearest_captions(TRAIN, asked)
    assert found == [naive(TRAIN, one) for one in asked]
    assert found[1] == [6, 7]
    assert sample == "the 5 training images"


def test_images_of_other_sizes_are_averaged() -> None:
    found, _ = nearest_captions(TRAIN, [image(20, 190, side=40), image(190, 20, side=2)])
    assert found == [[4, 4], [6, 7]]


def test_of_many_images_some_are_looked_at_and_one_at_least_has_a_caption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_MOST_IMAGES", 1)
    alone = [store([image(1, 1), image(9, 9)], [(1, [7])])]  # the first image has none
    assert nearest_captions(alone, [image(1, 1)]) == ([[7]], "1 of 2 training images")

"""Names of earlier versions in Python: methods and arguments work with a warning."""

import numpy as np
import pytest
from tests.golden.make_bundles import HERE

import heedful

PIXELS = np.zeros((64, 64, 3), np.uint8)


def test_old_names_of_arguments_and_methods_work_with_a_warning() -> None:
    model = heedful.ImageClassifier.load(HERE / "images-vit")
    with pytest.warns(DeprecationWarning, match="`pictures` is called `images` now"):
        assert model.classify(pictures=[PIXELS]) == model.classify([PIXELS])  # type: ignore[call-overload]
    with pytest.warns(DeprecationWarning, match="`picture` is called `image` now"):
        explained = model.explain(picture=PIXELS)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="`picture` is called `image` now"):
        assert explained.picture is explained.image
    with pytest.warns(DeprecationWarning, match="`stream_pictures` is called `stream_images` now"):
        model.stream_pictures([])  # type: ignore[attr-defined]

"""Stores of images: decoded once, found again in the cache, and refused where a model cannot use them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.shared.refusals import refuses

from heedful.base.packed import IGNORED, Run
from heedful.config.data import ImageForm
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.batches.images import ImageCollator
from heedful.data.collate import StaticShape
from heedful.data.corpora.files import content_key
from heedful.data.corpora.images import LabelledImage, read_images
from heedful.data.images.decoding import EncodedPixels
from heedful.data.prepare.images import image_rows, image_streams, prepare_images
from heedful.data.prepare.stores import NumberStream, build_store
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import Classifier
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.classify.objective import OneLabel, augment_images


def recipe_of(train: dict[str, Any], size: int | None = None, **encoder: Any) -> Recipe:
    form = {} if size is None else {"images": {"height": size, "width": size}}
    table = {"family": "vit", "width": 8, "heads": 2, "layers": 1, "inner": 8, "patch": 4, "channels": 1, **encoder}
    return recipe_from_json(
        {
            "data": {"train": [train], "valid": [train], **form},
            "model": {"family": "image_classifier", "encoder": table},
        },
        "recipe",
    )


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for label, sizes in (("cat", ((4, 6), (5, 5))), ("dog", ((4, 6),))):
        for number, (height, width) in enumerate(sizes):
            pixels = np.full((height, width, 3), 40 * number + len(sizes), np.uint8)
            path = tmp_path / "photos" / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return tmp_path / "photos"


def test_images_keep_their_sizes_or_get_one(photos: Path) -> None:
    own = prepare_images(recipe_of({"images": str(photos)}))
    assert own.vocabularies.labels == ("cat", "dog")
    assert own.train[0].streams["size"].values.tolist() == [[4, 6], [5, 5], [4, 6]]
    assert own.train[0].streams["pixels"].lengths().tolist() == [24, 25, 24]
    assert own.train[0].streams["label"].values.tolist() == [0, 0, 1]
    one = prepare_images(recipe_of({"images": str(photos)}, 8, channels=3))
    assert one.train[0].streams["size"].values.tolist() == [[8, 8]] * 3
    assert one.train[0].streams["pixels"].values.shape == (3 * 64, 3)


def test_the_size_on_disk_is_told_and_a_second_time_nothing_is_decoded(photos: Path) -> None:
    said: list[str] = []
    train = {"images": str(photos), "name": "photos"}
    first = prepare_images(recipe_of(train, 512, channels=3, patch=16), said.append)
    assert said[:2] == ["decoding photos: 3 images, 2 MiB in the cache", "photos: 3 images"]
    said.clear()
    again = prepare_images(recipe_of(train, 512, channels=3, patch=16), said.append)
    assert said == ["photos: 3 images"] * 2
    assert again.train[0].key == first.train[0].key


def test_another_image_under_the_same_name_is_decoded_again(photos: Path) -> None:
    first = prepare_images(recipe_of({"images": str(photos)})).train[0].key
    Image.new("L", (6, 4), 99).save(photos / "cat" / "0.png")
    assert prepare_images(recipe_of({"images": str(photos)})).train[0].key != first


def test_one_class_is_not_enough(photos: Path) -> None:
    for path in (photos / "dog").iterdir():
        path.unlink()
    with refuses("...has the label `cat` alone, but a classifier needs..."):
        prepare_images(recipe_of({"images": str(photos)}))


def test_a_label_that_is_only_in_validation_is_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "cow").mkdir(parents=True)
    Image.new("L", (6, 4)).save(tmp_path / "other" / "cow" / "0.png")
    recipe = recipe_of({"images": str(photos)})
    other = recipe_of({"images": str(tmp_path / "other")}).data.train
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"valid": other})})
    with refuses("...0.png has the label `cow`, which is not a class of the model..."):
        prepare_images(recipe)


def test_a_damaged_image_is_refused_by_its_name(photos: Path) -> None:
    (photos / "dog" / "0.png").write_bytes(b"not at all\n")
    with refuses("...dog/0.png is not an image but text: it must be PNG, JPEG or WebP."):
        prepare_images(recipe_of({"images": str(photos)}))


def test_an_image_may_have_a_number(photos: Path) -> None:
    (corpus,) = recipe_of({"images": str(photos)}).data.train
    images = [*read_images(corpus)]
    number = NumberStream[LabelledImage](lambda image: len(image.label) / 7)
    rows = image_rows(images, lambda image: image, ImageForm(height=4, width=4), 3, [number])
    made = build_store(corpus, rows, content_key(corpus), lambda message: None)
    assert set(made.streams) == {"pixels", "size", "number"}
    assert made.streams["number"].lengths().tolist() == [1, 1, 1]
    assert made.streams["number"].values.tolist() == [np.float32(3 / 7)] * 3


def test_a_corpus_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("\n")
    recipe = recipe_of({"tsv": "t.tsv", "image": 1, "label": 2})
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"folder": str(tmp_path)})})
    with refuses("t.tsv has no image to use: it is empty."):
        prepare_images(recipe, given=Vocabularies({}, ("cat", "dog")))


# --- images that stay encoded ---------------------------------------------------------------------------------------


def _limited(recipe: Recipe, gibibytes: float) -> Recipe:
    form = recipe.data.images.model_copy(update={"cache_limit": gibibytes})
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"images": form})})


def test_files_above_the_limit_stay_encoded_and_give_the_same_batches(photos: Path) -> None:
    recipe, said = recipe_of({"images": str(photos)}, 8, channels=3), list[str]()
    whole, encoded = prepare_images(recipe), prepare_images(_limited(recipe, 1e-7), said.append)
    taken = sum(path.stat().st_size for path in photos.rglob("*.png"))
    assert len(encoded.train[0].streams["pixels"].values) == taken
    told = (
        f"reading {photos}: 3 images, 0 MiB in the cache; decoded they would take 0.0 GiB, more than "
        "`data.images.cache_limit` (1e-07), so they are decoded whenever they are shown"
    )
    assert told in said
    assert f"{photos}: 3 images, decoded in training" in said
    rows, collator = np.array([2, 0, 1]), ImageCollator(4, True)
    assert collator.costs(whole.train, rows)[0].tolist() == collator.costs(encoded.train, rows)[0].tolist()
    for static in (None, StaticShape.rows(20, 5)):
        first, second = (collator.batch(found.train, rows, static) for found in (whole, encoded))
        assert torch.equal(first.inputs.pixels, second.inputs.pixels)
        assert first.inputs.runs == second.inputs.runs
        assert torch.equal(first.labels, second.labels)


def test_a_damaged_file_is_refused_before_training_even_if_images_stay_encoded(photos: Path) -> None:
    path = photos / "dog" / "0.png"
    path.write_bytes(path.read_bytes()[:50])
    with refuses("...dog/0.png cannot be decoded..."):
        prepare_images(_limited(recipe_of({"images": str(photos)}, 8), 1e-7))


def test_arrays_and_images_of_their_own_sizes_are_stored_decoded(photos: Path) -> None:
    for recipe in (recipe_of({"builtin": "scenes", "count": 3}, 8), recipe_of({"images": str(photos)})):
        assert not isinstance(prepare_images(_limited(recipe, 1e-9)).train[0].streams["pixels"], EncodedPixels)


# --- batches ----------------------------------------------------------------------------------------------------------


def _stores() -> list[TokenStore]:
    images = [np.full((4, 8, 1), 3, np.uint8), np.full((4, 8, 1), 5, np.uint8), np.full((5, 4, 1), 7, np.uint8)]
    return [TokenStore(image_streams(images[:1], [2])), TokenStore(image_streams(images[1:], [0, 1]))]


def test_a_batch_has_the_images_of_several_stores_in_the_order_of_its_rows() -> None:
    batch = ImageCollator(4, True).batch(_stores(), np.array([2, 0, 1]))
    assert batch.inputs.runs == (Run(1, 5, 4), Run(2, 4, 8))
    assert [part.flatten().unique().tolist() for part in batch.inputs.by_run()] == [[7], [3, 5]]
    assert batch.labels_of_rows() == [[1], [2], [0]]
    assert batch.inputs.layout.lengths.tolist() == [3, 3, 3]
    assert (batch.sentences, batch.tokens) == (3, 9)


def test_a_static_shape_is_filled_up_with_black_images_that_do_not_count() -> None:
    batch = ImageCollator(4, False).batch(_stores(), np.array([0, 1]), StaticShape.rows(10, 2))
    assert batch.inputs.runs == (Run(5, 4, 8),)
    assert batch.labels.tolist() == [2, 0, IGNORED, IGNORED, IGNORED]
    assert batch.inputs.pixels[2 * 32 :].max() == 0
    assert (batch.sentences, batch.tokens) == (2, 4)


def test_images_that_fill_up_a_shape_change_no_loss_and_no_gradient() -> None:
    recipe = recipe_of({"builtin": "scenes"}, channels=1)
    stores = [*_stores()[:1], TokenStore(image_streams([np.full((4, 8, 1), 90, np.uint8)], [1]))]
    collator = ImageCollator(4, True)
    torch.manual_seed(1)
    network = build_network(recipe.model, Vocabularies({}, ("a", "b", "c"))).eval()
    assert isinstance(network, Classifier)
    objective, found = OneLabel(0.1, change=augment_images(Augmentation(), 3)), []
    for static in (None, StaticShape.rows(15, 3)):
        network.zero_grad()
        batch = collator.batch(stores, np.arange(2), static)
        loss = objective(network, batch).loss
        loss.backward()
        gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
        found.append([loss.detach(), *gradients])
        assert objective.units(batch) == 2
        assert objective.tokens(batch) == 6
    for ragged, filled in zip(*found, strict=True):
        torch.testing.assert_close(ragged, filled, atol=1e-6, rtol=1e-5)

"""Laws of captioners, for every encoder and decoder: neighbours, search, saving, and resuming with augmentation."""

import json
import math
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import UserError
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.builtin.scenes import scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import ImageCaptioner
from heedful.runs.training_run import train
from heedful.tasks.caption.model import Captioner

VIT = {"family": "vit", "width": 12, "heads": 2, "layers": 1, "inner": 16, "patch": 16, "grid": 4}
CONVOLUTIONS = {"family": "convolutional", "width": 8, "stages": 4, "depth": 1, "positions": "sinusoidal"}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "vit, transformer": (VIT, {"family": "transformer", "width": 12, "heads": 2, "layers": 1, "inner": 16}),
    "convolutions, luong": (CONVOLUTIONS, {"family": "recurrent", "width": 10, "wiring": "luong"}),
    "vit, bahdanau": (VIT, {"family": "recurrent", "width": 10, "distribution": "sparsemax"}),
    "convolutions, sutskever": (CONVOLUTIONS, {"family": "recurrent", "width": 10, "wiring": "sutskever"}),
    "convolutions, reinforce": (CONVOLUTIONS, {"family": "recurrent", "width": 10, "choice": "reinforce"}),
    "convolutions, vector": (CONVOLUTIONS, {"family": "recurrent", "width": 10, "wiring": "vector"}),
    "vit, cho": (VIT, {"family": "recurrent", "width": 10, "wiring": "cho", "cell": "lstm"}),
}
AUGMENTATION = {"shift": 3, "rotation": 10.0, "crop": 0.8}


def recipe_of(kind: str, steps: int = 5) -> Recipe:
    encoder, decoder = KINDS[kind]
    return recipe_from_json(
        {
            "data": {
                "train": [{"builtin": "scenes", "count": 20}],
                "test": [{"builtin": "scenes", "part": "test", "count": 5, "name": "unseen"}],
                "batch_tokens": 200,
            },
            "tokenizer": {"kind": "word"},
            "model": {"family": "captioner", "encoder": encoder, "decoder": decoder},
            "train": {
                "steps": steps,
                "schedule": {"kind": "constant", "lr": 0.001},
                "augmentation": AUGMENTATION,
                "checkpoint_every": 2,
                "validation": {"every": 100},
                "device": "cpu",
                "precision": "float32",
                "threads": 1,
            },
            "decode": {"max_extra": 12},
        },
        "recipe",
    )


def _quietly(recipe: Recipe, out: Path, resume: bool = False) -> Path:
    train(recipe, out, resume=resume, console=Console(file=StringIO()))
    return out


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _quietly(recipe_of("convolutions, luong"), tmp_path_factory.mktemp("captions") / "run")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    recipe = recipe_of("vit, cho")
    return train_tokenizer(recipe.tokenizer, [scene.sentence for scene in scenes("train", 50)])


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> Captioner:
    """A model with random weights, larger than those that training starts with, so that its captions differ."""
    recipe = recipe_of(request.param)
    torch.manual_seed(3)
    vocabularies = Vocabularies({"text": tokenizer})
    network = build_network(recipe.model, vocabularies)
    assert isinstance(network, ImageCaptioner)
    with torch.no_grad():
        for parameter in network.decoder.parameters():  # type: ignore[attr-defined]
            parameter.mul_(2)
    return Captioner(Bundle(recipe, vocabularies, network))


def _two_sizes() -> tuple[Any, Any]:
    one, other = scenes("test", 2)
    return draw_scene(one, 48), draw_scene(other, 80)


def test_a_run_that_was_stopped_resumes_bit_identically_with_augmentation(trained: Path, tmp_path: Path) -> None:
    _quietly(recipe_of("convolutions, luong", 2), tmp_path / "run")
    _quietly(recipe_of("convolutions, luong"), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_a_run_that_learns_by_reward_resumes_with_its_baseline(tmp_path: Path) -> None:
    for name, steps in (("whole", 4), ("parts", 2)):
        _quietly(recipe_of("convolutions, reinforce", steps), tmp_path / name)
    _quietly(recipe_of("convolutions, reinforce", 4), tmp_path / "parts", resume=True)
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_neighbours_of_other_sizes_do_not_change_a_caption(model: Captioner) -> None:
    small, large = _two_sizes()
    together = model.caption_detailed([small, large, small], beam=2)
    for found, pixels in zip(together, (small, large, small), strict=True):
        (alone,) = model.caption_detailed(pixels, beam=2)
        assert found[0].tokens == alone.tokens
        assert found[0].log_probability == pytest.approx(alone.log_probability, abs=1e-4)


def test_a_search_step_by_step_scores_a_caption_as_a_pass_over_all_of_it(model: Captioner) -> None:
    images = [*_two_sizes()]
    for pixels, (best, *_) in zip(images, model.caption_detailed(images, beam=3, nbest=2, min_length=2), strict=True):
        if not best.complete:
            continue
        of_all = model._likelihood([pixels], [[best.text]], ["an image"])
        assert of_all.total == pytest.approx(-best.log_probability, abs=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_writes_the_captions_of_a_cpu(model: Captioner) -> None:
    images = [*_two_sizes()]
    for beam in (2, 1):
        on_gpu = model.to("cuda", "float32").caption_detailed(images, beam=beam)
        on_cpu = model.to("cpu", "float32").caption_detailed(images, beam=beam)
        for (one, *_), (other, *_) in zip(on_cpu, on_gpu, strict=True):
            assert one.tokens == other.tokens
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)


def test_each_piece_has_a_patch_of_the_image(model: Captioner) -> None:
    (found,) = model.caption_detailed(draw_scene(next(scenes("test", 1)), 48), beam=2, aligned=True)
    assert found.patches is not None
    assert len(found.patches) == len(found.tokens) == len(found.pieces)
    assert all(patch is None or (0 <= patch[0] < 3 and 0 <= patch[1] < 3) for patch in found.patches)


def test_samples_depend_on_the_seed_alone(model: Captioner) -> None:
    pixels = _two_sizes()[0]
    drawn = [
        model.caption_detailed(pixels, sampling=heedful.Sampling(samples=3, seed=seed), min_length=4, max_extra=6)
        for seed in (1, 1, 2)
    ]
    texts = [[one.text for one in several] for several in drawn]
    assert texts[0] == texts[1] != texts[2]


def test_a_loaded_model_describes_files_arrays_and_images_alike(trained: Path, tmp_path: Path) -> None:
    model = heedful.Captioner.load(trained, device="cpu")
    assert isinstance(heedful.load(trained, device="cpu"), heedful.Captioner)
    images = [draw_scene(scene) for scene in scenes("test", 2)]
    for number, pixels in enumerate(images):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    from_files = model.caption([tmp_path / "0.png", tmp_path / "1.png"])
    assert from_files == model.caption(list(np.stack(images)))
    assert from_files == model.caption(Image.fromarray(pixels) for pixels in images)
    assert model.caption(str(tmp_path / "0.png")) == from_files[0]


def test_an_evaluation_is_that_of_its_captions(trained: Path) -> None:
    model = Captioner.load(trained, device="cpu")
    images = [draw_scene(scene) for scene in scenes("test", 3)]
    said = model.caption(images, beam=1)
    scored = model.evaluate([(images[0], said[0]), (images[1], ["another", said[1]]), (images[2], "no")], beam=1)
    assert scored.captions == tuple(said)
    assert scored.exact_match == pytest.approx(2 / 3)
    assert [score.name for score in scored.scores()] == ["exact_match", "bleu", "chrf", "perplexity"]
    assert scored.to_json()["images"] == 3
    assert math.isfinite(scored.likelihood.perplexity)
    assert scored.remarks()[0].startswith("3 images in ")
    assert list(scored.outputs()) == said
    own = model.evaluate([(images[0], "no")], metrics={"words": lambda found, true: len(found[0].split())}, beam=1)
    assert own.own == {"words": len(said[0].split())}
    (named,) = model.evaluate([(images[0], "no")], metrics=["ter"], beam=1).shown
    assert named == "ter"


def test_the_corpora_of_the_recipe_are_evaluated_by_name(trained: Path) -> None:
    (name, found), *_ = heedful.evaluate(trained, device="cpu", beam=1).items()
    assert name == "unseen"
    assert found.to_json()["images"] == 5


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([np.zeros((8, 8), np.uint8)], r"^data, row 1 must be an image and its caption\.$"),
        (
            [(np.zeros((8, 8), np.uint8), 3)],
            r"^`data, row 1: the captions` is 3, but must be a text or a list of texts",
        ),
        ([(np.zeros((8, 8), np.uint8), " ")], r"^data, row 1 has no caption to compare with: give one, or remove the"),
        ([], r"^data has no image to describe\.$"),
    ],
)
def test_rows_without_a_caption_are_refused(trained: Path, rows: list[Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        Captioner.load(trained, device="cpu").evaluate(rows)


LONG = "an image " * 5_000


@pytest.mark.parametrize(
    ("kind", "options", "caption", "message"),
    [
        (
            "convolutions, luong",
            {},
            LONG,
            "`data.valid` has a caption of 10,001 tokens with its end marker... are scored: leave the caption out.",
        ),
        (
            "vit, transformer",
            {"positions": "learned", "max_positions": 40},
            "an image " * 20,
            "`data.valid` has a caption of 41 tokens ... positions for 40 (`model.decoder.max_positions`): leave the "
            'caption out, or use `model.decoder.positions = "sinusoidal"`.',
        ),
    ],
)
def test_a_caption_too_long_to_score_is_refused_before_training(
    kind: str, options: dict[str, Any], caption: str, message: str, tmp_path: Path
) -> None:
    """One of too many tokens for training is dropped there; every validation would read it for minutes."""
    encoder, decoder = KINDS[kind]
    Image.new("RGB", (16, 16)).save(tmp_path / "a.png")
    rows = [{"image": "a.png", "caption": text} for text in ("a red image", "an image", caption)]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = recipe_of(kind).model_dump(exclude_unset=True)
    corpus = {"jsonl": "captions.jsonl", "image": "image", "caption": "caption"}
    recipe["data"] = {"folder": str(tmp_path), "train": [corpus], "valid": [corpus], "max_length": 30}
    recipe["model"] = {"family": "captioner", "encoder": encoder, "decoder": decoder | options}
    with refuses(message):
        _quietly(recipe_from_json(recipe, "recipe"), tmp_path / "run")


def test_a_reference_too_long_to_score_is_refused(trained: Path, tokenizer: Tokenizer) -> None:
    image = np.zeros((16, 16), np.uint8)
    with refuses("data, row 2: a caption has 10,001 tokens, but ... are scored: leave the caption out."):
        Captioner.load(trained, device="cpu").evaluate([(image, "an image"), (image, ["an image", f"{LONG} red"])])
    recipe = recipe_of("vit, transformer").model_dump(exclude_unset=True)
    recipe["model"]["decoder"] |= {"positions": "learned", "max_positions": 300}
    vocabularies, made = Vocabularies({"text": tokenizer}), recipe_from_json(recipe, "recipe")
    model = Captioner(Bundle(made, vocabularies, build_network(made.model, vocabularies)))  # type: ignore[arg-type]
    with refuses(
        "data, row 1: a caption has 301 tokens with ... positions for 300 (`model.decoder.max_positions`): leave the "
        "caption out."
    ):
        model.evaluate([(image, "red " * 300)])


def test_what_a_captioner_cannot_do_is_refused(trained: Path) -> None:
    model = Captioner.load(trained, device="cpu")
    with refuses("image 1 is float, but must be a path..."):
        model.caption([3.5])  # type: ignore[list-item]
    with refuses("`prefix` is not an option...", TypeError):
        model.caption(np.zeros((16, 16), np.uint8), prefix="a")  # type: ignore[call-overload]
    with refuses("Image 2 has 9 patches, but at most 8 are read: make it smaller, or raise..."):
        list(model.stream_detailed([np.zeros((16, 16), np.uint8), np.zeros((48, 48), np.uint8)], max_source=8))
    with refuses("`mbr` is for translators, which a captioner is not: leave it out."):
        model.caption(np.zeros((16, 16), np.uint8), mbr=4)
    with refuses("...describes images, and only translators and parsers make an ensemble..."):
        heedful.load(trained, device="cpu", ensemble=[trained])
    with refuses("...is a model that describes images: load it with `heedful.Captioner.load(..."):
        heedful.Translator.load(trained, device="cpu")
    with refuses("...is a model that describes images: load it with `heedful.Captioner.load(..."):
        heedful.ImageClassifier.load(trained, device="cpu")


def test_rows_in_memory_are_refused(tmp_path: Path) -> None:
    recipe = {"model": {"family": "captioner", "decoder": {"family": "transformer"}}}
    with refuses("`train` is given in memory, but a captioner learns from images with captions: give a table..."):
        heedful.train(recipe, tmp_path / "run", train=[("a", "b")])

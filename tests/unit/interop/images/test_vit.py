"""`heedful import` of a Vision Transformer: the same scores as `transformers`, and one line for what cannot be read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from tests.unit.interop.images.vit_folders import DEVIATION, LABELS, MEAN, random_vit, write_vit
from transformers import ViTForImageClassification

from heedful.interop.importing import import_model
from heedful.tasks.classify.image_models import ImageClassifier


@pytest.fixture(scope="module")
def theirs() -> ViTForImageClassification:
    return random_vit()


@pytest.fixture
def folder(theirs: ViTForImageClassification, tmp_path: Path) -> Path:
    write_vit(tmp_path / "vit", theirs)
    return tmp_path / "vit"


def test_an_imported_model_says_what_it_said_before(
    theirs: ViTForImageClassification, folder: Path, tmp_path: Path
) -> None:
    assert import_model(folder, tmp_path / "ours").model_type == "vit"
    ours = ImageClassifier.load(tmp_path / "ours", device="cpu")
    assert ours.labels == LABELS
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    values = (torch.from_numpy(pixels) / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    with torch.inference_mode():
        wanted = theirs(values.permute(0, 3, 1, 2)).logits.softmax(1)
    found = ours.classify(pixels)
    assert isinstance(found, list)
    shares = torch.tensor([[each.probabilities[label] for label in LABELS] for each in found])
    torch.testing.assert_close(shares, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("file", "changes", "why"),
    [
        ("config", {"image_size": 9}, "`image_size` is 9, but must be a multiple of `patch_size` (4)."),
        ("config", {"num_channels": 4}, "`num_channels` is 4, but must be 1 (gray) or 3 (colour)."),
        (
            "config",
            {"id2label": {"0": "a", "2": "b"}},
            "`id2label` must name at least two classes by their numbers from 0",
        ),
        (
            "config",
            {"id2label": {"0": "a", "1": "a"}},
            "`id2label` names two classes alike, but each needs a name of its",
        ),
        ("config", {"hidden_size": 16}, "but"),
        ("config", {"num_hidden_layers": 3}, "lacks `vit.encoder.layer.2."),
        ("config", {"num_hidden_layers": 1}, "has `vit.encoder.layer.1."),
        (
            "preprocessor_config",
            {"image_mean": [0.5]},
            "`image_mean` must be a list of 3 numbers, one for each channel.",
        ),
        (
            "preprocessor_config",
            {"image_std": [1, 0, 1]},
            "`image_std` must be a list of 3 numbers, one for each channel.",
        ),
        (
            "preprocessor_config",
            {"do_normalize": False},
            "`do_normalize` is false, but must be true: Heedful's model reads",
        ),
    ],
)
def test_what_cannot_be_imported_is_refused(
    folder: Path, tmp_path: Path, file: str, changes: dict[str, Any], why: str
) -> None:
    path = folder / f"{file}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with refuses(f"...{why}..."):
        import_model(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()

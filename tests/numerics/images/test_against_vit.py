"""The classifier of images equals transformers' `ViTForImageClassification` with the same weights."""

import json

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification

from heedful.base.packed import Images
from heedful.interop.transformers.images.reading import read_vit
from heedful.interop.transformers.model_folder import open_folder
from heedful.models.networks import Classifier

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module", params=[True, False], ids=["biased", "unbiased"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Classifier, ViTForImageClassification]:
    torch.manual_seed(3)
    theirs = ViTForImageClassification(
        ViTConfig(
            hidden_size=24,
            num_hidden_layers=3,
            num_attention_heads=3,
            intermediate_size=40,
            image_size=16,
            patch_size=4,
            num_labels=6,
            qkv_bias=request.param,
        )
    ).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    folder = tmp_path_factory.mktemp("vit")
    theirs.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": MEAN, "image_std": DEVIATION}))
    ours = read_vit(open_folder(folder)).model.eval()
    return ours, theirs


@pytest.mark.parametrize("size", [(16, 16), (24, 12)])
def test_the_scores_are_those_of_transformers(
    both: tuple[Classifier, ViTForImageClassification], size: tuple[int, int]
) -> None:
    ours, theirs = both
    pixels = torch.randint(0, 256, (3, *size, 3), dtype=torch.uint8)
    values = (pixels / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    with torch.inference_mode():
        wanted = theirs(values.permute(0, 3, 1, 2), interpolate_pos_encoding=True).logits
        found = ours(Images.of([*pixels], 4, True))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert wanted.std() > 0.1

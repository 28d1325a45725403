"""The classifier of images equals transformers' `ViTForImageClassification` with the same weights."""

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification

from heedful.base.packed import Images
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ImageClassifierModel
from heedful.interop.transformers.model_folder import CheckedWeights
from heedful.interop.transformers.vit import vit_weights
from heedful.models.from_recipe.images import build_image_classifier
from heedful.models.networks import Classifier
from heedful.models.weights import set_weights

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module", params=[True, False], ids=["biased", "unbiased"])
def both(request: pytest.FixtureRequest) -> tuple[Classifier, ViTForImageClassification]:
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
    encoder = ImageTransformerTable(
        width=24, heads=3, layers=3, inner=40, patch=4, grid=4, norm_epsilon=1e-12, dropout=0.0
    )
    ours = build_image_classifier(ImageClassifierModel(family="image_classifier", encoder=encoder), 6).eval()
    tensors = CheckedWeights(__file__, dict(theirs.state_dict()))  # type: ignore[arg-type]
    set_weights(ours, vit_weights(tensors, encoder, 6, MEAN, DEVIATION, request.param))
    tensors.refuse_rest()
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

"""Compares a classifier of images with its folder in `transformers`, from pixels on."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from heedful.base.packed import Images
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ImageClassifierModel
from heedful.config.task_rules import model_of
from heedful.data.prepare.images import decode_all
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.samples import Samples
from heedful.interop.transformers.tally import Tally, quietly
from heedful.models.bundle import Bundle
from heedful.nn.evaluation_mode import evaluation_mode


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare the scores of images: both read the same pixels, as libraries decode and resize files differently.

    All have the size that theirs reads; ours may read other sizes too.
    """
    import transformers

    tally, model = Tally(), model_of(bundle.recipe, ImageClassifierModel)
    table = model.encoder
    assert isinstance(table, ImageTransformerTable), "refused before"
    with quietly(), evaluation_mode(bundle.model), torch.inference_mode():
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        theirs = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
        side = table.grid * table.patch
        form = bundle.recipe.data.images.model_copy(update={"height": side, "width": side})
        for pixels in decode_all(samples.images, form, table.channels):
            coloured = np.broadcast_to(pixels, (*pixels.shape[:2], 3)).copy()
            given = processor(coloured, return_tensors="pt", input_data_format="channels_last")
            read = Images.of([torch.from_numpy(np.ascontiguousarray(pixels))], table.patch, table.class_token)
            logits = [bundle.model(read)[0], theirs(**given).logits[0]]
            if model.labels == "several":
                tally.compare(*(torch.stack([each, -each], dim=-1).softmax(-1).log() for each in logits))
            else:
                tally.compare(*(each.log_softmax(-1) for each in logits))
    return tally.result(samples.of)

"""Training speed of a Vision Transformer on one GPU: ours against transformers' ViTForImageClassification.

    python -m benchmarks.gpu.train_gpu_vit [--merge] [--tiny]

The work is ViT-S (12 layers, width 384, 6 heads, inner 1536) on images of 224 x 224 pixels in patches of 16, with
1,000 classes, without dropout, AdamW, in bfloat16 with float32 weights, 128 images a step.

Ours runs through the trainer that `heedful train` uses: images come from a store of the cache on disk, loader
included. The peer runs through a plain loop with autocast and torch.compile, on batches that are on the device already.

images_s     images a second; the median over stretches
data_wait    share of the time that ours waits for batches
decode_s     JPEG files of 640 x 480 pixels that are decoded and resized in a second, on all cores
ratio        ours to the compiled peer
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch
from benchmarks.shared.gpu_work import Results, peak_gib, rate, trained_rate
from PIL import Image
from torch import nn

from heedful.base.devices import choose_device
from heedful.config.corpora.containers import ImageFolder
from heedful.config.data import Data, ImageForm
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ImageClassifierModel
from heedful.config.recipe import Recipe
from heedful.config.train.optimizers import AdamW
from heedful.config.train.schedules import Constant
from heedful.config.train.table import Train, Validation
from heedful.data.corpora.images import LabelledImage
from heedful.data.prepare.images import SIZE, decode_all, image_streams, pixel_stream
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.stores import WHOLE_NUMBERS
from heedful.data.token_store import Ragged, TokenStore, open_store, write_store
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.recorded_results import RESULTS
from heedful.models.from_recipe.images import build_image_classifier
from heedful.runs.training_run import set_up
from heedful.tasks.classify.task import ClassifyImagesTask

NEVER: Final = 10**9
CHUNK: Final = 64  # images that are drawn at once
PEER_BATCHES: Final = 4


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    encoder: ImageTransformerTable
    side: int  # pixels
    classes: int
    images: int  # in the store
    batch: int  # images of a step
    files: int  # that are decoded
    warm: int
    stretches: int
    steps: int  # of a stretch

    @property
    def patches(self) -> int:
        """Tokens of an image, the class token included."""
        return (self.side // self.encoder.patch) ** 2 + 1


SMALL: Final = {"preset": "small", "dropout": 0.0}
TINY_SHAPE: Final = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "patch": 8, "grid": 4, "dropout": 0.0}
FULL = Scale(ImageTransformerTable.model_validate(SMALL), 224, 1000, 4096, 128, 1000, 30, 5, 10)
TINY = Scale(ImageTransformerTable.model_validate(TINY_SHAPE), 32, 10, 64, 8, 8, 2, 2, 2)


def store_of(scale: Scale, folder: Path) -> TokenStore:
    """Write random images to a store as the cache has it, and map it."""
    random = np.random.default_rng(0)

    def chunks() -> Iterator[dict[str, Ragged]]:
        for begin in range(0, scale.images, CHUNK):
            count = min(CHUNK, scale.images - begin)
            drawn = random.integers(0, 256, (count, scale.side, scale.side, 3), dtype=np.uint8)
            yield image_streams([*drawn], random.integers(0, scale.classes, count).tolist())

    types = {"pixels": pixel_stream(3), "size": SIZE, "label": WHOLE_NUMBERS}
    write_store(folder, "random", types, chunks(), Counter())
    store = open_store(folder, "random")
    assert store is not None
    return store


def recipe_for(scale: Scale, device: torch.device) -> Recipe:
    unread = ImageFolder(images="none")  # a recipe needs one; nothing reads it
    return Recipe(
        data=Data(
            train=(unread,),
            batch_tokens=scale.batch * scale.patches,
            images=ImageForm(height=scale.side, width=scale.side),
        ),
        model=ImageClassifierModel(family="image_classifier", encoder=scale.encoder),
        train=Train(
            steps=scale.warm + scale.stretches * scale.steps,
            optimizer=AdamW(kind="adamw"),
            schedule=Constant(kind="constant", lr=1e-4),
            seed=0,
            device=device.type,
            precision="bfloat16",
            log_every=scale.steps,
            checkpoint_every=NEVER,
            validation=Validation(every=NEVER),
        ),
    )


def our_rate(scale: Scale, store: TokenStore, device: torch.device) -> tuple[float, float]:
    """Images per second, and the share of time spent waiting for batches."""
    recipe = recipe_for(scale, device)
    set_up(recipe)
    labels = tuple(str(number) for number in range(scale.classes))
    prepared = Prepared(Vocabularies({}, labels), train=(store,), weights=(1.0,), valid=())
    torch.manual_seed(0)
    assert isinstance(recipe.model, ImageClassifierModel)
    model = build_image_classifier(recipe.model, scale.classes).to(device)
    tokens_s, waited = trained_rate(recipe, ClassifyImagesTask(), prepared, model, device, scale.warm)
    return tokens_s / scale.patches, waited


def vit(scale: Scale) -> nn.Module:
    """The same model of transformers."""
    from transformers import ViTConfig, ViTForImageClassification

    table = scale.encoder
    config = ViTConfig(
        hidden_size=table.width, num_hidden_layers=table.layers, num_attention_heads=table.heads,
        intermediate_size=table.inner, image_size=scale.side, patch_size=table.patch, num_labels=scale.classes,
    )  # fmt: skip
    model: nn.Module = ViTForImageClassification(config)
    return model


def peer_rate(scale: Scale, device: torch.device) -> float:
    """Images per second."""
    torch.manual_seed(0)
    model: Any = vit(scale).to(device).train()
    model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    ahead = cycle(
        [
            (
                torch.randn(scale.batch, 3, scale.side, scale.side, device=device),
                torch.randint(0, scale.classes, (scale.batch,), device=device),
            )
            for _ in range(PEER_BATCHES)
        ]
    )

    def step() -> int:
        pixels, labels = next(ahead)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(pixel_values=pixels, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return scale.batch

    return rate(step, warm=scale.warm, stretches=scale.stretches, steps=scale.steps)


def decode_rate(scale: Scale, folder: Path) -> float:
    """JPEG files per second, decoded and resized on all cores."""
    noise = np.random.default_rng(1).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC)  # smooth, as photographs are
    for number in range(scale.files):
        image.save(folder / f"{number}.jpg", quality=90)
    files = [LabelledImage(path) for path in sorted(folder.glob("*.jpg"))]
    began = perf_counter()
    decoded = sum(1 for _ in decode_all(files, ImageForm(height=scale.side, width=scale.side), 3))
    return decoded / (perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    scale, device = TINY if options.tiny else FULL, choose_device("auto")
    results = Results("train_gpu_vit", None if options.tiny else options.results, options.merge)
    with tempfile.TemporaryDirectory() as scratch:
        with results.part("ours"):
            images_s, waited = our_rate(scale, store_of(scale, Path(scratch)), device)
            results.add(images_s=images_s, data_wait=waited, memory_gib=peak_gib())
        with results.part("compiled"):
            results.add(images_s_compiled=peer_rate(scale, device), memory_gib_compiled=peak_gib())
            results.ratio("ratio", "images_s", "images_s_compiled")
        with results.part("decode"):
            results.add(decode_s=decode_rate(scale, Path(scratch)))
    results.exit()


if __name__ == "__main__":
    main()

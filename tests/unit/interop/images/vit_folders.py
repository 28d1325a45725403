"""Folders of Vision Transformers with random weights, as `transformers` writes them."""

import json
from pathlib import Path

import torch
from transformers import ViTConfig, ViTForImageClassification

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LABELS = ("cat", "dog", "cow")


def random_vit() -> ViTForImageClassification:
    """Return a tiny model."""
    torch.manual_seed(5)
    config = ViTConfig(
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        image_size=8,
        patch_size=4,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    model = ViTForImageClassification(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def write_vit(folder: Path, model: ViTForImageClassification | None = None) -> None:
    """Write a model, by default a random one, with the mean and deviation of its pixels."""
    (model or random_vit()).save_pretrained(folder)
    values = {"image_mean": MEAN, "image_std": DEVIATION}
    (folder / "preprocessor_config.json").write_text(json.dumps(values))

"""The model card of a folder for `transformers`: what the model is, and how it is opened."""

from pathlib import Path

from torch import nn

from heedful.base.files import write_bytes
from heedful.models.bundle import CARD, Bundle
from heedful.version import __version__


def write_card(folder: Path, bundle: Bundle[nn.Module], pipeline: str, model_class: str, example: str) -> None:
    """Write README.md; `pipeline` is the pipeline that opens the folder, `example` what it is called with."""
    count = sum(parameter.numel() for parameter in bundle.model.parameters())
    card = f"""---
library_name: transformers
pipeline_tag: {pipeline}
tags:
- heedful
---

# A model made with Heedful

A {model_class} of {count:,} parameters, trained with Heedful and exported by version {__version__}. Heedful is not needed to use it:

```python
from transformers import pipeline

model = pipeline("{pipeline}", model="this folder")
print(model({example}))
```

`config.json` describes the model, and its weights are in `model.safetensors`.
"""
    write_bytes(folder / CARD, card.encode())

"""The model card of a folder for `transformers`: what the model is, and how it is opened."""

from pathlib import Path
from typing import Final

from torch import nn

from heedful.base.files import write_bytes
from heedful.models.bundle import CARD, Bundle
from heedful.version import __version__

_READER: Final = """import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

model = AutoModelForQuestionAnswering.from_pretrained("this folder")
tokenizer = AutoTokenizer.from_pretrained("this folder")
read = tokenizer("a question", "a text with the answer", return_tensors="pt")
scores = model(**read)
start, end = int(scores.start_logits.argmax()), int(scores.end_logits.argmax())
print(tokenizer.decode(read["input_ids"][0, start : end + 1]))"""


def write_card(folder: Path, bundle: Bundle[nn.Module], pipeline: str, model_class: str, example: str = "") -> None:
    """Write README.md; `pipeline` is the pipeline that opens the folder, `example` what it is called with.

    Without an example the model answers questions, for which version 5 of `transformers` has no pipeline.
    """
    count = sum(parameter.numel() for parameter in bundle.model.parameters())
    opened = f'from transformers import pipeline\n\nmodel = pipeline("{pipeline}", model="this folder")'
    program = f"{opened}\nprint(model({example}))" if example else _READER
    card = f"""---
library_name: transformers
pipeline_tag: {pipeline}
tags:
- heedful
---

# A model made with Heedful

A {model_class} of {count:,} parameters, exported by Heedful {__version__}. Heedful is not needed to use it:

```python
{program}
```

`config.json` describes the model, and its weights are in `model.safetensors`.
"""
    write_bytes(folder / CARD, card.encode())

"""What stands beside graphs: tokenizers, names of classes, and a card with a program that uses the graphs."""

from pathlib import Path
from typing import Any, Final, cast

from torch import nn

from heedful.base.files import write_bytes, write_json
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN, tag_of
from heedful.interop.graphs.graphs import graphs_of, image_size, longest_of
from heedful.models.bundle import CARD, Bundle
from heedful.models.networks import EncoderDecoder, LanguageModel

_TOKENIZER: Final = """\
{name} = tokenizers.Tokenizer.from_file("{file}")
{name}.encode_special_tokens = True
"""
_TRANSLATOR: Final = """\
ids = np.array([[{tag}*source.encode("{text}", add_special_tokens=False).ids, {end}]])
mask = np.ones(ids.shape, bool)
(memory,) = run("encoder", ids=ids, mask=mask)
cache, tokens = np.zeros((*memory.shape[:4], 0, memory.shape[5]), np.float32), [{first}]
for token in tokens:
    scores, cache = run("decoder", tokens=np.array([token]), cache=cache, memory=memory, mask=mask)
while len(tokens) < 100 and tokens[-1] != {end}:
    scores[:, {never}] = -np.inf
    tokens.append(int(scores.argmax()))
    scores, cache = run("decoder", tokens=np.array(tokens[-1:]), cache=cache, memory=memory, mask=mask)
print(target.decode(tokens))
"""
_GENERATOR: Final = """\
tokens = [{begin}, *text.encode("{text}", add_special_tokens=False).ids]
cache = np.zeros({cache}, np.float32)
for token in tokens:
    scores, cache = run("decoder", tokens=np.array([token]), cache=cache)
while len(tokens) < 100 and tokens[-1] != {end}:
    scores[:, {never}] = -np.inf
    tokens.append(int(scores.argmax()))
    scores, cache = run("decoder", tokens=np.array(tokens[-1:]), cache=cache)
print(text.decode(tokens))
"""
_TEXTS: Final = """\
ids = np.array([[{begin}, *text.encode("{text}", add_special_tokens=False).ids, {end}]])
(scores,) = run("model", ids=ids, mask=np.ones(ids.shape, bool){segments})
print({labels}scores)
"""
_IMAGES: Final = """\
pixels = np.zeros((1, {height}, {width}, {channels}), np.float32)  # from 0 to 255, of images of this size
(scores,) = run("model", pixels=pixels)
print({labels}scores)
"""
_PAIRS: Final = (
    "A pair of texts is `<s> text </s> second </s>`, and its `segments` are 0 up to the first `</s>`, then 1.\n"
)


def card_of(bundle: Bundle[nn.Module], library: str, packages: str, start: str) -> str:
    """Return a card; `start` is the program's begin, which defines `run`."""
    names = list(graphs_of(bundle))
    opened, program = _program(bundle)
    images = bundle.recipe.rules.images
    size = "{} x {} pixels".format(*image_size(bundle)) if images else f"{longest_of(bundle):,} pieces"
    form = bundle.recipe.data
    wants = [
        what
        for what, done in (
            ("NFC", form.nfc),
            ("lower case", form.lowercase),
            ("words split by Moses' rules", form.tokenized is not None),
        )
        if done
    ]
    notes = f"Texts must be brought into their form first: {', '.join(wants)}.\n" if wants and not images else ""
    notes += _PAIRS if form.paired or bundle.recipe.rules.name == "answer" else ""
    import_tokenizers = "" if images else "import tokenizers\n"
    return f"""# A model for {library}

{"Images have" if images else "A text has at most"} {size}. Inputs may have any number of rows.
{notes}
Run in this folder, after `pip install {packages}`:

```python
import numpy as np
{import_tokenizers}{start.replace("NAMES", repr(names))}
{opened}{program}```
"""


def _program(bundle: Bundle[nn.Module]) -> tuple[str, str]:
    files = (
        {
            name: file
            for file, each in bundle.vocabularies.files().items()
            for name, tokenizer in bundle.vocabularies.tokenizers.items()
            if tokenizer is each
        }
        if bundle.vocabularies.tokenizers
        else {}
    )
    opened = "".join(_TOKENIZER.format(name=name, file=file) for name, file in files.items())
    never = f"[{PAD}, {BEGIN}, {UNKNOWN}]"
    ids = {"begin": BEGIN, "end": END, "never": never, "text": "a text" if bundle.recipe.data.lowercase else "A text"}
    if isinstance(bundle.model, EncoderDecoder):
        tokenizer = bundle.vocabularies["source"]
        tag = next((f'source.token_to_id("{tag_of(language)}"), ' for language in tokenizer.tags), "")
        first = f"{BEGIN}, {tag[:-2]}" if getattr(bundle.recipe.data, "target_tags", False) else BEGIN
        return opened, _TRANSLATOR.format(tag=tag, first=first, **ids)
    graph = next(iter(graphs_of(bundle).values()))
    if isinstance(bundle.model, LanguageModel):
        shape = list(graph.inputs["cache"].shape)
        return opened, _GENERATOR.format(cache=(*shape[:2], 1, shape[3], 0, shape[5]), **ids)
    labels = f"{list(bundle.vocabularies.labels)!r}, " if 0 < len(bundle.vocabularies.labels) <= 20 else ""
    if bundle.recipe.rules.images:
        height, width = image_size(bundle)
        return "", _IMAGES.format(
            height=height, width=width, channels=cast(Any, bundle.recipe.model).encoder.channels, labels=labels
        )
    segments = ", segments=np.zeros_like(ids)" if "segments" in graph.inputs else ""
    return opened, _TEXTS.format(segments=segments, labels=labels, **ids)


def write_rest(bundle: Bundle[nn.Module], folder: Path, card: str) -> None:
    """Write what belongs to graphs: tokenizers, names of classes, and the card."""
    for name, tokenizer in bundle.vocabularies.files().items() if bundle.vocabularies.tokenizers else ():
        write_bytes(folder / name, tokenizer.to_json())
    if bundle.vocabularies.labels:
        write_json(folder / "labels.json", list(bundle.vocabularies.labels))
    write_bytes(folder / CARD, card.encode())

"""Compares a language model with its folder in `transformers`: the scores of texts, and what follows their starts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from heedful.base.packed import Packed
from heedful.data.text_form import TextForm
from heedful.data.tokenize.encoding import encode_running_text
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.samples import Samples
from heedful.interop.transformers.language.writing import copies_of, kept_ids
from heedful.interop.transformers.tally import Tally, quietly
from heedful.models.bundle import Bundle
from heedful.nn.evaluation_mode import evaluation_mode

_NEW: Final = 8  # tokens that follow a start


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare the log probabilities of all tokens of texts, and greedy continuations of them."""
    import transformers

    tally, model = Tally(), bundle.model
    tokenizer = bundle.vocabularies["text"]
    kept = kept_ids(tokenizer.size, copies_of(bundle))
    read = dict.fromkeys((BEGIN, END), kept.index(END)) | {number: place for place, number in enumerate(kept)}
    with quietly(), evaluation_mode(model), torch.inference_mode():
        their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        for text, tokens in _starts(bundle, samples):
            given = their_tokenizer(text, return_tensors="pt")
            if given["input_ids"][0].tolist() != [read[token] for token in tokens]:
                tally.compare(torch.zeros(1), torch.zeros(2))  # an answer to another text
                continue
            logs_NV = model(Packed.of([tokens])).log_softmax(-1)[:, kept]
            tally.differ(logs_NV, theirs(**given).logits[0].log_softmax(-1))
            tally.count += 1
            tally.unequal += _ours(model, tokens, read) != _theirs(theirs, given)
    return tally.result(samples.of)


def _starts(bundle: Bundle[nn.Module], samples: Samples) -> Iterator[tuple[str, list[int]]]:
    """Yield texts, cut so that something can follow, with our tokens of them."""
    form, tokenizer, data = TextForm.of(bundle.recipe.data), bundle.vocabularies["text"], bundle.recipe.data
    limit = bundle.recipe.model.longest
    room = min(data.max_length, limit[0] if limit else data.max_length) - _NEW
    for text, *_ in samples.texts:
        cut, tokens = text, list[int]()
        while cut:
            tokens = [*([BEGIN] if data.borders == "closed" else []), *encode_running_text(form(cut), tokenizer)]
            if len(tokens) <= max(2, room):
                break
            cut = cut[: len(cut) // 2]
        if cut.strip() and tokens:
            yield cut, tokens


def _ours(model: Any, tokens: list[int], read: dict[int, int]) -> list[int]:
    """Return the tokens that follow, as theirs."""
    ((best, *_),) = search(SingleModel(model), [Query(tokens, _NEW)], SearchSettings(beam=1), batch_tokens=4096)
    return [read[token] for token in (*best.tokens, *([END] if best.complete else []))]


def _theirs(model: Any, given: Any) -> list[int]:
    found = model.generate(**given, max_new_tokens=_NEW, max_length=None)
    tokens: list[int] = found[0, given["input_ids"].shape[1] :].tolist()
    return tokens

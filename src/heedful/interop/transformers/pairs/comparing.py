"""Opens a translator in `transformers`, and compares pieces, greedy translations and log probabilities with ours."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END, tag_of
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.greedy import tagged
from heedful.interop.exports.samples import Samples
from heedful.interop.transformers.pairs.vocabularies import TARGET
from heedful.interop.transformers.tally import quietly
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.translate.model import Translation, Translator

MAX_EXTRA: Final = 20  # tokens of a translation more than its source has: enough to see a difference


class _Theirs(NamedTuple):
    model: Any
    source: Any  # tokenizers
    target: Any


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare a written folder with the translator that it was written from, on texts that it can read."""
    assert isinstance(bundle.model, EncoderDecoder), "chosen by its family"
    translator, theirs = Translator(bundle), _open(folder)  # type: ignore[arg-type]
    texts, sources = _readable(translator, [text for text, *_ in samples.texts])
    ours = translator.translate_detailed(texts, beam=1, mbr=0, coverage=0.0, max_extra=MAX_EXTRA)
    best = [found[0] for found in ours]
    limits = [len(source) + MAX_EXTRA for source in sources]
    tags = [tag_of(language) for language in translator.vocabularies["source"].tags]
    with torch.inference_mode():
        read, written = _translated(theirs, texts, limits, tags[0] if len(tags) == 1 else "")
        unequal = sum(
            read[number] != [*source, END]
            or written[number] != [*found.tokens, *([END] if found.complete else [])]
            or theirs.target.decode(found.tokens, skip_special_tokens=True) != found.text
            for number, (source, found) in enumerate(zip(sources, best, strict=True))
        )
        difference = max(_differences(bundle.model, theirs.model, sources, best), default=0.0)
    return Comparison(len(texts), unequal, difference, samples.of)


def _open(folder: Path) -> _Theirs:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    with quietly():
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()
        source = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        own = (folder / TARGET).exists()
        target = AutoTokenizer.from_pretrained(folder / TARGET, local_files_only=True) if own else source
    return _Theirs(model, source, target)


def _readable(translator: Translator, texts: Sequence[str]) -> tuple[list[str], list[list[int]]]:
    """Return texts with pieces, no more than training had, and their pieces.

    Where texts ask for target languages by tags, each asks for the next one.
    """
    asking = tagged(translator.bundle, [text for text in texts if text.strip()])
    longest = translator.recipe.data.max_length
    sources = translator.encode(asking)
    kept = [(text, source) for text, source in zip(asking, sources, strict=True) if 0 < len(source) <= longest]
    return [text for text, _ in kept], [source for _, source in kept]


def _translated(
    theirs: _Theirs, texts: Sequence[str], limits: Sequence[int], tag: str
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the pieces that their tokenizer reads, and what `generate` writes, each up to its limit.

    `tag` is that of the only target language, which their tokenizer adds itself.
    """
    if not texts:
        return [], []
    bare = [text.lstrip().removeprefix(tag).lstrip() if tag else text for text in texts]
    inputs = theirs.source(bare, return_tensors="pt", padding=True, return_token_type_ids=False)
    read = [row[mask.bool()].tolist() for row, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)]
    with quietly():
        found = theirs.model.generate(
            **inputs, num_beams=1, do_sample=False, max_length=None, max_new_tokens=max(limits)
        )
    return read, [_until_end(row[1:].tolist(), limit) for row, limit in zip(found, limits, strict=True)]


def _until_end(tokens: list[int], limit: int) -> list[int]:
    end = tokens.index(END) + 1 if END in tokens else len(tokens)
    return tokens[: min(end, limit)]


def _differences(
    ours: EncoderDecoder, theirs: Any, sources: Sequence[Sequence[int]], best: Sequence[Translation]
) -> Iterator[float]:
    """Yield the greatest difference of log probabilities of all next tokens, for each translation."""
    with evaluation_mode(ours):
        for source, found in zip(sources, best, strict=True):
            read, written = [*source, END], [BEGIN, *found.tokens]
            scores = ours(Packed.of([read]), Packed.of([written]))
            answer = theirs(input_ids=torch.tensor([read]), decoder_input_ids=torch.tensor([written])).logits[0]
            yield _greatest(scores.log_softmax(-1) - answer.log_softmax(-1))


def _greatest(difference: Tensor) -> float:
    return float(difference.abs().max())

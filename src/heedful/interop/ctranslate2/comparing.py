"""Opens a folder in CTranslate2, and compares its answers with the original's."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heedful.data.tokenize.tokenizer import END, SPECIALS
from heedful.interop.ctranslate2.network import longest_of
from heedful.interop.ctranslate2.writing import NEVER, pieces_of
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.greedy import Answer, answer, inputs_of, limits_of, prefixes_of
from heedful.interop.exports.samples import Samples
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder

Ids = Sequence[Sequence[int]]


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare a folder that `write` has written with the model that it was written from."""
    longest = longest_of(bundle.model)
    inputs = inputs_of(bundle, samples, longest)
    limits = limits_of(inputs, longest)
    prefixes = prefixes_of(bundle, inputs)
    ours = answer(bundle.model, inputs, limits, prefixes)
    opened = _Translator(bundle, folder) if isinstance(bundle.model, EncoderDecoder) else _Generator(bundle, folder)
    theirs = opened.answer(inputs, limits, prefixes)
    scores = opened.score(inputs, ours, prefixes)
    return Comparison(
        count=len(inputs),
        unequal=sum(one.tokens != other for one, other in zip(ours, theirs, strict=True)),
        difference=max(
            (
                abs(a - b)
                for one, other in zip(ours, scores, strict=True)
                for a, b in zip(one.log_p, other, strict=False)
            ),
            default=0.0,
        ),
        of=samples.of,
        lost=opened.lost(samples, ours, theirs),
    )


class _Opened:
    """A model that CTranslate2 has opened; what it is asked and says is in pieces, which are ids here."""

    def __init__(self, bundle: Bundle[nn.Module], folder: Path, kind: str, source: str, target: str) -> None:
        self._bundle, self._target = bundle, target
        library: Any = import_module("ctranslate2")
        self._model = getattr(library, kind)(str(folder), device="cpu", intra_threads=torch.get_num_threads())
        self._source_pieces = pieces_of(bundle.vocabularies[source])
        self._target_pieces = pieces_of(bundle.vocabularies[target])
        self._ids = {piece: number for number, piece in enumerate(self._target_pieces)}

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._source_pieces[number] for number in ids]

    def lost(self, samples: Samples, ours: Sequence[Answer], theirs: Sequence[Sequence[int]]) -> float | None:
        """Return the BLEU that is lost, where samples have references."""
        if not samples.references:
            return None
        bleu: Any = import_module("sacrebleu.metrics.bleu").BLEU(tokenize=self._bundle.recipe.evaluate.bleu_tokenize)
        decode = self._bundle.vocabularies[self._target].decode_batch
        texts = decode([one.tokens for one in ours]), decode([list(other) for other in theirs])
        before, after = (bleu.corpus_score(found, [list(samples.references)]).score for found in texts)
        return float(before - after)


class _Translator(_Opened):
    def __init__(self, bundle: Bundle[nn.Module], folder: Path) -> None:
        super().__init__(bundle, folder, "Translator", "source", "target")

    def answer(self, inputs: Ids, limits: Sequence[int], prefixes: Ids) -> list[list[int]]:
        """Return greedy answers. All inputs of a call have one limit, which answers are cut to."""
        done = self._model.translate_batch(
            [self._pieces(ids[:-1]) for ids in inputs],  # it appends `</s>` itself
            beam_size=1,
            max_batch_size=32,
            disable_unk=True,
            suppress_sequences=NEVER,
            min_decoding_length=0,
            max_decoding_length=max(limits) + max(map(len, prefixes)),
            target_prefix=[self._pieces(prefix) for prefix in prefixes],  # of sources too: they share a vocabulary
        )
        return [
            [self._ids[piece] for piece in result.hypotheses[0]][len(prefix) :][:limit]
            for result, limit, prefix in zip(done, limits, prefixes, strict=True)
        ]

    def score(self, inputs: Ids, answers: Sequence[Answer], prefixes: Ids) -> list[list[float]]:
        """Return the log probabilities of given answers, and of `</s>` after them."""
        targets = [
            [self._target_pieces[token] for token in (*prefix, *each.tokens)]
            for prefix, each in zip(prefixes, answers, strict=True)
        ]
        done = self._model.score_batch([self._pieces(ids[:-1]) for ids in inputs], targets, max_batch_size=32)
        return [list(result.log_probs)[len(prefix) :] for result, prefix in zip(done, prefixes, strict=True)]


class _Generator(_Opened):
    def __init__(self, bundle: Bundle[nn.Module], folder: Path) -> None:
        super().__init__(bundle, folder, "Generator", "text", "text")

    def answer(self, inputs: Ids, limits: Sequence[int], prefixes: Ids) -> list[list[int]]:
        """Return greedy answers. All inputs of a call have one limit, which answers are cut to."""
        done = self._model.generate_batch(
            [self._pieces(ids) for ids in inputs],
            beam_size=1,
            sampling_topk=1,
            max_batch_size=32,
            disable_unk=True,
            suppress_sequences=NEVER,
            max_length=max(limits),
            include_prompt_in_result=False,
        )
        return [list(result.sequences_ids[0])[:limit] for result, limit in zip(done, limits, strict=True)]

    def score(self, inputs: Ids, answers: Sequence[Answer], prefixes: Ids) -> list[list[float]]:
        """Return the log probabilities of given answers, and of `</s>` after them."""
        end = SPECIALS[END]
        texts = [
            self._pieces([*ids, *each.tokens]) + ([end] if each.complete else [])
            for ids, each in zip(inputs, answers, strict=True)
        ]
        done = self._model.score_batch(texts, max_batch_size=32)
        return [list(result.log_probs)[len(ids) - 1 :] for ids, result in zip(inputs, done, strict=True)]

"""What a model answers greedily: the tokens and log probabilities that an exported model must repeat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN, tag_of
from heedful.interop.exports.samples import Samples
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.tasks.shared.sequences.text_codec import TextCodec

NEVER: Final = (PAD, BEGIN, UNKNOWN)  # tokens that no search of ours outputs
MORE: Final = 20  # tokens of an answer, besides as many as its input has
LONGEST: Final = 120  # tokens of an input: a comparison takes seconds, not minutes
_BATCH: Final = 32


@dataclass(frozen=True)
class Answer:
    """The tokens that follow an input, and their log probabilities: of `</s>` too, if it comes before the limit."""

    tokens: list[int]  # without `</s>`
    log_p: list[float]

    @property
    def complete(self) -> bool:
        """Whether `</s>` ends it."""
        return len(self.log_p) > len(self.tokens)


def inputs_of(bundle: Bundle[nn.Module], samples: Samples, longest: int | None = None) -> list[list[int]]:
    """Return the token ids of texts: of a translator with `</s>`, of a language model after `<s>`.

    They are cut to `longest`, with room for an answer, or to a usual length.
    """
    texts = [row[0] for row in samples.texts]
    most = (
        LONGEST if longest is None else max(1, min(LONGEST, (longest - MORE) // 2 if longest > MORE else longest // 4))
    )
    if isinstance(bundle.model, LanguageModel):
        pieces = bundle.vocabularies["text"].encode_batch(texts)
        return [[BEGIN, *ids[: most - 1]] for ids in pieces]
    codec = TextCodec(bundle.recipe, bundle.vocabularies)
    return [[*ids[: most - 1], END] for ids in codec.encode(tagged(bundle, texts), None, False, "samples", 1)]


def tagged(bundle: Bundle[Any], texts: Sequence[str]) -> list[str]:
    """Return texts that name a target language, where a model has several: each of the languages in turn."""
    languages = list(bundle.vocabularies["source"].tags)
    if not languages:
        return list(texts)
    tags = [tag_of(language) for language in languages]
    return [
        text if text.lstrip().startswith(tuple(tags)) else f"{tags[number % len(tags)]} {text}"
        for number, text in enumerate(texts)
    ]


def prefixes_of(bundle: Bundle[nn.Module], inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return what the answer to each input begins with: the tag of its language, where targets have them."""
    return [list(ids[:1]) if bundle.recipe.data.target_tags else [] for ids in inputs]


def limits_of(inputs: Sequence[Sequence[int]], longest: int | None = None) -> list[int]:
    """Return the maximum number of tokens of the answer to each input, `</s>` included."""
    limits = [len(ids) + MORE for ids in inputs]
    return (
        limits
        if longest is None
        else [max(1, min(limit, longest - len(ids) - 1)) for limit, ids in zip(limits, inputs, strict=True)]
    )


@torch.inference_mode()
def answer(
    network: nn.Module,
    inputs: Sequence[Sequence[int]],
    limits: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[Answer]:
    """Return what a translator or a language model answers to inputs as `inputs_of` makes them.

    Answers begin after their prefixes, which are equally long.
    """
    given = prefixes or [[] for _ in inputs]
    found: list[Answer] = []
    for first in range(0, len(inputs), _BATCH):
        rows = slice(first, first + _BATCH)
        found += _answer([list(ids) for ids in inputs[rows]], network, list(limits[rows]), given[rows])
    return found


def _answer(
    inputs: list[list[int]], network: nn.Module, limits: list[int], prefixes: Sequence[Sequence[int]]
) -> list[Answer]:
    logits, state, decoder = _begin(network, inputs)
    for tokens_B in zip(*prefixes, strict=True):
        logits, state = decoder.step(torch.tensor(tokens_B), state)
    tokens: list[list[int]] = [[] for _ in inputs]
    log_p: list[list[float]] = [[] for _ in inputs]
    while True:
        log_p_BV = logits.log_softmax(-1)
        best_B = log_p_BV.index_fill(1, torch.tensor(NEVER), -torch.inf).argmax(-1)
        for row, (token, value) in enumerate(
            zip(best_B.tolist(), log_p_BV.gather(1, best_B[:, None]).tolist(), strict=True)
        ):
            if len(log_p[row]) == len(tokens[row]) < limits[row]:  # it goes on
                log_p[row] += value
                tokens[row] += [token] if token != END else []
        if all(
            len(values) > len(ids) or len(ids) == limit
            for values, ids, limit in zip(log_p, tokens, limits, strict=True)
        ):
            return [Answer(ids, values) for ids, values in zip(tokens, log_p, strict=True)]
        logits, state = decoder.step(best_B, state)


def _begin(network: nn.Module, inputs: list[list[int]]) -> tuple[Tensor, Any, Any]:
    """Return the scores of the first token, the state after the inputs, and the decoder."""
    if isinstance(network, LanguageModel):
        decoder = network.decoder
        state = decoder.start(None, prompt=Packed.of([ids[:-1] for ids in inputs]))
        first = [ids[-1] for ids in inputs]
    else:
        assert isinstance(network, EncoderDecoder)
        decoder = network.decoder
        state = decoder.start(network.encoder(Packed.of(inputs)))
        first = [BEGIN] * len(inputs)
    return (*decoder.step(torch.tensor(first), state), decoder)

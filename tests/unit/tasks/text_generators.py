"""Tiny language models for tests: with fresh weights, or after a second of training."""

from collections.abc import Sequence
from typing import Any, Literal

import torch

from heedful.base.packed import Packed
from heedful.config.corpora.containers import PlainText
from heedful.config.data import Data
from heedful.config.model.language import LanguageModelTable
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnyTokenizer, Characters, Words
from heedful.data.tokenize.encoding import running_pieces
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy

TEXTS = ("the cat sat on the mat .\nthe dog saw it .", "Höhe 12 \N{CAT} 🐈", "a story\nof a cat") * 3
WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHAPE = {
    "family": "transformer",
    "width": 16,
    "heads": 2,
    "layers": 2,
    "inner": 24,
    "max_positions": 24,
    "dropout": 0.1,
}
GRU = {"family": "recurrent", "cell": "gru", "width": 16, "layers": 1}


def language_bundle(
    tokenizer: AnyTokenizer | None = None,
    texts: Sequence[str] = TEXTS,
    borders: Literal["closed", "open"] = "closed",
    max_length: int = 24,
    lowercase: bool = False,
    documents: Literal["line", "file"] = "line",
    recurrent: bool = False,
    **decoder: Any,
) -> Bundle[LanguageModel]:
    """A model of random weights, far enough from zero that its answers differ from place to place."""
    kind = tokenizer or Characters(kind="char")
    recipe = Recipe(
        data=Data(
            train=(PlainText(text="a.txt", documents=documents),),
            max_length=max_length,
            batch_tokens=64,
            borders=borders,
            lowercase=lowercase,
        ),
        tokenizer=kind,
        model=LanguageModelTable.model_validate(
            {"family": "language", "decoder": {**(GRU if recurrent else SHAPE), **decoder}}
        ),
    )
    assert isinstance(recipe.model, LanguageModelTable)
    spelled = kind.kind in ("char", "byte_bpe")
    trained = train_tokenizer(kind, [piece for text in texts for piece in running_pieces(text, spelled)])
    torch.manual_seed(5)
    network = build_language_model(recipe.model, trained.size)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        network.output.weight[END] *= 0.3  # so that texts do not end at once
    return Bundle(recipe, Vocabularies({"text": trained}), network)


def week_language_bundle(updates: int = 60) -> Bundle[LanguageModel]:
    """A model that learned the days of the week in their order; a text ends with a sunday."""
    bundle = language_bundle(
        Words(kind="word"), WEEK, width=32, inner=64, layers=1, dropout=0.0, dropout_attention=0.0, max_length=16
    )
    network, tokenizer = bundle.model, bundle.vocabularies["text"]
    for parameter in network.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    texts = [[BEGIN, *tokenizer.encode(" ".join(WEEK[first:])), END] for first in range(7)]
    inputs, labels = Packed.of([text[:-1] for text in texts]), Packed.of([text[1:] for text in texts]).values
    optimizer = torch.optim.Adam(network.parameters())
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - update / updates)
        states = network.decoder.states(inputs, None)
        loss, _ = smoothed_cross_entropy(states, network.output.weight, network.output.bias, labels, smoothing=0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return bundle

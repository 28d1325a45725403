"""Tiny masked language models for tests: with fresh weights, or after some seconds of training."""

from collections.abc import Sequence

import torch

from heedful.base.packed import Packed
from heedful.config.corpora.containers import PlainText
from heedful.config.data import Data
from heedful.config.model.encoder_only import BertModel
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnyTokenizer, Words
from heedful.data.tokenize.tokenizer import BEGIN, END, Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.models.networks import MaskedModel

TEXTS = (
    "the cat sat on the mat .",
    "the dog saw the ball .",
    "a believable story , unbelievable but true",
    "Höhe 123",
) * 3
WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def masked_bundle(
    tokenizer: AnyTokenizer | None = None, texts: Sequence[str] = TEXTS, lowercase: bool = False, **model: object
) -> Bundle[MaskedModel]:
    """A model of random weights, far enough from zero that its answers differ from place to place."""
    shape = {"family": "bert", "width": 16, "heads": 2, "layers": 2, "inner": 24, "max_positions": 40, "dropout": 0.1}
    recipe = Recipe(
        data=Data(train=(PlainText(text="a.txt"),), max_length=24, batch_tokens=64, lowercase=lowercase),
        tokenizer=tokenizer or Words(kind="word"),
        model=BertModel.model_validate({**shape, **model}),
    )
    assert isinstance(recipe.model, BertModel)
    trained = train_tokenizer(recipe.tokenizer, texts, mask=True)
    torch.manual_seed(5)
    network = build_masked_model(recipe.model, trained.size)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return Bundle(recipe, Vocabularies({"text": trained}), network)


def week_bundle(updates: int = 150) -> Bundle[MaskedModel]:
    """A model that learned the days of the week in their order: a masked one follows from its neighbours."""
    bundle = masked_bundle(
        texts=WEEK, width=32, inner=64, layers=1, norm="pre", dropout=0.0, dropout_attention=0.0, next_sentence=False
    )
    network, tokenizer = bundle.model, bundle.vocabularies["text"]
    for parameter in network.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    sentences = [
        [BEGIN, *tokenizer.encode(" ".join((WEEK * 2)[first : first + length])), END]
        for first in range(7)
        for length in (3, 4, 5)
    ]
    assert tokenizer.mask is not None
    optimizer = torch.optim.Adam(network.parameters())
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - update / updates)
        plain = Packed.of(sentences)
        shifts = (0, 2) if update % 2 else (0,)  # one mask a sentence, or two
        asked = [
            [1 + (update + number + shift) % (len(sentence) - 2) for number, sentence in enumerate(sentences)]
            for shift in shifts
        ]
        places = (plain.layout.offsets[:-1].long() + torch.tensor(asked)).flatten()
        text = plain.with_values(plain.values.index_fill(0, places, tokenizer.mask))
        scores = network.head(network(text).values[places])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, plain.values[places]).backward()
        optimizer.step()
    return bundle


def mask_of(tokenizer: Tokenizer) -> int:
    """The mask of a tokenizer that has one."""
    assert tokenizer.mask is not None
    return tokenizer.mask

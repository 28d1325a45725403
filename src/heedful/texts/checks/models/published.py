"""Sizes and settings that the texts take from papers, as the recipes that ship with Heedful have them."""

from typing import Any, cast

from torch import nn

from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import Noam
from heedful.texts.checks.computed import Computed, drawn
from heedful.training.optimizers.build import build_optimizer

_BASE, _BIG, _FRENCH, _PARSER = "transformer-base-wmt14", "transformer-big-wmt14", "wmt14-en-fr", "wsj-parse"


def _recipe(name: str) -> Recipe:
    return load_recipe(name)


def _tokenizer(name: str) -> Any:
    return _recipe(name).tokenizer


def english_german_vocabulary() -> Computed:
    """One vocabulary for both languages, of 37,000 tokens"""
    tokenizer = _tokenizer(_BASE)
    return Computed([1, 37_000], [tokenizer.joint, tokenizer.size])


def english_french_vocabulary() -> Computed:
    """32,000 word pieces (1: of this kind)"""
    tokenizer = _tokenizer(_FRENCH)
    return Computed([1, 32_000], [tokenizer.kind == "wordpiece", tokenizer.size])


def batch_size() -> Computed:
    """Batches of 25,000 source tokens and 25,000 target tokens, of the base model and of the big one"""
    return Computed([25_000, 25_000], [_recipe(name).data.batch_tokens for name in (_BASE, _BIG)])


def training_steps() -> Computed:
    """100,000 steps of the base model, 300,000 of the big one"""
    return Computed([100_000, 300_000], [_recipe(name).train.steps or 0 for name in (_BASE, _BIG)])


def published_adam() -> Computed:
    """Adam with beta_1 = 0.9, beta_2 = 0.98, epsilon = 1e-9, as the built optimizer has them"""
    with drawn():
        optimizer = build_optimizer(_recipe(_BASE).train.optimizer, nn.Linear(1, 1))
    group = optimizer.param_groups[0]
    return Computed([0.9, 0.98, 1e-9], [*group["betas"], group["eps"]], tolerance=0)


def published_rates() -> Computed:
    """Dropout of 0.1 and label smoothing of 0.1 in the base model"""
    recipe = _recipe(_BASE)
    return Computed([0.1, 0.1], [cast(TransformerModel, recipe.model).dropout, recipe.train.label_smoothing or 0])


def published_search() -> Computed:
    """Beams of 4, a length penalty of 0.6, means of 5 checkpoints of the base model and of 20 of the big one"""
    base, big = _recipe(_BASE), _recipe(_BIG)
    averages = [recipe.train.average for recipe in (base, big)]
    search = [base.decode.beam, base.decode.length_penalty or 0]
    return Computed([4, 0.6, 5, 20], [*search, *((one and one.last) or 0 for one in averages)])


def published_parser() -> Computed:
    """4 layers, d_model = 1024, 16,000 tokens, at most 300 tokens more than the input, beams of 21, penalty 0.3"""
    recipe = _recipe(_PARSER)
    model, decode = cast(TransformerModel, recipe.model), recipe.decode
    sizes = [model.layers, model.width, _tokenizer(_PARSER).size]
    return Computed(
        [4, 1024, 16_000, 300, 21, 0.3], [*sizes, decode.max_extra, decode.beam, decode.length_penalty or 0]
    )


def noam_values() -> Computed:
    """a = 2, omega = 4000, beta_1 = 0.9 and beta_2 = 0.98 in the text; a = 1 in Vaswani et al. and in the recipe"""
    train = _recipe(_BASE).train
    assert isinstance(train.schedule, Noam)
    assert isinstance(train.optimizer, Adam)
    found = [train.schedule.factor, train.schedule.warmup, train.optimizer.beta1, train.optimizer.beta2]
    return Computed([2, 4000, 0.9, 0.98], found)

"""Defaults of models of texts: few texts get a bag of n-grams, or a network that is regularised more."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.model.pooled import ClassifierModel, RegressorModel, TextModel
from heedful.config.task_rules import Tables, model_of
from heedful.data.corpora.texts import read_texts
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults, power_of_two

_NETWORK: Final = ("encoder", "pool", "join", "pooler", "head_hidden")  # keys that describe a network of one's own


class TextCase(Case):
    """A classifier or a regressor of texts."""

    @property
    def encoder(self) -> str:
        """Family of the encoder in the recipe."""
        return model_of(self.recipe, TextModel).encoder.family

    @property
    def numbers(self) -> bool:
        """Whether the model is a regressor."""
        return isinstance(self.recipe.model, RegressorModel)

    @property
    def little(self) -> bool:
        """Whether the corpus is small; numbers say less about texts than classes do, so there is more of it."""
        return not self.facts.more if self.numbers else super().little

    @property
    def shapeless(self) -> bool:
        """Whether there is little data, and no key describes the network."""
        return self.little and not any(self.sets(f"model.{key}") for key in _NETWORK)

    @property
    def bag(self) -> bool:
        """Whether a bag of n-grams is chosen: for single texts."""
        return self.shapeless and not self.recipe.data.paired

    @property
    def compared(self) -> bool:
        """Whether the texts of a pair are read one by one and compared: numbers often say how alike they are."""
        return self.shapeless and self.recipe.data.paired and self.numbers

    @property
    def network(self) -> bool:
        """Whether few texts are read by another network."""
        return self.little and not self.bag

    @property
    def stack(self) -> bool:
        """Whether that network is a stack of layers."""
        return self.network and not self.compared and self.encoder in ("transformer", "recurrent")

    @property
    def joins(self) -> bool:
        """Whether the recipe joins the texts of a pair by co-attention, which pools them."""
        return model_of(self.recipe, TextModel).joins_after_reading

    @property
    def transformer(self) -> bool:
        """Whether that network is a Transformer."""
        return self.stack and self.encoder == "transformer"

    @property
    def whole_words(self) -> bool:
        """Whether tokens are whole words, which have no merges that BPE-dropout could leave out."""
        return (self.bag or self.compared) and self.facts.spaced and not self.recipe.train.bpe_dropout

    @property
    def reads_letters(self) -> bool:
        """Whether the tokens of a bag are single characters: those of texts without spaces between words."""
        cut_in_pieces = self.facts.spaced or self.recipe.train.bpe_dropout or self.sets("tokenizer")
        return self.bag and not cut_in_pieces

    @property
    def letters(self) -> int:
        """Characters of a token, about."""
        return 1 if self.reads_letters else super().letters


def _encoder(case: TextCase) -> dict[str, Any]:
    buckets = 4 * power_of_two(case.tokens, 1024, 2**19 if case.numbers else 2**17)
    return {
        "family": "bag",
        "width": max(8, case.facts.classes),
        "ngrams": 3 if case.reads_letters else 2,
        "buckets": buckets,
        "weighting": "rarity",
        "weights_per_bucket": 8 if buckets <= 2**19 else 2,
        "dropout_words": 0.2,
    }


def _bag_schedule(case: TextCase) -> dict[str, Any]:
    return {"kind": "linear", "lr": float(f"{min(0.001, 0.13 / case.steps):.2g}"), "warmup": 0}


def _network_schedule(case: TextCase) -> dict[str, Any]:
    rate = 0.002 if case.compared or case.encoder in ("recurrent", "hierarchical", "bag") else 0.0005
    return {"kind": "cosine", "lr": rate, "warmup": case.warmup}


def _has_a_score(case: TextCase) -> bool:
    """Whether the score that users look at chooses the model; for several labels per text, the loss does."""
    return case.bag and case.validated and getattr(case.recipe.model, "labels", "one") == "one"


def _in_pieces(case: TextCase) -> bool:
    return case.bag and "tokenizer" not in case.decided and case.recipe.tokenizer.kind == "byte_bpe"


def _rows(recipe: Tables) -> Iterator[Row]:
    several, numbers = getattr(recipe.model, "labels", "one") == "several", isinstance(recipe.model, RegressorModel)
    for corpus in recipe.data.train:
        for text in read_texts(corpus, recipe.data.folder, several=several):
            both = f"{text.text} {text.second}" if numbers and text.second is not None else text.text
            yield Row.of_text(both, text.labels)


TEXTS: Final = TaskDefaults(
    models=(ClassifierModel, RegressorModel),
    noun="texts",
    rows=_rows,
    case=TextCase,
    rules=(
        Rule("data.max_length", lambda case: case.bag, lambda case: 1024),
        Rule("model.encoder", lambda case: case.bag, _encoder),
        Rule("model.encoder", lambda case: case.compared, lambda case: {"family": "recurrent", "width": 128}),
        Rule("model.join", lambda case: case.compared, lambda case: "parallel"),
        Rule("model.head_hidden", lambda case: case.compared, lambda case: 128),
        Rule("data.lowercase", lambda case: case.little, lambda case: True),
        Rule("tokenizer", lambda case: case.whole_words, lambda case: {"kind": "wordpiece", "size": 30000}),
        Rule("tokenizer", lambda case: case.reads_letters, lambda case: {"kind": "char"}),
        Rule("tokenizer.size", _in_pieces, lambda case: 16000 if case.facts.spaced else 2000),
        Rule("data.batch_tokens", lambda case: case.little, lambda case: case.batch(updates=100)),
        Rule("train.steps", lambda case: case.bag and case.open_ended, lambda case: max(20, case.updates(2))),
        Rule("train.steps", lambda case: case.network and case.open_ended, lambda case: case.updates(20)),
        Rule("train.schedule", lambda case: case.bag, _bag_schedule),
        Rule("model.pool", lambda case: case.transformer and not case.joins, lambda case: "attention"),
        Rule("model.dropout", lambda case: case.network, lambda case: 0.3 if case.compared else 0.5),
        Rule("model.encoder.dropout", lambda case: case.stack, lambda case: 0.3),
        Rule("model.encoder.dropout_words", lambda case: case.stack, lambda case: 0.3),
        Rule("model.encoder.norm", lambda case: case.transformer, lambda case: "pre"),
        Rule("train.label_smoothing", lambda case: case.network and not case.numbers, lambda case: 0.1),
        Rule(
            "train.optimizer",
            lambda case: case.little,
            lambda case: {"kind": "adamw", "weight_decay": 0.0 if case.bag else 0.1},
        ),
        Rule("train.schedule", lambda case: case.network, _network_schedule),
        Rule("train.clip_norm", lambda case: case.network, lambda case: 1.0),
        Rule("train.validation.metric", _has_a_score, lambda case: "spearman" if case.numbers else "accuracy"),
    ),
)

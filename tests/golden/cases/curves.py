"""The recipes whose curves are golden: every family, kind of attention and way of training."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

UPDATES: Final = 20
Table = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A recipe, but for what all have; `static` trains it on the batches of one shape that a GPU has."""

    model: Table
    data: Table
    train: Table = field(default_factory=dict)
    tokenizer: Table = field(default_factory=lambda: {"kind": "word"})
    static: bool = False

    def recipe(self, folder: Path) -> dict[str, Table]:
        """The whole recipe of texts in a folder."""
        train = {
            "steps": UPDATES,
            "schedule": {"kind": "linear", "lr": 0.005, "warmup": 5, "floor": 0.2},
            "device": "cpu",
            "precision": "float32",
            "threads": 1,
            "log_every": 1,
            "compile": False,
            "capture": False,
        }
        return {
            "data": {"folder": str(folder), **self.data},
            "tokenizer": self.tokenizer,
            "model": self.model,
            "train": {**train, **self.train},
        }


BACK: Final = {"source": "back.in", "target": "back.out"}
SAME: Final = {"source": "same.in", "target": "same.out"}
PAIRS: Final = {"train": [BACK], "batch_tokens": 128, "max_length": 20}
LABELLED: Final = {"batch_tokens": 256, "max_length": 24}
REVIEWS: Final = {"train": [{"tsv": "reviews.tsv", "label": 1, "text": 2}], **LABELLED}
TWO_TEXTS: Final = {"train": [{"tsv": "pairs.tsv", "label": 1, "text": 2, "second": 3}], **LABELLED}
SEVERAL_TOPICS: Final = {"train": [{"tsv": "topics.tsv", "label": 1, "text": 2}], **LABELLED}
RUNNING: Final = {"train": [{"text": "running.txt"}], "batch_tokens": 256, "max_length": 32}
WHOLE: Final = {"kind": "word"}
PIECES: Final = {"kind": "byte_bpe", "size": 290}
USUAL: Final[Table] = {}
STACK: Final = {"width": 16, "heads": 2, "layers": 1, "inner": 24, "max_positions": 40, "dropout": 0.1}
RECURRENT: Final = {"family": "recurrent", "width": 16, "encoder_width": 8, "dropout": 0.1}
WORDS: Final = {"family": "recurrent", "width": 6, "embedding": 8, "dropout": 0.1}


def transformer(data: Table = PAIRS, train: Table = USUAL, tokenizer: Table = WHOLE, **model: Any) -> Case:
    return Case({"family": "transformer", **STACK, **model}, data, train, tokenizer)


def recurrent(train: Table = USUAL, **model: Any) -> Case:
    return Case({**RECURRENT, **model}, PAIRS, train)


def classifier(encoder: Table = USUAL, data: Table = REVIEWS, train: Table = USUAL, **model: Any) -> Case:
    family = encoder.get("family", "transformer")
    whole = {**STACK, "family": family, **encoder} if family in ("transformer", "bert") else encoder
    return Case({"family": "classifier", "encoder": whole, **model}, data, train)


def masked(train: Table = USUAL, tokenizer: Table = WHOLE, **model: Any) -> Case:
    faster = {"schedule": {"kind": "linear", "lr": 0.03, "warmup": 5}, **train}  # its weights begin small
    return Case({"family": "bert", **STACK, "dropout_attention": 0.1, **model}, RUNNING, faster, tokenizer)


def language(data: Table = USUAL, train: Table = USUAL, tie: bool = True, **decoder: Any) -> Case:
    family = decoder.get("family", "transformer")
    whole = {**STACK, "dropout_attention": 0.1, **decoder} if family == "transformer" else decoder
    faster = {"schedule": {"kind": "linear", "lr": 0.03, "warmup": 5}, **train}  # its weights begin small
    return Case({"family": "language", "tie": tie, "decoder": {"family": family, **whole}}, {**RUNNING, **data}, faster)


def static(case: Case) -> Case:
    return replace(case, static=True)


TRANSFORMERS: Final[dict[str, Case]] = {
    "post": transformer(layers=2),
    "pre": transformer(norm="pre", activation="swiglu", dropout_attention=0.1, dropout_inner=0.1, dropout_words=0.1),
    "learned": transformer(norm="pre", positions="learned", tie="none", activation="gelu"),
    "halves-shallow": transformer(positions="sinusoidal_halves", layers=2, decoder_layers=1, tie="decoder"),
    "post-rope": transformer(positions="rope", dropout_embedding=0.3),
    "pre-rope": transformer(norm="pre", positions="rope", dropout_attention=0.1),
    "post-alibi": transformer(positions="alibi", dropout_attention=0.1),
    "pre-relative": transformer(norm="pre", positions="relative", max_distance=3, dropout_attention=0.1),
    "explicit": transformer(backend="explicit", dropout_attention=0.1),
    "two-embeddings": transformer(embeddings=2, tie="decoder", embedding_norm=True, output_bias=True),
    "to-several-languages": transformer({**PAIRS, "train": [{**BACK, "to": "b"}, {**SAME, "to": "s"}]}),
    "weighed-corpora": transformer({**PAIRS, "train": [BACK, {**SAME, "weight": 2.0}], "temperature": 2.0}),
    "generated-pieces": transformer({"train": [{"builtin": "english-spanish", "count": 60}], "batch_tokens": 256},
                                    tokenizer={"kind": "byte_bpe", "size": 300}),
    "two-vocabularies": transformer(tokenizer={"kind": "char", "joint": False}, tie="decoder"),
    "accumulated": transformer(train={"accumulate": 3, "label_smoothing": 0.2, "clip_norm": 0.5}),
    "adamw-cosine": transformer(train={"optimizer": {"kind": "adamw", "weight_decay": 0.1}, "label_smoothing": 0.0,
                                       "schedule": {"kind": "cosine", "lr": 0.005, "warmup": 3}}),
    "noam": transformer(train={"schedule": {"kind": "noam", "warmup": 100}, "seed": 7}),
}  # fmt: skip
ATTENTIONS: Final[dict[str, Case]] = {
    "content": transformer(alignment="content", norm="pre"),
    "dot-gumbel": transformer(alignment="dot", choice="gumbel", dropout_attention=0.1),
    "general-hard": transformer(alignment="general", choice="hard"),
    "biased-general-learned-entmax": transformer(alignment="biased_general", distribution="learned_entmax"),
    "activated-general-entmax": transformer(alignment="activated_general", distribution="entmax", alpha=1.3),
    "kernel": transformer(alignment="kernel", features=16),
    "additive-entmax15": transformer(alignment="additive", distribution="entmax15", norm="pre"),
    "deep-normalised-sigmoid": transformer(alignment="deep", distribution="normalised_sigmoid"),
    "location-sigmoid": transformer(alignment="location", distribution="sigmoid", max_places=21),
    "area-sparsemax": transformer(alignment="area", distribution="sparsemax"),
    "de-attention-relative": transformer(distribution="de_attention", positions="relative"),
    "softmax-hard-alibi": transformer(choice="hard", positions="alibi"),
}
RECURRENTS: Final[dict[str, Case]] = {
    "sutskever-lstm": recurrent(wiring="sutskever", cell="lstm", layers=2, bidirectional=False, reverse_source=True),
    "cho-gru": recurrent(wiring="cho", embedding=12, embeddings=2),
    "bahdanau-gru": recurrent(wiring="bahdanau", tie="decoder"),
    "bahdanau-variational-lstm": recurrent(cell="lstm", layers=2, variational=True, dropout_words=0.1),
    "luong-local-p": recurrent(wiring="luong", cell="lstm", layers=2, window="predicted", half_width=2),
    "luong-local-m-hard": recurrent(wiring="luong", cell="tanh", window="monotone", half_width=2, choice="hard"),
    "luong-dot-entmax15": recurrent(wiring="luong", cell="relu", alignment="dot", distribution="entmax15",
                                    input_feeding=False),
    "luong-location-sigmoid": recurrent(wiring="luong", alignment="location", distribution="sigmoid", max_places=21),
    "bahdanau-area-sparsemax": recurrent(alignment="area", distribution="sparsemax"),
    "bahdanau-deep-gumbel": recurrent(alignment="deep", choice="gumbel", tie="all"),
    "bahdanau-de-attention": recurrent(alignment="scaled_dot", distribution="de_attention"),
    "bahdanau-kernel": recurrent(alignment="kernel", features=16),
    "sampled-bahdanau": recurrent({"scheduled_sampling": {"kind": "linear", "slope": 0.04}}),
    "sampled-luong": recurrent({"scheduled_sampling": {"kind": "inverse_sigmoid", "span": 4.0}}, wiring="luong"),
    "transformer-to-gru": Case({"family": "mixed", "encoder": {"family": "transformer", **STACK},
                                "decoder": {"family": "recurrent", "width": 12, "layers": 2}}, PAIRS),
    "lstm-to-transformer": Case({"family": "mixed", "encoder": {"family": "recurrent", "cell": "lstm", "width": 8},
                                 "decoder": {"family": "transformer", **STACK}, "tie": "decoder"}, PAIRS),
}  # fmt: skip
CLASSIFIERS: Final[dict[str, Case]] = {
    "first": classifier({"layers": 2}),
    "mean-learned": classifier({"norm": "pre", "positions": "learned"}, pool="mean"),
    "max-relative": classifier({"positions": "relative", "embeddings": 2}, pool="max"),
    "attention-rope": classifier({"positions": "rope", "dropout_words": 0.1}, pool="attention"),
    "multi-dimensional": classifier({"embedding_norm": True}, pool="multi_dimensional", pooler=True),
    "gru-max": classifier({"family": "recurrent", "width": 8, "layers": 2}),
    "lstm-last": classifier({"family": "recurrent", "cell": "lstm", "width": 8, "embedding": 6, "bidirectional": False,
                             "variational": True}, pool="last"),
    "hierarchical": classifier({"family": "hierarchical", "words": WORDS, "sentences": {"width": 6}}),
    "hierarchical-transformer": classifier({
        "family": "hierarchical", "words": {"family": "transformer", **STACK}, "word_pool": "mean",
        "sentences": {"cell": "lstm", "width": 6, "layers": 2}, "max_sentence": 3}, pool="max"),
    "bert-pooler": classifier({"family": "bert", "layers": 2}, pooler=True, train={"layer_decay": 0.8}),
    "two-texts": classifier({"segments": 2}, TWO_TEXTS),
    "two-texts-bert": classifier({"family": "bert"}, TWO_TEXTS, {"schedule": {"kind": "constant", "lr": 0.02}},
                                 pooler=True, pool="mean"),
    "two-texts-gru": classifier({"family": "recurrent", "width": 8}, TWO_TEXTS, pool="attention"),
    "cut-in-the-middle": classifier({}, {**REVIEWS, "max_length": 12, "cut": "middle"}, pool="mean"),
    "several-labels": classifier({}, SEVERAL_TOPICS, labels="several"),
    "several-labels-balanced": classifier({}, SEVERAL_TOPICS, {"class_weights": "balanced", "label_smoothing": 0.1},
                                          labels="several"),
    "several-labels-hierarchical": classifier({"family": "hierarchical", "words": WORDS, "sentences": {"width": 6}},
                                              SEVERAL_TOPICS, labels="several"),
    "balanced-classes": classifier(train={"class_weights": "balanced", "accumulate": 2}),
    "weighed-classes": classifier(train={"class_weights": {"neg": 3.0}, "label_smoothing": 0.1}),
}  # fmt: skip
MASKED: Final[dict[str, Case]] = {
    "next-sentence": masked(layers=2),
    "masks-alone": masked(next_sentence=False, segments=0),
    "whole-words": masked({"masking": {"whole_words": True, "share": 0.2}}, PIECES),
    "bert-pre-rope": masked(norm="pre", positions="rope", train={"label_smoothing": 0.1, "accumulate": 2}),
}
LANGUAGE: Final[dict[str, Case]] = {
    "gpt2": language(layers=2),
    "llama-open": language({"borders": "open"}, tie=False, positions="rope", rope_base=500.0, norm_kind="rms",
                           key_value_heads=1, activation="swiglu", bias=False),
    "language-lstm": language(family="recurrent", cell="lstm", width=16, layers=2, dropout=0.1),
}  # fmt: skip
STATIC: Final[dict[str, Case]] = {
    "static-post": static(transformer(layers=2)),
    "static-pre-rope": static(transformer(train={"accumulate": 2, "clip_norm": 0.5}, norm="pre", positions="rope")),
    "static-learned": static(transformer(positions="learned", activation="swiglu", tie="none")),
    "static-first": static(classifier({"layers": 2})),
    "static-attention": static(classifier(pool="attention", train={"class_weights": "balanced"})),
    "static-two-texts": static(classifier({"segments": 2}, TWO_TEXTS, pool="mean")),
    "static-several-labels": static(classifier({}, SEVERAL_TOPICS, pool="max", labels="several")),
    "static-next-sentence": static(masked(layers=2, dropout_attention=0.0)),
    "static-whole-words": static(
        masked({"masking": {"whole_words": True}}, PIECES, next_sentence=False, dropout_attention=0.0)
    ),
}
CASES: Final[dict[str, Case]] = {
    **TRANSFORMERS,
    **ATTENTIONS,
    **RECURRENTS,
    **CLASSIFIERS,
    **MASKED,
    **STATIC,
    **LANGUAGE,
}

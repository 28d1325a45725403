"""Which type of encoder a recipe is written as, and the keys of its config: without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from heedful.config.model.encoder_only import BertModel
from heedful.config.model.encoders import TransformerEncoderTable
from heedful.config.recipe import Recipe

_BERT_KEYS: Final = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "inner": "intermediate_size",
    "activation": "hidden_act",
    "norm_epsilon": "layer_norm_eps",
    "max_positions": "max_position_embeddings",
    "segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "dropout_attention": "attention_probs_dropout_prob",
}


@dataclass(frozen=True)
class Kind:
    """A type of encoder: how its config calls our keys, and the classes of its heads by our families."""

    model_type: str
    title: str  # in messages
    keys: Mapping[str, str]
    dropouts: Mapping[str, str]  # of the head, by our families
    heads: Mapping[str, str]  # classes of models, by our families
    after_padding: bool = False  # whether positions are counted from the number of `<pad>` on
    fixed: Mapping[str, Any] = field(default_factory=dict)  # keys of the config that have this value alone


def _heads(name: str, masked: str = "MaskedLM") -> dict[str, str]:
    return {
        "bert": f"{name}For{masked}",
        "classifier": f"{name}ForSequenceClassification",
        "regressor": f"{name}ForSequenceClassification",
        "tagger": f"{name}ForTokenClassification",
        "reader": f"{name}ForQuestionAnswering",
    }


_NO_DECODER: Final = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
_DROPOUTS: Final = dict.fromkeys(("classifier", "regressor", "tagger"), "classifier_dropout")
BERT: Final = Kind("bert", "BERT", _BERT_KEYS, _DROPOUTS, _heads("Bert"), fixed=_NO_DECODER)
ROBERTA: Final = Kind("roberta", "RoBERTa", _BERT_KEYS, _DROPOUTS, _heads("Roberta"), True, _NO_DECODER)
XLM_ROBERTA: Final = Kind("xlm-roberta", "XLM-RoBERTa", _BERT_KEYS, _DROPOUTS, _heads("XLMRoberta"), True, _NO_DECODER)
DISTILBERT: Final = Kind(
    "distilbert",
    "DistilBERT",
    {
        "width": "dim",
        "heads": "n_heads",
        "layers": "n_layers",
        "inner": "hidden_dim",
        "activation": "activation",
        "max_positions": "max_position_embeddings",
        "dropout": "dropout",
        "dropout_attention": "attention_dropout",
    },
    {"classifier": "seq_classif_dropout", "regressor": "seq_classif_dropout", "tagger": "dropout"}
    | {"reader": "qa_dropout"},
    _heads("DistilBert"),
)
DISTILBERT_EPSILON: Final = 1e-12  # of all its norms: no key of its config sets another

Encoder = BertModel | TransformerEncoderTable


def encoder_of(recipe: Recipe) -> Any:
    """Return the table of a recipe's encoder, of whatever family it is."""
    return recipe.model if recipe.model.family == "bert" else getattr(recipe.model, "encoder", recipe.model)


def kind_of(recipe: Recipe) -> Kind:
    """Return the type that a recipe is written as; the other types have another form, and the same functions.

    A model with two segments is a BERT. One with a single segment is what RoBERTa is, with the vocabulary that RoBERTa
    or XLM-RoBERTa has, and one without segments is what DistilBERT is, if its head is.
    """
    model, encoder = recipe.model, encoder_of(recipe)
    follows = model.family == "bert" and encoder.next_sentence
    if encoder.segments == 1 and not follows and model.family != "reader":
        if model.family == "bert" and encoder.activation != "gelu":  # that of RoBERTa's head
            return BERT
        return {"byte_bpe": ROBERTA, "unigram": XLM_ROBERTA}.get(recipe.tokenizer.kind, BERT)
    if encoder.segments == 0 and encoder.norm_epsilon == DISTILBERT_EPSILON and encoder.activation in ("gelu", "relu"):
        hidden = getattr(model, "head_hidden", None)
        pooled = model.family in ("classifier", "regressor")
        if hidden == (encoder.width if pooled else None) and not getattr(model, "pooler", False):
            return DISTILBERT
    return BERT

"""Folders of encoders of all types, with any head, of random weights and with vocabularies as each type has them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from tests.unit.interop.bert.bert_folders import varied_texts, write_bert_vocabulary
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LABELS: Final = ("O", "B-PER", "I-PER")
_MARKERS: Final = ("<s>", "<pad>", "</s>", "<unk>")  # in RoBERTa's order
_SIZES: Final = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "hidden_dropout_prob": 0.25,
    "attention_probs_dropout_prob": 0.125,
    "classifier_dropout": 0.375,
}
_ROBERTA: Final = _SIZES | {"max_position_embeddings": 98, "pad_token_id": 1, "type_vocab_size": 1}
_DISTILBERT: Final = {
    "dim": 16,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 24,
    "max_position_embeddings": 96,
    "dropout": 0.25,
    "attention_dropout": 0.125,
    "seq_classif_dropout": 0.375,
    "qa_dropout": 0.0625,
}
_CONFIGS: Final[Mapping[str, dict[str, Any]]] = {
    "Bert": _SIZES | {"max_position_embeddings": 96},
    "Roberta": _ROBERTA,
    "XLMRoberta": _ROBERTA,
    "DistilBert": _DISTILBERT,
}


def write_encoder(folder: Path, name: str, head: str, **changed: Any) -> Any:
    """Write a model of a type such as Bert with a head such as SequenceClassification; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    size = _VOCABULARIES[name](folder)
    labels = {} if head == "QuestionAnswering" else {"id2label": dict(enumerate(LABELS))}
    values = _CONFIGS[name] | {"vocab_size": size} | labels | changed
    torch.manual_seed(4)
    config = getattr(transformers, f"{name}Config")(**values)
    model = getattr(transformers, f"{name}For{head}")(config).eval()
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return model


def _wordpiece(folder: Path) -> int:
    return len(write_bert_vocabulary(folder, do_lower_case=True))


def _byte_level(folder: Path) -> int:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[*_MARKERS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return _trained(tokenizer, trainer, folder, "RobertaTokenizer")


def _unigrams(folder: Path) -> int:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=[*_MARKERS], unk_token="<unk>", show_progress=False
    )
    return _trained(tokenizer, trainer, folder, "PreTrainedTokenizerFast")


def _trained(tokenizer: Tokenizer, trainer: Any, folder: Path, kind: str) -> int:
    tokenizer.train_from_iterator(varied_texts(200, seed=9), trainer)
    described = json.loads(tokenizer.to_str())
    if described["model"]["type"] == "Unigram":  # whose trainer puts markers anywhere
        pieces = [[piece, score] for piece, score in described["model"]["vocab"] if piece not in _MARKERS]
        described["model"] |= {"vocab": [*([marker, 0.0] for marker in _MARKERS), *pieces], "unk_id": 3}
        tokenizer = Tokenizer.from_str(json.dumps(described | {"added_tokens": []}))
    tokenizer.add_special_tokens([*_MARKERS, "<mask>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    config = names | {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>", "tokenizer_class": kind}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer.get_vocab_size()


_VOCABULARIES: Final[Mapping[str, Callable[[Path], int]]] = {
    "Bert": _wordpiece,
    "Roberta": _byte_level,
    "XLMRoberta": _unigrams,
    "DistilBert": _wordpiece,
}

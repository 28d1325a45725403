"""Folders of GPT-2 and Llama models of random weights to import, with byte-level vocabularies."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

import torch
from tests.unit.interop.bert.bert_folders import varied_texts
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
from transformers.utils import logging

Files = Literal["pieces", "library", "both"]  # vocab.json with merges.txt, tokenizer.json

END: Final = "<|endoftext|>"
BEGIN_OF_TEXT, END_OF_TEXT, RESERVED = "<|begin_of_text|>", "<|end_of_text|>", "<|reserved 0|>"
LLAMA_SPLIT: Final = (  # Llama 3's
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def prompts(count: int, seed: int = 0) -> list[str]:
    """Texts of all kinds, some with line breaks after words and after punctuation; none is blank."""
    texts = varied_texts(count + 20, seed)
    joined = [f"{one}.\n{two}\n\n {one}!\n" for one, two in zip(texts[::5], texts[1::5], strict=False)]
    return [text for text in [*joined, *texts] if text.strip()][:count]


def gpt2_tokenizer(size: int = 400) -> Tokenizer:
    """Train a tokenizer of GPT-2's kind, whose end marker has the last id."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _trained(tokenizer, size, [END])


def llama_tokenizer(size: int = 400) -> Tokenizer:
    """Train a tokenizer of Llama 3's kind: its own split, and a marker before every text."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer = _trained(tokenizer, size, [BEGIN_OF_TEXT, END_OF_TEXT, RESERVED])
    begin = tokenizer.token_to_id(BEGIN_OF_TEXT)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN_OF_TEXT} $A", special_tokens=[(BEGIN_OF_TEXT, begin)]
    )
    return tokenizer


def _trained(tokenizer: Tokenizer, size: int, markers: Iterable[str]) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(prompts(200, seed=9), trainer)
    tokenizer.add_special_tokens(list(markers))
    return tokenizer


def write_gpt2(folder: Path, *, files: Files = "both", bare: bool = False, **changed: Any) -> Any:
    """Write a GPT-2 model of random weights with its vocabulary; return it. A bare one has no prefix in its names."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = gpt2_tokenizer()
    described, end = json.loads(tokenizer.to_str())["model"], tokenizer.get_vocab()[END]
    if files != "library":
        (folder / "vocab.json").write_text(json.dumps(described["vocab"] | {END: end}))
        merges = "".join(f"{' '.join(pair)}\n" for pair in described["merges"])
        (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}")
    if files != "pieces":
        tokenizer.save(str(folder / "tokenizer.json"))
    values = {
        "vocab_size": end + 1,
        "n_embd": 16,
        "n_head": 4,
        "n_layer": 2,
        "n_positions": 96,
        "resid_pdrop": 0.25,
        "embd_pdrop": 0.125,
        "attn_pdrop": 0.0625,
        "bos_token_id": end,
        "eos_token_id": end,
    }
    model = _shaken(GPT2LMHeadModel(GPT2Config(**values | changed)))
    (model.transformer if bare else model).save_pretrained(folder)
    return model


def write_llama(folder: Path, **changed: Any) -> Any:
    """Write a Llama model of random weights with its vocabulary; return it."""
    return _write_like_llama(folder, LlamaConfig, LlamaForCausalLM, llama_tokenizer(), changed)


def write_mistral(folder: Path, **changed: Any) -> Any:
    """Write a Mistral model of random weights with its vocabulary; return it. It sees five tokens."""
    window = {"sliding_window": 5}
    return _write_like_llama(folder, MistralConfig, MistralForCausalLM, llama_tokenizer(), window | changed)


def write_qwen2(folder: Path, **changed: Any) -> Any:
    """Write a Qwen2 model of random weights with its vocabulary; return it."""
    tokenizer = qwen2_tokenizer()
    end = tokenizer.token_to_id(END)
    values = {"bos_token_id": end, "eos_token_id": end}
    return _write_like_llama(folder, Qwen2Config, Qwen2ForCausalLM, tokenizer, values | changed)


def qwen2_tokenizer(size: int = 400) -> Tokenizer:
    """Train a tokenizer of Qwen2's kind: its own split, composed letters, no marker before texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return _trained(tokenizer, size, [END])


def _write_like_llama(folder: Path, config: Any, kind: Any, tokenizer: Tokenizer, changed: dict[str, Any]) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 96,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        "bos_token_id": tokenizer.token_to_id(BEGIN_OF_TEXT),
        "eos_token_id": tokenizer.token_to_id(END_OF_TEXT),
    }
    model = _shaken(kind(config(**values | changed)))
    model.save_pretrained(folder)
    return model


def _shaken(model: Any) -> Any:
    """Draw every weight: biases of zero and norms of one would hide mistakes."""
    logging.disable_progress_bar()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model.eval()

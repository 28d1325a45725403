"""Small folders of models as other toolkits save them, made without those toolkits."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import torch
from benchmarks.damage.small_corpora import SOURCES, TARGETS
from safetensors.torch import save
from tokenizers import decoders, models, normalizers, pre_tokenizers


def write_marian(folder: Path) -> None:
    """Write a translator of MarianMT."""
    written: dict[str, list[str]] = {}
    for side, lines, kind in (("source", SOURCES, "unigram"), ("target", TARGETS, "bpe")):
        folder.mkdir(parents=True, exist_ok=True)
        data = _train_sentencepiece(lines, kind)
        (folder / f"{side}.spm").write_bytes(data)
        processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        written[side] = [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
    pieces = list(dict.fromkeys(["</s>", "<unk>", *written["source"], *written["target"], "<pad>"]))
    width, inner, size = 8, 12, len(pieces)
    values = {"model_type": "marian", "d_model": width, "vocab_size": size, "activation_function": "swish"}
    for side in ("encoder", "decoder"):
        values |= {f"{side}_layers": 1, f"{side}_attention_heads": 2, f"{side}_ffn_dim": inner}
    ends = {"eos_token_id": 0, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    searched = {"num_beams": 2, "max_length": 8, "length_penalty": 1.0}
    _write_json(folder / "config.json", values | ends | {"scale_embedding": True, "dropout": 0.1})
    _write_json(folder / "generation_config.json", searched)
    _write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
    _write_json(folder / "vocab.json", {piece: number for number, piece in enumerate(pieces)})
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (size, width), "final_logits_bias": (1, size)}
    for side, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        before = f"model.{side}.layers.0."
        for attention in attentions:
            shapes |= _linear(
                *(f"{before}{attention}.{part}_proj" for part in ("q", "k", "v", "out")), at=(width, width)
            )
            shapes |= _linear(f"{before}{attention}_layer_norm", at=(width,))
        shapes |= _linear(f"{before}fc1", at=(inner, width)) | _linear(f"{before}fc2", at=(width, inner))
        shapes |= _linear(f"{before}final_layer_norm", at=(width,))
    (folder / "model.safetensors").write_bytes(_random_tensors(shapes))


def write_bert(folder: Path) -> None:
    """Write a BERT."""
    folder.mkdir(parents=True, exist_ok=True)
    words = sorted({word for line in SOURCES for word in (*line.rstrip(".?").split(), *line)} - {" "})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *(f"##{letter}" for letter in "abcdefghij")]
    library = tokenizers.Tokenizer(models.WordPiece({p: n for n, p in enumerate(pieces)}, unk_token="[UNK]"))
    library.normalizer, library.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(pieces[:5])
    (folder / "tokenizer.json").write_text(library.to_str())
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    width, inner, size, positions = 8, 12, len(pieces), 24
    values = {"model_type": "bert", "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2}
    values |= {"intermediate_size": inner, "max_position_embeddings": positions, "vocab_size": size}
    _write_json(folder / "config.json", values | {"type_vocab_size": 2, "hidden_act": "gelu"})
    shapes: dict[str, tuple[int, ...]] = {"cls.predictions.bias": (size,)}
    for name, rows in (("word", size), ("position", positions), ("token_type", 2)):
        shapes[f"bert.embeddings.{name}_embeddings.weight"] = (rows, width)
    block, head = "bert.encoder.layer.0.", "cls.predictions.transform."
    square = (*(f"{block}attention.self.{part}" for part in ("query", "key", "value")), f"{head}dense")
    shapes |= _linear(*square, f"{block}attention.output.dense", at=(width, width))
    norms = ("bert.embeddings.LayerNorm", f"{block}attention.output.LayerNorm", f"{block}output.LayerNorm")
    shapes |= _linear(*norms, f"{head}LayerNorm", at=(width,))
    shapes |= _linear(f"{block}intermediate.dense", at=(inner, width)) | _linear(
        f"{block}output.dense", at=(width, inner)
    )
    (folder / "model.safetensors").write_bytes(_random_tensors(shapes))


def write_gpt2(folder: Path) -> None:
    """Write a GPT-2."""
    folder.mkdir(parents=True)
    size, end = _write_byte_level(folder)
    width, positions = 8, 32
    values = {"model_type": "gpt2", "n_embd": width, "n_positions": positions, "n_head": 2, "n_layer": 1}
    ends = {"vocab_size": size, "eos_token_id": end, "bos_token_id": end}
    _write_json(folder / "config.json", values | ends | {"activation_function": "gelu_new"})
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (size, width), "wpe.weight": (positions, width)}
    shapes |= _linear("ln_f", "h.0.ln_1", "h.0.ln_2", at=(width,))
    for name, into, out in (("attn.c_attn", 8, 24), ("attn.c_proj", 8, 8), ("mlp.c_fc", 8, 32), ("mlp.c_proj", 32, 8)):
        shapes |= {f"h.0.{name}.weight": (into, out), f"h.0.{name}.bias": (out,)}
    (folder / "model.safetensors").write_bytes(_random_tensors(shapes))


def write_llama(folder: Path) -> None:
    """Write a model of Llama's shape, its weights in two files."""
    folder.mkdir(parents=True)
    size, end = _write_byte_level(folder)
    width, inner = 8, 12
    values = {"model_type": "llama", "hidden_size": width, "num_attention_heads": 2, "num_key_value_heads": 1}
    values |= {"num_hidden_layers": 1, "intermediate_size": inner, "max_position_embeddings": 32, "vocab_size": size}
    _write_json(folder / "config.json", values | {"hidden_act": "silu", "eos_token_id": end, "bos_token_id": end})
    block = "model.layers.0."
    first: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (size, width), "lm_head.weight": (size, width)}
    second: dict[str, tuple[int, ...]] = {"model.norm.weight": (width,)}
    second |= {f"{block}{name}.weight": (width,) for name in ("input_layernorm", "post_attention_layernorm")}
    second |= {f"{block}self_attn.{part}_proj.weight": (width, width) for part in "qo"}
    second |= {f"{block}self_attn.{part}_proj.weight": (width // 2, width) for part in "kv"}
    second |= {f"{block}mlp.{part}_proj.weight": (inner, width) for part in ("gate", "up")}
    second |= {f"{block}mlp.down_proj.weight": (width, inner)}
    names = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    for name, shapes in zip(names, (first, second), strict=True):
        (folder / name).write_bytes(_random_tensors(shapes))
    where = {key: name for name, shapes in zip(names, (first, second), strict=True) for key in shapes}
    _write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": where})


def write_vit(folder: Path) -> None:
    """Write a Vision Transformer."""
    folder.mkdir(parents=True)
    width, inner, patch, size = 8, 12, 4, 8
    values = {"model_type": "vit", "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2}
    values |= {"intermediate_size": inner, "image_size": size, "patch_size": patch, "num_channels": 3}
    _write_json(folder / "config.json", values | {"hidden_act": "gelu", "id2label": {"0": "cat", "1": "dog"}})
    pixels = {"do_normalize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    _write_json(folder / "preprocessor_config.json", pixels)
    embedding, block = "vit.embeddings.", "vit.encoder.layer.0."
    shapes: dict[str, tuple[int, ...]] = {
        f"{embedding}cls_token": (1, 1, width),
        f"{embedding}position_embeddings": (1, (size // patch) ** 2 + 1, width),
        f"{embedding}patch_embeddings.projection.weight": (width, 3, patch, patch),
        f"{embedding}patch_embeddings.projection.bias": (width,),
    }
    shapes |= _linear("classifier", at=(2, width))
    shapes |= _linear("vit.layernorm", f"{block}layernorm_before", f"{block}layernorm_after", at=(width,))
    square = [f"{block}attention.attention.{part}" for part in ("query", "key", "value")]
    shapes |= _linear(*square, f"{block}attention.output.dense", at=(width, width))
    shapes |= _linear(f"{block}intermediate.dense", at=(inner, width))
    shapes |= _linear(f"{block}output.dense", at=(width, inner))
    (folder / "model.safetensors").write_bytes(_random_tensors(shapes))


def _write_byte_level(folder: Path) -> tuple[int, int]:
    """Write a vocabulary of bytes and a few merges; return its size and the id of its end marker."""
    pieces = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "a")]
    pieces |= {a + b: len(pieces) + number for number, (a, b) in enumerate(merges)}
    library = tokenizers.Tokenizer(models.BPE(pieces, merges))
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    (folder / "tokenizer.json").write_text(library.to_str())
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"})
    return len(pieces) + 1, len(pieces)


def _train_sentencepiece(lines: tuple[str, ...], kind: str) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 5), model_writer=written, model_type=kind, vocab_size=60, hard_vocab_limit=False,
        minloglevel=2, num_threads=1,
    )  # fmt: skip
    return written.getvalue()


def _linear(*names: str, at: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of weights and biases."""
    return {f"{name}.{part}": at if part == "weight" else at[:1] for name in names for part in ("weight", "bias")}


def _random_tensors(shapes: Mapping[str, tuple[int, ...]]) -> bytes:
    generator = torch.Generator().manual_seed(1)
    return save({name: torch.randn(shape, generator=generator) for name, shape in shapes.items()})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))

"""Small sound inputs of every kind, the command lines that read them, and how to damage them by a seed.

Models and runs are those of tests/golden; folders to import and corpora are made here, without other toolkits.
"""

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import sentencepiece
import tokenizers
import torch
from benchmarks.damage.limited_runs import Work
from benchmarks.damage.model_mutators import mutate
from benchmarks.damage.small_corpora import SOURCES, TARGETS, small_corpora
from safetensors.torch import save
from tokenizers import models, normalizers, pre_tokenizers

from heedful.base.errors import UserError
from heedful.config.reading.load import load_recipe, recipe_to_toml
from heedful.data.tokenize.tokenizer import Tokenizer

GOLDEN: Final = Path(__file__).parents[2] / "tests/golden"
Commands = list[list[str]]
FEW: Final = ("--set", "train.steps=2")


@dataclass(frozen=True)
class Sound:
    """A sound input: a folder, the files that are damaged, what reads it, and how hashes are set right."""

    folder: Path
    damaged: str  # a glob
    uses: Sequence[
        Commands
    ]  # sequences of command lines, one of which is run; the first succeeds if nothing is damaged
    seal: Callable[[Path], None] = lambda folder: None


class Inputs:
    """All sound inputs, by kind, in a folder that is theirs."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.kinds: Mapping[str, Sequence[Sound]] = {
            "recipe": list(self._recipes()),
            "bundle": list(self._bundles()),
            "checkpoint": list(self._checkpoints()),
            "imported": [self._marian(), self._bert()],
            "corpus": list(self._corpora()),
        }

    def work(self, kind: str, seed: int) -> Work:
        """Return the input of a kind that a seed damages."""

        def make(folder: Path) -> Commands:
            chance = Random(f"{kind}:{seed}")
            sound = chance.choice(self.kinds[kind])
            shutil.copytree(sound.folder, folder, dirs_exist_ok=True)
            files = sorted(path for path in folder.glob(sound.damaged) if path.is_file())
            for path in chance.sample(files, min(len(files), chance.choice((1, 1, 1, 2)))):
                mutate(chance, path)
            if chance.random() < 0.6:
                sound.seal(folder)
            return chance.choice(sound.uses)

        return Work(f"{kind}:{seed}", make)

    def sound(self) -> Iterator[Work]:
        """Yield every input as it is, which must be accepted."""
        for kind, several in self.kinds.items():
            for number, sound in enumerate(several):

                def make(folder: Path, sound: Sound = sound) -> Commands:
                    shutil.copytree(sound.folder, folder, dirs_exist_ok=True)
                    return sound.uses[0]

                yield Work(f"{kind}-sound:{number}", make)

    # --- recipes ------------------------------------------------------------------------------------------------------

    def _recipes(self) -> Iterator[Sound]:
        for run in sorted((GOLDEN / "runs").iterdir()):
            folder = self._home / "recipe" / run.name
            shutil.copytree(run, folder, ignore=shutil.ignore_patterns("run", "whole.jsonl"))
            if run.name != "transformer":  # with every key
                (folder / "recipe.toml").write_text(recipe_to_toml(load_recipe(folder / "recipe.toml")))
            yield Sound(folder, "recipe.toml", _of_recipe())

    # --- models -------------------------------------------------------------------------------------------------------

    def _bundles(self) -> Iterator[Sound]:
        for bundle in sorted(path for path in (GOLDEN / "bundles").iterdir() if path.is_dir()):
            folder = self._home / "bundle" / bundle.name
            shutil.copytree(bundle, folder / "model")
            for name, lines in (("source.txt", SOURCES), ("target.txt", TARGETS)):
                (folder / name).write_text("".join(f"{line}\n" for line in lines))
            (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(SOURCES, TARGETS, strict=True)))
            (folder / "masks.txt").write_text("The [MASK] sees a house.\nA bird [MASK] the [MASK].\n")
            (folder / "labels.txt").write_text("good\nbad\ngood\n")
            yield Sound(folder, "model/*[!d]", _of_bundle(bundle.name), _seal_bundle)  # not README.md

    def _checkpoints(self) -> Iterator[Sound]:
        for run in sorted((GOLDEN / "runs").iterdir()):
            folder = self._home / "checkpoint" / run.name
            shutil.copytree(run, folder)
            yield Sound(folder, "run/**/*[!dl]", _of_checkpoint(), _seal_checkpoint)

    # --- folders to import --------------------------------------------------------------------------------------------

    def _marian(self) -> Sound:
        folder = self._home / "imported" / "marian"
        written: dict[str, list[str]] = {}
        for side, lines, kind in (("source", SOURCES, "unigram"), ("target", TARGETS, "bpe")):
            (folder / "theirs").mkdir(parents=True, exist_ok=True)
            data = _train_sentencepiece(lines, kind)
            (folder / "theirs" / f"{side}.spm").write_bytes(data)
            processor = sentencepiece.SentencePieceProcessor(model_proto=data)
            written[side] = [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
        pieces = list(dict.fromkeys(["</s>", "<unk>", *written["source"], *written["target"], "<pad>"]))
        width, inner, size = 8, 12, len(pieces)
        values = {"model_type": "marian", "d_model": width, "vocab_size": size, "activation_function": "swish"}
        for side in ("encoder", "decoder"):
            values |= {f"{side}_layers": 1, f"{side}_attention_heads": 2, f"{side}_ffn_dim": inner}
        ends = {"eos_token_id": 0, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
        searched = {"num_beams": 2, "max_length": 8, "length_penalty": 1.0}
        _write_json(folder / "theirs/config.json", values | ends | {"scale_embedding": True, "dropout": 0.1})
        _write_json(folder / "theirs/generation_config.json", searched)
        _write_json(folder / "theirs/tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
        _write_json(folder / "theirs/vocab.json", {piece: number for number, piece in enumerate(pieces)})
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
        (folder / "theirs/model.safetensors").write_bytes(_random_tensors(shapes))
        (folder / "source.txt").write_text("".join(f"{line}\n" for line in SOURCES))
        return Sound(folder, "theirs/*", _of_imported("translate", "source.txt"))

    def _bert(self) -> Sound:
        folder = self._home / "imported" / "bert"
        (folder / "theirs").mkdir(parents=True)
        words = sorted({word for line in SOURCES for word in (*line.rstrip(".?").split(), *line)} - {" "})
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *(f"##{letter}" for letter in "abcdefghij")]
        library = tokenizers.Tokenizer(models.WordPiece({p: n for n, p in enumerate(pieces)}, unk_token="[UNK]"))
        library.normalizer, library.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        library.add_special_tokens(pieces[:5])
        (folder / "theirs/tokenizer.json").write_text(library.to_str())
        (folder / "theirs/vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
        _write_json(
            folder / "theirs/tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
        )
        width, inner, size, positions = 8, 12, len(pieces), 24
        values = {"model_type": "bert", "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2}
        values |= {"intermediate_size": inner, "max_position_embeddings": positions, "vocab_size": size}
        _write_json(folder / "theirs/config.json", values | {"type_vocab_size": 2, "hidden_act": "gelu"})
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
        (folder / "theirs/model.safetensors").write_bytes(_random_tensors(shapes))
        (folder / "masks.txt").write_text("the [MASK] sees a house.\n")
        return Sound(folder, "theirs/*", _of_imported("fill", "masks.txt"))

    # --- corpora ------------------------------------------------------------------------------------------------------

    def _corpora(self) -> Iterator[Sound]:
        for number, corpus in enumerate(small_corpora()):
            folder = self._home / "corpus" / str(number)
            folder.mkdir(parents=True)
            for name, data in corpus.files.items():
                (folder / name).write_bytes(data)
            (folder / "recipe.toml").write_text(corpus.recipe)
            yield Sound(folder, "c.*", _of_corpus())


# --- commands ---------------------------------------------------------------------------------------------------------


def _of_recipe() -> Sequence[Commands]:
    train = ["train", "recipe.toml", "--out", "out", *FEW]
    check, show = ["config", "check", "recipe.toml"], ["config", "show", "recipe.toml"]
    return [train], [train], [check], [show], [["doctor", "recipe.toml", "--quick", *FEW]]


def _of_bundle(name: str) -> Sequence[Commands]:
    if name == "bert":
        return [["fill", "model", "masks.txt"]], [["embed", "model", "source.txt"]]
    if name.startswith("classifier"):
        use = [["classify", "model", "pairs.tsv" if name.endswith("pairs") else "source.txt"]]
        return use, use, [["tokens", "model", "source.txt"]], [["embed", "model", "source.txt"]]
    to = ["--to", "de"] if name == "transformer-languages" else []
    files, short = ["--source", "source.txt", "--target", "target.txt"], ["--beam", "2", "--max-extra", "4"]
    translate = [["translate", "model", "source.txt", *to, *short], ["tokens", "model", "source.txt"]]
    return translate, translate, [["score", "model", *to, *files]], [["evaluate", "model", *to, *files, *short]]


def _of_checkpoint() -> Sequence[Commands]:
    resume = ["train", "recipe.toml", "--out", "run", "--resume", "--set", "train.steps=12"]
    return [resume], [resume], [resume], [["average", "run", "--out", "mean", "--last", "2"]]


def _of_imported(verb: str, file: str) -> Sequence[Commands]:
    return ([["import", "theirs", "--out", "model"], [verb, "model", file], ["tokens", "model", file]],)


def _of_corpus() -> Sequence[Commands]:
    uses: list[Commands] = []
    for kind in ("byte_bpe", "bpe", "wordpiece", "unigram", "word", "char"):
        sized = ["--set", f'tokenizer={{ kind = "{kind}", size = {300 if kind == "byte_bpe" else 120} }}']
        uses += [[["train", "recipe.toml", "--out", "out", *FEW, *sized]]] * 2
    return *uses, [["doctor", "recipe.toml", "--quick"]], [["doctor", "recipe.toml", "--quick"]]


# --- hashes -----------------------------------------------------------------------------------------------------------


def _seal_bundle(folder: Path) -> None:
    """State the hashes of the tokenizers as they are now, as somebody does who means to deceive."""
    if not (folder / "model/config.json").is_file():
        return
    try:
        config = json.loads((folder / "model/config.json").read_bytes())
        for name in config["tokenizers"]:
            file = folder / "model" / name
            if file.is_file():
                config["tokenizers"][name] = hashlib.sha256(_as_written(file.read_bytes())).hexdigest()
        (folder / "model/config.json").write_text(json.dumps(config))
    except (ValueError, TypeError, KeyError, OSError, AttributeError, RecursionError):
        return


def _as_written(data: bytes) -> bytes:
    """Return a tokenizer as its library writes it, where Heedful lets it read it."""
    try:
        return Tokenizer.from_json(data, "tokenizer.json").to_json()
    except UserError:
        return data


def _seal_checkpoint(folder: Path) -> None:
    for manifest in folder.glob("run/checkpoints/*/manifest.json"):
        names = [path for path in manifest.parent.iterdir() if path.is_file() and path != manifest]
        if manifest.is_file() and not manifest.is_symlink() and all(path.stat().st_size < 1 << 30 for path in names):
            hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}
            manifest.write_text(json.dumps(hashes))


# --- contents ---------------------------------------------------------------------------------------------------------


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

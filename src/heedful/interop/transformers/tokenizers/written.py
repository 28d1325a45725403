"""A vocabulary of Heedful as files that `AutoTokenizer` opens: the same texts become the same ids, markers included."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.base.files import write_bytes, write_json
from heedful.config.data import Data
from heedful.data.tokenize.tokenizer import BEGIN, END, MASK, SPECIALS, Tokenizer

_BEGIN, _END = SPECIALS[BEGIN], SPECIALS[END]
_NAMES: Final = {"pad_token": 0, "bos_token": BEGIN, "eos_token": END, "unk_token": 3}
_CLASSES: Final = {"cls_token": _BEGIN, "sep_token": _END}  # of encoders
_SIGN: Final = "\N{SYMBOL FOR NEWLINE}"  # a line break, for tokenizers that read words only


@dataclass(frozen=True)
class Markers:
    """Which markers a tokenizer puts around texts: `<s> text </s>`, or `<s> text </s> second </s>`."""

    begins: bool = True
    ends: bool = True
    segments: bool = False  # whether the second text of a pair has a segment of its own
    masks: bool = False  # whether masks are read in texts
    copies: Sequence[int] = ()  # markers that are copies of `</s>`, and are not written


def write_tokenizer(folder: Path, tokenizer: Tokenizer, data: Data, markers: Markers, longest: int) -> None:
    """Write the files of a tokenizer: of an encoder where texts have an end, else of a language model."""
    described, encoder = json.loads(tokenizer.to_json()), markers.ends
    if "model" not in described:
        raise UserError(
            "The model has a tokenizer of the program that trained it, which transformers cannot hold: export a model "
            "with a tokenizer of Heedful."
        )
    own = [*_form(data), *_breaks(tokenizer, running=not encoder), *_markers_as_text(described["model"]["type"])]
    normalizers = [*own, *_parts(described["normalizer"], "normalizers")]
    described["normalizer"] = _sequence(normalizers, "normalizers")
    described["post_processor"] = _template(markers)
    if markers.masks:
        _read_masks(described, tokenizer)
    spelled = {key: END if number in markers.copies else number for key, number in _NAMES.items()}
    names = {key: SPECIALS[number] for key, number in spelled.items()} | (_CLASSES if encoder else {})
    names |= {"mask_token": MASK} if encoder and tokenizer.mask is not None else {}
    if markers.copies:
        _leave_out(described, markers.copies)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "model_max_length": longest,
        "model_input_names": ["input_ids", *(["token_type_ids"] if markers.segments else []), "attention_mask"],
        "padding_side": "right" if encoder else "left",
        "truncation_side": "left" if data.cut == "start" else "right",
        "clean_up_tokenization_spaces": False,
        # A marker that is written in a text is text, except for masks that are to be filled.
        "split_special_tokens": not markers.masks,
    }
    write_bytes(folder / "tokenizer.json", json.dumps(described, ensure_ascii=False).encode())
    write_json(folder / "tokenizer_config.json", config)
    write_json(folder / "special_tokens_map.json", names)
    if described["model"]["type"] == "WordPiece":
        ids = described["model"]["vocab"]
        pieces = sorted(ids, key=lambda piece: ids[piece])
        write_bytes(folder / "vocab.txt", "".join(f"{piece}\n" for piece in pieces).encode())


def _form(data: Data) -> list[dict[str, Any]]:
    """Return the rules that bring a text into the form that a recipe asks for."""
    composed = [{"type": "NFC"}] if data.nfc else []
    if not data.lowercase:
        return composed
    # The library lowercases letter by letter, Python a sigma at a word's end to another letter.
    sigma = {"type": "Replace", "pattern": {"Regex": r"(?<=\p{L})\u03a3(?!\p{L})"}, "content": "\u03c2"}
    return [*composed, sigma, {"type": "Lowercase"}]


def _breaks(tokenizer: Tokenizer, running: bool) -> list[dict[str, Any]]:
    """Return the rules that make a word of a line break, for tokenizers that read words only."""
    if not running or tokenizer.spells_spaces:
        return []
    between = {"type": "Replace", "pattern": {"Regex": r"\n(?=[^\n ])"}, "content": f" {_SIGN} "}
    return [between, {"type": "Replace", "pattern": {"String": "\n"}, "content": f" {_SIGN}"}]


def _markers_as_text(model: str) -> list[dict[str, Any]]:
    """Return the rule by which a marker in a text is unknown text, where models have markers among their pieces."""
    spelled = "|".join(SPECIALS[:3])
    pattern = {"WordLevel": rf"(?<!\S)({spelled})(?!\S)", "Unigram": spelled}.get(model)
    return [{"type": "Replace", "pattern": {"Regex": pattern}, "content": SPECIALS[3]}] if pattern else []


def _parts(rule: Any, key: str) -> list[dict[str, Any]]:
    if rule is None:
        return []
    parts: list[dict[str, Any]] = rule[key] if rule["type"] == "Sequence" else [rule]
    return parts


def _sequence(rules: Sequence[dict[str, Any]], key: str) -> dict[str, Any] | None:
    if not rules:
        return None
    return rules[0] if len(rules) == 1 else {"type": "Sequence", key: list(rules)}


def _template(markers: Markers) -> dict[str, Any]:
    """Return the rule that puts markers around a text, or around the two of a pair."""
    second = 1 if markers.segments else 0

    def marker(name: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    kept = [number for number in range(len(SPECIALS)) if number not in markers.copies]
    first_marker = _END if BEGIN in markers.copies else _BEGIN
    begin = [marker(first_marker, 0)] * markers.begins
    first = [*begin, {"Sequence": {"id": "A", "type_id": 0}}, *[marker(_END, 0)] * markers.ends]
    pair = [*first, {"Sequence": {"id": "B", "type_id": second}}, *[marker(_END, second)] * markers.ends]
    used = {name: kept.index(SPECIALS.index(name)) for name in (first_marker, _END)}
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": pair,
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in used.items()},
    }


def _leave_out(described: dict[str, Any], copies: Sequence[int]) -> None:
    """Leave markers out of a vocabulary; all other pieces move up."""
    vocabulary = described["model"]["vocab"]
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    kept = [piece for piece in pieces if vocabulary[piece] not in copies]
    described["model"]["vocab"] = ids = {piece: number for number, piece in enumerate(kept)}
    described["model"]["unk_token"] = None
    tokens = [token for token in described["added_tokens"] if token["content"] in ids]
    described["added_tokens"] = [token | {"id": ids[token["content"]]} for token in tokens]


def _read_masks(described: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Let masks be read in texts: a piece that has the space before it in it is masked with that space."""
    for token in described["added_tokens"]:
        if token["content"] == MASK and (tokenizer.spells_spaces or described["model"]["type"] == "Unigram"):
            token["lstrip"] = described["decoder"]["type"] != "Fuse"
    part = described["pre_tokenizer"] or {"type": ""}
    if part["type"] == "Metaspace" and part.get("prepend_scheme") == "always":
        part["prepend_scheme"] = "first"  # no space is added to text after a mask

"""One line for every folder that is not what it says: those that Heedful wrote, Pegasus, M2M-100, NLLB and mBART."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.shared.refusals import like
from tests.unit.interop.pairs.theirs import write_m2m_100, write_mbart, write_nllb, write_pegasus
from tests.unit.interop.pairs.translators import write_translator

from heedful.base.errors import UserError
from heedful.interop.exports.exporting import export_model
from heedful.interop.importing import import_model

Change = Callable[[Path], None]


def _own(folder: Path, **options: Any) -> None:
    write_translator(folder.parent / "heedful" / "m", **options)
    export_model(folder.parent / "heedful" / "m", "transformers", folder)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "own": _own,
    "separate": lambda folder: _own(folder, tokenizer={"kind": "bpe", "size": 200, "joint": False}),
    "pegasus": write_pegasus,
    "nllb": write_nllb,
    "m2m": write_m2m_100,
    "mbart": write_mbart,
}


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a kind that can be imported."""
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("sound") / kind
            WRITERS[kind](made[kind])
        return made[kind]

    return folder


def said(name: str = "config.json", **values: Any) -> Change:
    """Set values of a JSON file; a table gets the values of the table that it was."""

    def change(folder: Path) -> None:
        path = folder / name
        old = json.loads(path.read_text())
        new = {key: old[key] | value if isinstance(value, dict) else value for key, value in values.items()}
        path.write_text(json.dumps({key: value for key, value in (old | new).items() if value != "absent"}))

    return change


def weights(**tensors: torch.Tensor | None) -> Change:
    """Replace tensors; None takes one away."""

    def change(folder: Path) -> None:
        named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
        new = load_file(folder / "model.safetensors") | named
        kept = {name: tensor for name, tensor in new.items() if tensor is not None}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def without(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def tokenizer(change: Callable[[dict[str, Any]], Any]) -> Change:
    """Change the content of tokenizer.json."""

    def changed(folder: Path) -> None:
        content = json.loads((folder / "tokenizer.json").read_text())
        change(content)
        (folder / "tokenizer.json").write_text(json.dumps(content))

    return changed


def text(name: str, content: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).write_text(content)

    return change


SHORT = torch.zeros(3)
_END = {"SpecialToken": {"id": "</s>", "type_id": 0}}
_WORDS = {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}
ROWS: list[tuple[str, str, Change, str]] = [
    # What any folder must have.
    ("own", "a matrix", weights(model__encoder__layers__1__fc1__weight=None),
     "{}/model.safetensors lacks `model.encoder.layers.1.fc1.weight`, which {}/config.json requires: copy ..."),
    ("own", "another shape", weights(model__decoder__layers__0__fc1__bias=SHORT),
     "{}/model.safetensors: `model.decoder.layers.0.fc1.bias` has shape (3,), but {}/config.json requires (24,)."),
    ("own", "a tensor too many", weights(model__encoder__layers__2__fc1__bias=SHORT),
     "{}/model.safetensors has `model.encoder.layers.2.fc1.bias`, which does not belong to the model ..."),
    ("own", "not finite", weights(final_logits_bias=torch.full((1, 300), float("nan"))),
     "{}/model.safetensors: `final_logits_bias` has values that are not finite: ..."),
    ("pegasus", "no final norm", weights(model__encoder__layer_norm__weight=None),
     "{}/model.safetensors lacks `model.encoder.layer_norm.weight`, which {}/config.json requires: copy the ..."),
    ("nllb", "a layer too many", said(decoder_layers=2),
     "{}/model.safetensors has `model.decoder.layers.2.encoder_attn.k_proj.bias`, which does not belong to the ..."),
    ("mbart", "positions of another number", said(max_position_embeddings=64),
     "{}/model.safetensors: `model.encoder.embed_positions.weight` has shape (130, 16), but {}/config.json requires "
     "(66, 16)."),
    ("pegasus", "an enormous model", said(d_model=100_000),
     "{}/config.json describes a model of at least ... parameters, but its weights have ..."),
    # Folders that Heedful wrote.
    ("own", "a bias that was not there", weights(final_logits_bias=torch.ones(1, 300)),
     "{}: `final_logits_bias` is not zero, but `heedful.output_bias` says that there is none."),
    ("own", "another marker", said(decoder_start_token_id=0),
     "{}/config.json: `decoder_start_token_id` is 0, but must be 1: Heedful wrote this model with it."),
    ("own", "another vocabulary", said(vocab_size=301),
     "{}/config.json: `vocab_size` is 301, but must be 300: the tokenizer of this folder has that many pieces."),
    ("own", "positions that none has", said(heedful={"positions": "learned"}),
     "{}/config.json: `heedful.positions` is \"learned\", but must be one of sinusoidal, sinusoidal_halves."),
    ("own", "a kind that none has", said(heedful={"source": "letters"}),
     "{}/config.json: `heedful.source` is \"letters\", but must be one of byte_bpe, bpe, wordpiece, unigram, ..."),
    ("own", "no table", said(heedful="yes"), "{}/config.json: `heedful` is \"yes\", but must be a table."),
    ("own", "no tokenizer", without("tokenizer.json"),
     "{} has no tokenizer.json, which a marian model needs: copy it there."),
    ("separate", "no target tokenizer", without("target/tokenizer.json"),
     "{} has no target/tokenizer.json, which a marian model needs: copy it there."),
    ("own", "a tokenizer without markers", tokenizer(lambda content: content.pop("added_tokens")),
     "{}/tokenizer.json is not a tokenizer that Heedful wrote (KeyError('added_tokens')): export the model again."),
    ("own", "markers of other ids", tokenizer(lambda content: content["model"]["vocab"].pop("<s>")),
     "{}/tokenizer.json: ..."),
    # Pegasus.
    ("pegasus", "separate matrices", said(tie_word_embeddings=False),
     "{}/config.json: `tie_word_embeddings` is false, but must be true: Heedful does not support other Pegasus ..."),
    ("pegasus", "post-norm", said(normalize_before=False),
     "{}/config.json: `normalize_before` is false, but must be true: Heedful does not support other Pegasus models."),
    ("pegasus", "no end", said(eos_token_id="absent"),
     "{}/config.json: `eos_token_id` is missing, but must be one whole number from 0 to ..."),
    ("pegasus", "another end", said(eos_token_id=3),
     "{}/tokenizer.json: `post_processor` must put `eos_token_id` after a text, and nothing else: copy it again."),
    ("pegasus", "no text", tokenizer(lambda content: content["post_processor"].update(single=[_END])),
     "{}/tokenizer.json: `post_processor` changes the text itself, which Heedful does not support."),
    ("pegasus", "words", tokenizer(lambda content: content.update(model=_WORDS)),
     "{}/tokenizer.json: `model` is WordLevel, but must be Unigram or BPE."),
    ("pegasus", "bytes", tokenizer(lambda content: content["model"].update(byte_fallback=True)),
     "{}/tokenizer.json: `model` is Unigram that spells unknown characters by their bytes, but must be Unigram or "
     "BPE."),
    ("pegasus", "no words", tokenizer(lambda content: content.update(pre_tokenizer=None)),
     "{}/tokenizer.json: `pre_tokenizer` is missing, but must be Metaspace, as SentencePiece writes spaces."),
    ("pegasus", "another decoder", tokenizer(lambda content: content.update(decoder={"type": "Fuse"})),
     "{}/tokenizer.json: `decoder` is Fuse, but must be ..."),
    ("pegasus", "a word", tokenizer(lambda content: content["added_tokens"][2].update(special=False)),
     "{}/tokenizer.json adds `<mask_1>` to the vocabulary, which is looked for in texts, but Heedful supports only "
     "pieces of SentencePiece, and markers."),
    ("pegasus", "nothing unknown", tokenizer(lambda content: content["model"].update(unk_id=None)),
     "{}/tokenizer.json has no piece for what is unknown, which a SentencePiece vocabulary has."),
    ("pegasus", "fewer pieces", said(vocab_size=5_000),
     "{}/tokenizer.json has ... pieces, but `vocab_size` of {}/config.json is 5,000: copy both again."),
    ("pegasus", "damaged", text("tokenizer.json", "{"), "{}/tokenizer.json is not a tokenizer (...): copy it again."),
    ("pegasus", "no tokenizer", without("tokenizer.json"),
     "{} has no tokenizer.json, which a pegasus model needs: copy it there."),
    # Models of many languages.
    ("nllb", "an unknown source", said("tokenizer_config.json", src_lang="deu"),
     '{}/tokenizer_config.json: `src_lang` is "deu", but must be one of the model\'s languages: deu_Latn, eng_Latn, '
     "fra_Latn."),
    ("nllb", "the language at the end", said("tokenizer_config.json", legacy_behaviour=True),
     "{}/tokenizer_config.json: `legacy_behaviour` is true, but must be false: Heedful reads models only that have "
     "the language before a text."),
    ("mbart", "the language at the end", said("tokenizer_config.json", tokenizer_class="MBartTokenizer"),
     "{}/tokenizer_config.json: `tokenizer_class` is MBartTokenizer, which writes the language after a text, but "
     "Heedful reads models only that have it before, as MBart50Tokenizer writes it."),
    ("mbart", "another start", said(decoder_start_token_id=151),
     "{}/config.json: `decoder_start_token_id` is 151, but must be 2: Heedful reads models only that start with "
     "`</s>`."),
    ("mbart", "separate matrices", said(tie_word_embeddings=False),
     "{}/config.json: `tie_word_embeddings` is false, but must be true: Heedful does not support other mBART models."),
    ("m2m", "other languages", said("tokenizer_config.json", language_codes="wmt21"),
     '{}/tokenizer_config.json: `language_codes` is "wmt21", but must be "m2m100": Heedful knows the languages of no '
     "other models."),
    ("m2m", "gaps", said("vocab.json", zzz=9_000),
     "{}/vocab.json: its pieces do not have the numbers from 0 to 151: copy it again."),
    ("m2m", "no end", lambda folder: _rename(folder / "vocab.json", "</s>"),
     "{}/vocab.json lacks the piece `</s>`: it is not a vocabulary of M2M-100."),
    ("m2m", "other things", text("vocab.json", "[]"),
     "{}/vocab.json must map pieces to numbers, but ..."),
    ("m2m", "no model of pieces", without("sentencepiece.bpe.model"),
     "{} has no sentencepiece.bpe.model, which a m2m_100 model needs: copy it there."),
    ("m2m", "fewer pieces", said(vocab_size=1_000),
     "{}/vocab.json has 251 pieces, but `vocab_size` of {}/config.json is 1,000: copy both again."),
]  # fmt: skip


def _rename(path: Path, piece: str) -> None:
    ids = json.loads(path.read_text())
    path.write_text(json.dumps({"other" if name == piece else name: number for name, number in ids.items()}))


@pytest.mark.parametrize(("kind", "what", "change", "message"), ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_a_damaged_folder_is_refused(
    kind: str, what: str, change: Change, message: str, sound: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(sound(kind), tmp_path / "theirs")
    change(folder)
    with pytest.raises(UserError) as caught:
        import_model(folder, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert str(caught.value) == like(message.replace("{}", str(folder)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_sound_folder_is_accepted(kind: str, sound: Callable[[str], Path], tmp_path: Path) -> None:
    import_model(sound(kind), tmp_path / "out")

"""Writes a folder that `ctranslate2.Translator` or `ctranslate2.Generator` opens, with tokenizers and a program."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import tokenizers
from torch import nn

from heedful.base.files import write_bytes, write_json
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer, tag_of
from heedful.interop.ctranslate2.binary import write_arrays
from heedful.interop.ctranslate2.network import arrays_of, epsilon_of, longest_of
from heedful.models.bundle import CARD, SHORTLIST, Bundle
from heedful.models.networks import EncoderDecoder
from heedful.tasks.translate.lexicon import Lexicon, read_lexicon

NEVER: Final = [[SPECIALS[PAD]], [SPECIALS[BEGIN]]]  # what no search of ours outputs; of `<unk>` there is an option
_KINDS: Final = {True: ("TransformerSpec", 7), False: ("TransformerDecoderSpec", 8)}  # of translators, or not


def write(bundle: Bundle[nn.Module], folder: Path, precision: str) -> None:
    """Write a model that `refusals` accepts."""
    learned = bundle.folder is not None and (bundle.folder / SHORTLIST).exists()
    lexicon = read_lexicon(bundle.folder, bundle.vocabularies) if learned else None
    pieces = {name: pieces_of(tokenizer) for name, tokenizer in bundle.vocabularies.tokenizers.items()}
    write_network(bundle.model, folder, precision, pieces, lexicon)
    for name, tokenizer in bundle.vocabularies.files().items():
        write_bytes(folder / name, tokenizer.to_json())
    write_bytes(folder / CARD, _card(bundle, precision).encode())


def write_network(
    network: nn.Module,
    folder: Path,
    precision: str,
    pieces: Mapping[str, Sequence[str]],
    lexicon: Lexicon | None = None,
) -> None:
    """Write a network with the pieces of its vocabularies: "source" and "target" of a translator, or "text".

    A lexicon becomes the vocabulary map, which CTranslate2 uses where it is asked to.
    """
    translates = isinstance(network, EncoderDecoder)
    folder.mkdir(parents=True, exist_ok=True)
    write_arrays(folder / "model.bin", *_KINDS[translates], arrays_of(network), precision)
    config: dict[str, Any] = {
        "unk_token": SPECIALS[UNKNOWN],
        "bos_token": SPECIALS[BEGIN],
        "eos_token": SPECIALS[END],
        "layer_norm_epsilon": epsilon_of(network),
    }
    if not translates:
        write_json(folder / "vocabulary.json", list(pieces["text"]))
    else:
        config |= {"decoder_start_token": SPECIALS[BEGIN], "add_source_bos": False, "add_source_eos": True}
        sides = {f"{side}_vocabulary": list(pieces[side]) for side in ("source", "target")}
        if sides["source_vocabulary"] == sides["target_vocabulary"]:
            sides = {"shared_vocabulary": sides["source_vocabulary"]}
        for name, side in sides.items():
            write_json(folder / f"{name}.json", side)
    write_json(folder / "config.json", config)
    if lexicon is not None:
        write_bytes(folder / "vmap.txt", "".join(_map_of(lexicon, pieces["source"], pieces["target"])).encode())


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces of a vocabulary, as its file has them."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json().decode())
    return [str(inner.id_to_token(number)) for number in range(tokenizer.size)]


def _map_of(lexicon: Lexicon, source: Sequence[str], target: Sequence[str]) -> list[str]:
    """Return the lines of a vocabulary map: a source piece and its target pieces; without one, those of every text."""
    known = [(piece, lexicon.of(number)) for number, piece in enumerate(source[: len(lexicon.ends)])]
    rows = [("", lexicon.frequent), *((piece, tokens) for piece, tokens in known if len(tokens))]
    return [f"{piece}\t{' '.join(target[token] for token in tokens)}\n" for piece, tokens in rows]


# --- the card ---------------------------------------------------------------------------------------------------------

_TRANSLATOR: Final = """\
import ctranslate2
import tokenizers

{tokenizers}
source.encode_special_tokens = True
pieces = source.encode("{text}", add_special_tokens=False).tokens
translator = ctranslate2.Translator("{folder}", device="cpu")
texts, never = [{tag}pieces], {never}
begin = {{"target_prefix": {prefix}, "beam_size": {beam}}}
found = translator.translate_batch(texts, disable_unk=True, suppress_sequences=never, **begin)
print(target.decode([target.token_to_id(piece) for piece in found[0].hypotheses[0]]))
"""
_GENERATOR: Final = """\
import ctranslate2
import tokenizers

text = tokenizers.Tokenizer.from_file("{folder}/tokenizer.json")
text.encode_special_tokens = True
pieces = text.encode("{text}", add_special_tokens=False).tokens
generator = ctranslate2.Generator("{folder}", device="cpu")
prompts, never = [["{begin}", *pieces]], {never}
found = generator.generate_batch(prompts, max_length=50, sampling_topk=20, disable_unk=True, suppress_sequences=never)
print(text.decode(found[0].sequences_ids[0]))
"""


def _card(bundle: Bundle[nn.Module], precision: str, folder: str = ".") -> str:
    """Return a card with a program that uses the model: run in the folder, it needs CTranslate2 and tokenizers only."""
    recipe, vocabularies = bundle.recipe, bundle.vocabularies
    text = "a text" if recipe.data.lowercase else "A text"
    if isinstance(bundle.model, EncoderDecoder):
        names = ("source", "target")
        files = {
            name: file
            for file, tokenizer in vocabularies.files().items()
            for name in names
            if vocabularies[name] is tokenizer
        }
        opened = "\n".join(f'{name} = tokenizers.Tokenizer.from_file("{folder}/{files[name]}")' for name in names)
        tags = list(vocabularies["source"].tags)
        prefix = f'[["{tag_of(tags[0])}"]]' if tags and getattr(recipe.data, "target_tags", False) else "None"
        values = {
            "tokenizers": opened,
            "prefix": prefix,
            "beam": recipe.decode.beam,
            "tag": f'["{tag_of(tags[0])}", *pieces]' if tags else "pieces",
        }
        program = _TRANSLATOR.replace("{tag}pieces", "{tag}").format(folder=folder, text=text, never=NEVER, **values)
    else:
        program = _GENERATOR.format(folder=folder, text=text, never=NEVER, begin=SPECIALS[BEGIN])
    form = [
        what
        for what, done in (
            ("in Unicode's form NFC", recipe.data.nfc),
            ("in lower case", recipe.data.lowercase),
            ("split into words by Moses' rules", recipe.data.tokenized is not None),
        )
        if done
    ]
    wants = f"\nIt reads texts {' and '.join(form)}: bring yours into that form first.\n" if form else ""
    return f"""# A model for CTranslate2

Weights are in {precision}. A text has at most {longest_of(bundle.model):,} pieces.
{wants}
Run in this folder, after `pip install ctranslate2 tokenizers`:

```python
{program}```
"""

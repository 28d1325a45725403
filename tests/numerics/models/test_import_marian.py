"""An imported Marian model computes what `transformers` computes from the same folder, and finds the same translations.

Models of random weights repeat themselves without end; so in the searches that are compared no piece stands twice.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.searching import search_texts
from tests.unit.interop.marian_folders import separate, some_texts, write_marian
from torch import Tensor
from transformers import MarianTokenizer

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.hypothesis import Wu
from heedful.decode.settings import SearchSettings
from heedful.interop.importing import import_model
from heedful.models.networks import set_precision
from heedful.tasks.translate.model import Translator

VARIANTS: dict[str, dict[str, Any]] = {
    "one matrix": {},
    "separate vocabularies": {"shared": False},
    "no matrix shared": {"shared": False, "tied": False},
    "unscaled": {"scale_embedding": False, "activation_function": "gelu"},
}
MAX_EXTRA = 60


class Pair:
    """Both models, and Marian's id for each of ours."""

    def __init__(self, folder: Path, out: Path, **options: Any) -> None:
        self.folder = folder
        self.theirs = write_marian(folder, **options)
        if not options.get("shared", True):
            separate(folder)
        import_model(folder, out)
        self.ours: Translator = Translator.load(out, device="cpu")
        self.ours.network.eval()
        self.source_ids, self.target_ids = (self._ids(folder, side) for side in ("source", "target"))

    def _ids(self, folder: Path, side: str) -> dict[int, int]:
        """By the names of pieces: which of Marian's ids each of ours is."""
        own = folder / "target_vocab.json"
        file = own if side == "target" and own.exists() else folder / "vocab.json"
        marian = json.loads(file.read_text())
        tokenizer = self.ours.vocabularies[side]
        names = {number: "".join(tokenizer.pieces([number])).replace("\ufdd0", "") for number in range(tokenizer.size)}
        names[BEGIN] = "<pad>"
        return {number: marian[name] for number, name in names.items() if name in marian}

    def sentences(self, count: int, ids: dict[int, int], longest: int) -> list[list[int]]:
        """Random pieces of text, in our ids."""
        words = [number for number in ids if number > END + 1]
        generator = torch.Generator().manual_seed(count)
        lengths = torch.randint(1, longest, (count,), generator=generator).tolist()
        return [
            [words[place] for place in torch.randint(len(words), (length,), generator=generator)] for length in lengths
        ]


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("marian")
    return Pair(folder / "theirs", folder / "ours", **VARIANTS[request.param])


def test_states_and_scores_equal_those_of_transformers(pair: Pair) -> None:
    sources = [[*sentence, END] for sentence in pair.sentences(9, pair.source_ids, 12)]
    targets = [[BEGIN, *sentence] for sentence in pair.sentences(9, pair.target_ids, 10)]
    kept = [number for number in pair.target_ids if number > BEGIN]
    assert len(kept) == pair.theirs.final_logits_bias.shape[1] - 1  # all but `<pad>`
    with torch.inference_mode():
        memory = pair.ours.network.encoder(Packed.of(sources))
        scores = pair.ours.network(Packed.of(sources), Packed.of(targets))
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            answer = pair.theirs(
                input_ids=torch.tensor([[pair.source_ids[token] for token in source]]),
                decoder_input_ids=torch.tensor([[pair.target_ids[token] for token in target]]),
            )
            assert_close(memory.split()[number], answer.encoder_last_hidden_state[0])
            ours = scores.split([len(target) for target in targets])[number]
            assert_close(ours[:, kept], answer.logits[0][:, [pair.target_ids[token] for token in kept]])


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_those_of_generate(pair: Pair, beam: int) -> None:
    sources = pair.sentences(7, pair.source_ids, 10)
    settings = SearchSettings(beam=beam, max_extra=MAX_EXTRA, no_repeat=1, penalty=Wu(0.0))
    with in_double_precision(pair):  # hypotheses that float32 cannot tell apart are found otherwise by each
        found = [best for best, *_ in search_texts(pair.ours.network, sources, settings, 4096)]
        assert sum(best.complete for best in found) >= 4
        assert len({best.tokens for best in found}) >= 3
        for source, best in zip(sources, found, strict=True):
            if best.complete:
                assert [pair.target_ids[token] for token in (*best.tokens, END)] == generated(pair, source, beam)


def test_text_becomes_the_text_that_transformers_makes_of_it(pair: Pair) -> None:
    tokenizer = MarianTokenizer.from_pretrained(pair.folder)
    texts = [text for text in some_texts(6) if text.strip()]
    ours = pair.ours.translate(texts, beam=1, no_repeat=1, max_extra=MAX_EXTRA)
    for text, translation in zip(texts, ours, strict=True):
        (tokens,) = pair.theirs.generate(
            **tokenizer([text], return_tensors="pt"), num_beams=1, max_new_tokens=MAX_EXTRA + 40, no_repeat_ngram_size=1
        )
        assert translation == tokenizer.decode(tokens, skip_special_tokens=True)


@contextmanager
def in_double_precision(pair: Pair) -> Iterator[None]:
    for dtype in (torch.float64, torch.float32):
        pair.theirs.to(dtype)
        pair.ours.network.to(dtype)
        set_precision(pair.ours.network, dtype)
        if dtype == torch.float64:
            yield


def generated(pair: Pair, source: Sequence[int], beam: int) -> list[int]:
    """What `generate` writes behind the start, of the same greatest length."""
    end, pad = pair.theirs.config.eos_token_id, pair.theirs.config.pad_token_id
    (tokens,) = pair.theirs.generate(
        input_ids=torch.tensor([[*(pair.source_ids[token] for token in source), end]]),
        num_beams=beam,
        do_sample=False,
        max_new_tokens=len(source) + MAX_EXTRA,
        length_penalty=0.0,
        no_repeat_ngram_size=1,
        bad_words_ids=[[pad]],
    ).tolist()
    return tokens[1 : tokens.index(end) + 1]


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

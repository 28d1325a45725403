"""Imported M2M-100, NLLB and mBART-50 models compute what `transformers` computes, and write the same texts.

Models of random weights repeat themselves without end; so in the searches that are compared no piece stands twice.
"""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from tests.unit.interop.marian_folders import some_texts
from tests.unit.interop.pairs.theirs import write_m2m_100, write_mbart, write_nllb
from torch import Tensor
from transformers import AutoTokenizer, LogitsProcessor, LogitsProcessorList

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN
from heedful.interop.importing import import_model
from heedful.tasks.translate.model import Translator

MAX_EXTRA = 40
START = 2  # `</s>`, with which targets start there
KINDS: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[str, ...], Callable[[str], str]]] = {
    "NLLB": (write_nllb, {}, ("deu_Latn", "fra_Latn", "eng_Latn"), lambda code: code),
    "NLLB, unscaled": (write_nllb, {"scale_embedding": False}, ("fra_Latn",), lambda code: code),
    "M2M-100": (write_m2m_100, {}, ("de", "zu", "af"), lambda code: f"__{code}__"),
    "mBART-50": (write_mbart, {}, ("en_XX", "fr_XX"), lambda code: code),
}


class Pair(NamedTuple):
    theirs: Any
    tokenizer: Any
    ours: Translator
    rows: dict[int, int]  # theirs, for those of our ids that they have
    languages: dict[str, int]  # rows of some target languages
    source: int  # the row of the source language


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    write, changed, languages, marker = KINDS[request.param]
    folder = tmp_path_factory.mktemp("multilingual")
    theirs = write(folder / "theirs", **changed)
    tokenizer = AutoTokenizer.from_pretrained(folder / "theirs")
    import_model(folder / "theirs", folder / "ours")
    ours: Translator = Translator.load(folder / "ours", device="cpu")
    vocabulary = ours.vocabularies["source"]
    unknown = tokenizer.unk_token_id
    rows = {PAD: 1, BEGIN: START, END: 2, UNKNOWN: unknown}
    rows |= {number: tokenizer.convert_tokens_to_ids(marker(code)) for code, number in vocabulary.tags.items()}
    for number in range(vocabulary.markers, vocabulary.size):
        name = (vocabulary._inner.id_to_token(number) or "").replace("\ufdd0", "")
        row = re.fullmatch(r"\[row-(\d+)\]", name)
        rows[number] = int(row[1]) if row else tokenizer.convert_tokens_to_ids(name)
    found = {code: rows[vocabulary.tags[code]] for code in languages}
    (first, *_) = tokenizer("a").input_ids
    return Pair(theirs, tokenizer, ours, rows, found, first)


def test_no_row_is_lost(pair: Pair) -> None:
    assert set(pair.rows.values()) == set(range(pair.theirs.config.vocab_size))
    assert len(pair.rows) == pair.theirs.config.vocab_size + 1  # the start is a copy of `</s>`
    assert pair.rows[SPECIALS.index("<s>")] == START


def test_texts_have_the_same_pieces_after_their_language(pair: Pair) -> None:
    for text in some_texts(30):
        if text.strip():
            ours = pair.ours.vocabularies["source"].encode(text)
            assert [pair.source, *(pair.rows[token] for token in ours), 2] == pair.tokenizer(text).input_ids, text


def test_scores_equal_those_of_transformers(pair: Pair) -> None:
    vocabulary = pair.ours.vocabularies["source"]
    for number, (code, row) in enumerate(pair.languages.items()):
        generator = torch.Generator().manual_seed(number)
        drawn = torch.randint(vocabulary.markers, vocabulary.size, (2, 5 + number), generator=generator)
        source, target = drawn[0].tolist(), drawn[1].tolist()
        tag = vocabulary.tag(code)
        with torch.inference_mode():
            scores = pair.ours.network(Packed.of([[tag, *source, END]]), Packed.of([[BEGIN, tag, *target]]))
            answer = pair.theirs(
                input_ids=torch.tensor([[pair.source, *(pair.rows[token] for token in source), 2]]),
                decoder_input_ids=torch.tensor([[START, row, *(pair.rows[token] for token in target)]]),
            ).logits[0]
        kept = [token for token in pair.rows if token != BEGIN]
        torch.testing.assert_close(
            scores[:, kept], answer[:, [pair.rows[token] for token in kept]], atol=1e-5, rtol=1e-5
        )
        torch.testing.assert_close(scores.logsumexp(1), answer.logsumexp(1), atol=1e-5, rtol=1e-5)


class OnlyOnce(LogitsProcessor):  # type: ignore[misc]
    """No piece stands twice; their own rule for that forbids `</s>` too, with which targets start."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        ends = scores[:, START].clone()
        scores = scores.scatter(1, input_ids, -math.inf)
        scores[:, START] = ends
        return scores


def test_texts_become_the_translations_that_transformers_makes_of_them(pair: Pair) -> None:
    texts = [text for text in some_texts(6) if text.strip()]
    tags = [row for token, row in pair.rows.items() if token in pair.ours.vocabularies["source"].tags.values()]
    distinct = set()
    for code, row in pair.languages.items():
        found = pair.ours.translate_detailed(texts, to=code, beam=1, no_repeat=1, max_extra=MAX_EXTRA)
        for text, (best, *_) in zip(texts, found, strict=True):
            inputs = pair.tokenizer([text], return_tensors="pt")
            (tokens,) = pair.theirs.generate(
                **inputs,
                forced_bos_token_id=row,
                num_beams=1,
                do_sample=False,
                max_length=None,
                max_new_tokens=inputs["input_ids"].shape[1] - 1 + MAX_EXTRA,
                logits_processor=LogitsProcessorList([OnlyOnce()]),
                suppress_tokens=[1, pair.rows[UNKNOWN], *(tag for tag in tags if tag != row)],
                eos_token_id=2,
            ).tolist()
            expected = tokens[1:]
            assert [pair.rows[token] for token in best.tokens] + [2] * best.complete == expected
            distinct.add(best.tokens)
    assert len(distinct) > len(pair.languages)

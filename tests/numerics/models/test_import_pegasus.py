"""An imported Pegasus model computes what `transformers` computes from the same folder, and writes the same texts.

Models of random weights repeat themselves without end; so in the searches that are compared no piece stands twice.
"""

import re
from typing import Any, NamedTuple

import pytest
import torch
from tests.unit.interop.marian_folders import some_texts
from tests.unit.interop.pairs.theirs import write_pegasus
from transformers import AutoTokenizer, PegasusForConditionalGeneration

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.interop.importing import import_model
from heedful.interop.transformers.model_folder import open_folder
from heedful.interop.transformers.pairs.pegasus import read_pegasus
from heedful.tasks.translate.model import Translator

MAX_EXTRA = 40
VARIANTS: dict[str, dict[str, Any]] = {
    "as published": {},
    "unscaled": {"scale_embedding": False, "activation_function": "gelu"},
    "rows without pieces": {"vocab_size": 170},
}


class Pair(NamedTuple):
    theirs: PegasusForConditionalGeneration
    tokenizer: Any
    ours: Translator
    rows: tuple[int, ...]  # theirs, for each of our ids


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("pegasus")
    theirs = write_pegasus(folder / "theirs", **VARIANTS[request.param])
    import_model(folder / "theirs", folder / "ours")
    size = theirs.config.vocab_size
    others = [row for row in range(size) if row not in (0, 1, 7)]
    assert read_pegasus(open_folder(folder / "theirs")).vocabularies["source"].size == size + 1
    tokenizer = AutoTokenizer.from_pretrained(folder / "theirs")
    ours: Translator = Translator.load(folder / "ours", device="cpu")
    return Pair(theirs, tokenizer, ours, (0, 0, 1, 7, *others))


def test_texts_have_the_same_pieces(pair: Pair) -> None:
    for text in some_texts(30):
        ours = pair.ours.vocabularies["source"].encode(text)
        assert [*(pair.rows[token] for token in ours), 1] == pair.tokenizer(text).input_ids, text


def test_states_and_scores_equal_those_of_transformers(pair: Pair) -> None:
    for number in range(6):
        generator = torch.Generator().manual_seed(number)
        drawn = torch.randint(4, len(pair.rows), (2, 3 + number), generator=generator)
        source, target = [*drawn[0].tolist(), END], [BEGIN, *drawn[1].tolist()]
        with torch.inference_mode():
            scores = pair.ours.network(Packed.of([source]), Packed.of([target]))
            answer = pair.theirs(
                input_ids=torch.tensor([[pair.rows[token] for token in source]]),
                decoder_input_ids=torch.tensor([[pair.rows[token] for token in target]]),
            ).logits[0]
        kept = [token for token in range(len(pair.rows)) if token != BEGIN]
        torch.testing.assert_close(
            scores[:, kept], answer[:, [pair.rows[token] for token in kept]], atol=1e-5, rtol=1e-5
        )
        # The copy of `<pad>` is never predicted, so that all probabilities are those of Pegasus.
        torch.testing.assert_close(scores.logsumexp(1), answer.logsumexp(1), atol=1e-5, rtol=1e-5)


def test_texts_become_the_texts_that_transformers_makes_of_them(pair: Pair) -> None:
    texts = [text for text in some_texts(8) if text.strip()]
    found = pair.ours.translate(texts, beam=1, no_repeat=1, max_extra=MAX_EXTRA)
    assert len(set(found)) >= 3
    for text, translation in zip(texts, found, strict=True):
        inputs = pair.tokenizer([text], return_tensors="pt")
        (tokens,) = pair.theirs.generate(
            **inputs,
            num_beams=1,
            do_sample=False,
            max_length=None,
            max_new_tokens=inputs["input_ids"].shape[1] - 1 + MAX_EXTRA,
            no_repeat_ngram_size=1,
            suppress_tokens=[0, 7],
            length_penalty=1.0,
        )
        expected = pair.tokenizer.decode(tokens[1:], skip_special_tokens=False).removesuffix("</s>")
        assert re.sub(r"\[row-\d+\]", "", translation) == expected  # theirs leaves out rows without pieces

"""Imported encoders of all types compute with every head what `transformers` computes, from texts on."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.interop.bert.bert_folders import varied_texts
from tests.unit.interop.bert.encoder_folders import LABELS, write_encoder
from tokenizers import Tokenizer as Library
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.interop.importing import import_model
from heedful.interop.transformers.encoders.kinds import BERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from heedful.interop.transformers.encoders.vocabulary import read_vocabulary
from heedful.interop.transformers.model_folder import open_folder
from heedful.models.bundle import Bundle, read_bundle
from heedful.models.networks import MaskedModel, WordClassifier

KINDS = {"Bert": BERT, "Roberta": ROBERTA, "XLMRoberta": XLM_ROBERTA, "DistilBert": DISTILBERT}
HEADS = {
    "MaskedLM": "bert",
    "SequenceClassification": "classifier",
    "TokenClassification": "tagger",
    "QuestionAnswering": "reader",
}
CASES = [
    (name, head)
    for name in KINDS
    for head in HEADS
    if (name, head) not in (("Roberta", "QuestionAnswering"), ("XLMRoberta", "QuestionAnswering"))
]


@pytest.mark.parametrize(("name", "head"), CASES, ids=[f"{name}For{head}" for name, head in CASES])
def test_scores_of_texts_equal_those_of_transformers(name: str, head: str, tmp_path: Path) -> None:
    theirs = write_encoder(tmp_path / "theirs", name, head)
    rows = torch.tensor(read_vocabulary(open_folder(tmp_path / "theirs"), KINDS[name]).rows)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    bundle = read_bundle(tmp_path / "ours", nn.Module)
    assert bundle.recipe.model.family == HEADS[head]
    if head in ("SequenceClassification", "TokenClassification"):
        assert bundle.vocabularies.labels == LABELS
    tokenizer = Library.from_file(str(tmp_path / "theirs/tokenizer.json"))
    compared = 0
    for text in varied_texts(40):
        tokens = [BEGIN, *bundle.vocabularies["text"].encode(text), END]
        given = torch.tensor([tokenizer.encode(text).ids])
        if len(tokens) > 60 or any(marker in text for marker in ("<s>", "</s>", "<unk>", "<pad>")):
            continue  # theirs reads markers in texts
        assert rows[tokens].tolist() == given[0].tolist(), text
        with torch.inference_mode():
            answer = theirs(input_ids=given)
            torch.testing.assert_close(scores_of(bundle, tokens, rows), wanted(answer), atol=1e-5, rtol=1e-5)
        compared += 1
    assert compared > 10


def scores_of(bundle: Bundle[nn.Module], tokens: list[int], rows: Tensor) -> Tensor:
    """Our scores; those of pieces in the order of theirs."""
    network, read = bundle.model, Packed.of([tokens])
    if isinstance(network, MaskedModel):
        scores: Tensor = network.head(network(read).values)
        return scores[:, rows.argsort()]
    if isinstance(network, WordClassifier):
        return network.output(network.encoder(read).values)
    found: Tensor = network(read)
    return found if bundle.recipe.model.family == "reader" else found[0]


def wanted(answer: Any) -> Tensor:
    if "start_logits" in answer:
        return torch.stack([answer.start_logits[0], answer.end_logits[0]], dim=1)
    scores: Tensor = answer.logits[0]
    return scores


@pytest.mark.parametrize("name", list(KINDS))
def test_numbers_equal_those_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = write_encoder(tmp_path / "theirs", name, "SequenceClassification", id2label={0: "LABEL_0"})
    rows = torch.tensor(read_vocabulary(open_folder(tmp_path / "theirs"), KINDS[name]).rows)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    bundle = read_bundle(tmp_path / "ours", nn.Module)
    assert bundle.recipe.model.family == "regressor"
    tokens = [BEGIN, *bundle.vocabularies["text"].encode("the old dog"), END]
    with torch.inference_mode():
        found = bundle.model(Packed.of([tokens]))
        torch.testing.assert_close(found, theirs(input_ids=rows[tokens][None]).logits, atol=1e-5, rtol=1e-5)

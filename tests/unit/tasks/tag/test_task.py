"""The task of taggers: what it minimises, the shapes of its batches, what it starts from, and what it refuses."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.models.text import BERT, fresh_masked_model, masked_recipe, written
from tests.shared.taggers import LABELS, fresh_tagger, tagged_sentences, tagger_recipe, write_conll

from heedful.base.errors import UserError
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.doctor.corpora.data import check_data
from heedful.runs.training_run import train
from heedful.tasks.shared.loaded_model import Placement
from heedful.tasks.tag.label_scores import LabelScores
from heedful.tasks.tag.objective import LabelSequences, WordLabels
from heedful.tasks.tag.task import TagTask

TASK = TagTask()


def refused(folder: Path, model: Mapping[str, Any] | None = None, **sections: Any) -> str:
    with pytest.raises(UserError) as error:
        tagger_recipe(folder, model or {}, **sections)
    (line,) = str(error.value).splitlines()
    return line.removeprefix("test recipe: ")


def test_a_crf_has_an_objective_of_its_own(tmp_path: Path) -> None:
    empty = Prepared(fresh_tagger(tagger_recipe(tmp_path)).vocabularies, (), (), ())
    plain = TASK.objective(tagger_recipe(tmp_path, train={"label_smoothing": 0.1}), empty)
    assert isinstance(plain, WordLabels)
    assert plain.smoothing == 0.1
    assert type(TASK.objective(tagger_recipe(tmp_path, {"crf": True}), empty)) is LabelSequences


def test_smoothing_does_not_apply_to_a_crf(tmp_path: Path) -> None:
    assert "`train.label_smoothing` does not apply to a tagger with `model.crf = true`: leave it out" in refused(
        tmp_path, {"crf": True}, train={"label_smoothing": 0.1}
    )


def test_recipes_that_do_not_fit_a_tagger_are_refused(tmp_path: Path) -> None:
    pairs = {"train": {"tsv": "t", "text": 1, "second": 2, "label": 3}}
    assert "`second` makes pairs of texts, which a tagger does not read: leave it out" in refused(tmp_path, data=pairs)
    unlabelled = {"train": {"tsv": "t", "text": 1}}
    assert "a tagger learns from words with labels: give `conll`, or `text` and `label`" in refused(
        tmp_path, data=unlabelled
    )
    assert "`data.cut` does not apply to a tagger: leave it out" in refused(tmp_path, data={"cut": "start"})
    assert '`train.validation.metric` is "bleu", which does not apply to a tagger' in refused(
        tmp_path, train={"validation": {"metric": "bleu"}}
    )
    nested = {"encoder": {"family": "hierarchical"}}
    assert "hierarchical" in refused(tmp_path, nested)


def test_batches_have_one_shape_where_attention_needs_no_padding(tmp_path: Path) -> None:
    shape = TASK.static_shape(tagger_recipe(tmp_path), torch.bfloat16)
    assert shape is None or shape.bound == 24
    recurrent = tagger_recipe(tmp_path, {"encoder": {"family": "recurrent", "width": 8}})
    assert TASK.static_shape(recurrent, torch.bfloat16) is None


def test_an_epoch_counts_its_tokens_with_their_markers(tmp_path: Path) -> None:
    store = TokenStore.of(text=[[5, 6], [7]], words=[[1, 1], [1]], label=[[0, 1], [2]], part=[[0], [0]])
    prepared = Prepared(fresh_tagger(tagger_recipe(tmp_path)).vocabularies, (store,), (2.0,), ())
    assert TASK.epoch_tokens(tagger_recipe(tmp_path), prepared) == 2 * (4 + 3)
    assert TASK.feed(tagger_recipe(tmp_path), prepared).collator.most_words == 2  # type: ignore[attr-defined]


def test_labels_without_spans_have_the_mean_f1_of_labels() -> None:
    scored = LabelScores.of(("DT", "NN"), [[0, 1, 1]], [[0, 1, 0]])
    assert scored.spans is None
    assert scored.words.accuracy == pytest.approx(2 / 3)
    assert scored.f1 == pytest.approx((2 / 3 + 2 / 3) / 2)
    spans = LabelScores.of(LABELS, [[0, 1, 2, 0]], [[0, 1, 2, 2]])
    assert spans.f1 == pytest.approx(2 / 3)


# --- from files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for name in ("train", "valid", "test"):
        write_conll(tmp_path / f"{name}.conll", tagged_sentences(60))
    return tmp_path


def test_a_tagger_starts_from_the_encoder_of_a_masked_model(home: Path) -> None:
    start = fresh_masked_model(masked_recipe(home))
    written(start, home / "bert")
    recipe = tagger_recipe(home, train={"start_from": str(home / "bert"), "steps": 1, "freeze": "encoder"})
    recipe = recipe.model_copy(update={"model": recipe.model.model_validate({"family": "tagger", "crf": True})})
    made = train(recipe, home / "run", console=Console(file=StringIO()))
    model = TASK.load(made, Placement.of("cpu", "float32"))
    assert model.recipe.model.encoder.width == BERT["width"]
    assert model.network.chain is not None
    theirs = dict(start.model.encoder.named_parameters())
    assert all(torch.equal(weight, theirs[name]) for name, weight in model.network.encoder.named_parameters())


def test_labels_that_the_rules_forbid_are_found_with_their_lines(home: Path) -> None:
    (home / "valid.conll").write_text("the\tB-NP\ndog\tI-NP\n\na\tO\ncat\tI-NP\n")
    (found,) = [each for each in check_data(tagger_recipe(home), print).findings if each.kind == "forbidden_labels"]
    assert found.what == "sentences whose labels BIO forbids: 1 of 2; the first: I-NP follows O, which BIO forbids"
    assert (found.severity, found.part, found.lines, found.count) == ("warning", "valid", (5,), 1)
    assert found.example == "a/O cat/I-NP"


def test_labels_that_training_does_not_have_are_found(home: Path) -> None:
    (home / "test.conll").write_text("the\tB-NP\ndog\tB-VP\n")
    found = {each.kind: each for each in check_data(tagger_recipe(home), print).findings if each.part == "test"}
    assert found["unknown_classes"].what == "labels that no training word has: `B-VP`"
    assert not {"forbidden_labels", "rare_classes"} & found.keys()

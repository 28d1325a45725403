from pathlib import Path
from typing import Any

import pytest

from heedful.config.data import Data
from heedful.config.tokenizer import SideName
from heedful.data.prepare import pairs as sampling
from heedful.data.prepare.pairs import SIDES, sample_pairs


def numbered(folder: Path, name: str, count: int) -> dict[str, Any]:
    for side in ("in", "out"):
        (folder / f"{name}.{side}").write_text("".join(f"{name}{number} {side}\n" for number in range(count)))
    return {"source": f"{name}.in", "target": f"{name}.out"}


def data(folder: Path, *train: dict[str, Any], **more: Any) -> Data:
    return Data.model_validate({"folder": str(folder), "train": list(train), **more})


@pytest.mark.parametrize(("most", "texts"), [(20, 20), (21, 20), (7, 6), (1, 2), (1000, 60)])
def test_a_sample_has_as_many_texts_as_asked_in_whole_pairs(most: int, texts: int, tmp_path: Path) -> None:
    sample = list(sample_pairs(data(tmp_path, numbered(tmp_path, "a", 30)), SIDES, most))
    assert len(sample) == texts
    assert [text.split()[0] for text in sample[::2]] == [text.split()[0] for text in sample[1::2]]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sample_of_one_side(side: SideName, tmp_path: Path) -> None:
    sample = list(sample_pairs(data(tmp_path, numbered(tmp_path, "a", 30)), (side,), 10))
    assert sample == [f"a{number} {'in' if side == 'source' else 'out'}" for number in range(2, 30, 3)]


def test_a_sample_takes_the_same_share_of_every_corpus_whatever_its_weight(tmp_path: Path) -> None:
    corpora = [numbered(tmp_path, "a", 100), numbered(tmp_path, "b", 300) | {"weight": 9.0}]
    sample = list(sample_pairs(data(tmp_path, *corpora), ("source",), 40))
    assert (sum(text[0] == "a" for text in sample), sum(text[0] == "b" for text in sample)) == (10, 30)


def test_texts_come_in_the_form_of_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("A B\tC\n")
    assert list(sample_pairs(data(tmp_path, {"tsv": "a.tsv"}, lowercase=True), SIDES, 2)) == ["a b", "c"]


def test_corpora_that_say_their_size_are_not_read_to_count_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora = [numbered(tmp_path, "a", 30) | {"lines": "11-20"}, {"builtin": "english-spanish", "count": 5}]
    given = data(tmp_path, *corpora)
    with monkeypatch.context() as patch:
        patch.setattr(sampling, "read_pairs", None)
        sample = sample_pairs(given, ("source",), 1000)
    assert sample.count == len(list(sample)) == 15

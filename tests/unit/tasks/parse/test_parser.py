"""Parsers: trees over exactly the words of a sentence, whatever the weights; scores, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from tests.models.text import written
from tests.shared.parsers import recipe, untrained, write_trees
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import UserError
from heedful.base.trees import Tree, read_tree
from heedful.config.corpora.containers import Trees
from heedful.config.decode import Sampling
from heedful.data.corpora.trees import read_trees, tree_pair
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder
from heedful.runs.training_run import train
from heedful.tasks.loading import find_task, load
from heedful.tasks.parse.model import Parser
from heedful.tasks.translate.model import Translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trees")
    write_trees(path)
    return path


@pytest.fixture(scope="module")
def bundle(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle[EncoderDecoder]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(tmp_path_factory.mktemp("cache")))
        return untrained(folder)


@pytest.fixture(scope="module")
def parser(bundle: Bundle[EncoderDecoder]) -> Parser:
    return Parser(bundle)


@pytest.mark.parametrize("beam", [1, 4, 21])
def test_random_weights_find_trees_over_exactly_the_words(parser: Parser, beam: int) -> None:
    texts = ["", "w1", "w1 w2 unheard-of ( ) )S (NP", " ".join(["w3"] * 60), "  "]
    found = parser.parse(texts, beam=beam, max_extra=100)
    assert found[0] is found[-1] is None
    for text, tree in zip(texts[1:-1], found[1:-1], strict=True):
        assert isinstance(tree, Tree)
        assert list(tree.words) == text.split()
        assert {leaf.tag for leaf in tree.leaves} == {"XX"}


def test_one_sentence_and_n_best_lists_are_parsed(parser: Parser) -> None:
    tree = parser.parse("w1 w2 w3")
    assert tree is not None
    ((first, second, *_),) = parser.stream_detailed(["w1 w2 w3"], nbest=3, beam=3)
    assert first.score >= second.score
    assert first.log_probability <= 0


def test_without_the_constraint_a_sequence_need_not_be_a_tree(parser: Parser) -> None:
    ((best,),) = parser.stream_detailed(["w1 w2 w3 w4 w5"], unconstrained=True, beam=1)
    assert best.tree is None


@pytest.mark.parametrize("leaves", ["tag", "word"])
def test_words_can_be_written_as_tags_or_as_themselves(
    folder: Path, leaves: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))
    corpora = {part: {"trees": f"{part}.trees", "leaves": leaves} for part in ("train", "valid")}
    parser = Parser(untrained(folder, data={**corpora, "folder": str(folder)}))
    tree = parser.parse("w1 unheard-of w3")
    assert tree is not None
    assert tree.words == ("w1", "unheard-of", "w3")
    assert ({leaf.tag for leaf in tree.leaves} == {"XX"}) == (leaves == "word")


def test_round_brackets_are_read_and_written_as_treebanks_have_them(parser: Parser) -> None:
    plain, escaped = parser.parse(["w1 ( w2 )", "w1 -LRB- w2 -RRB-"])
    assert plain is not None
    assert plain.words == ("w1", "(", "w2", ")")
    assert str(plain) == str(escaped)
    assert read_tree(str(plain), "here").words == ("w1", "-LRB-", "w2", "-RRB-")


def test_sampled_trees_are_trees(parser: Parser) -> None:
    ((first, second, third),) = parser.stream_detailed(["w1 w2 w3 w4"], sampling=Sampling(samples=3, seed=1))
    assert all(each.tree is not None and each.tree.words == ("w1", "w2", "w3", "w4") for each in (first, second, third))
    assert len({str(each.tree) for each in (first, second, third)}) > 1


def test_parsers_decode_together(bundle: Bundle[EncoderDecoder], parser: Parser) -> None:
    pair = Parser(bundle, bundle)
    assert "ensemble of 2" in repr(pair)
    assert pair.parse("w1 w2 w3", beam=2) == parser.parse("w1 w2 w3", beam=2)


def test_data_in_memory_is_scored(parser: Parser) -> None:
    text = "(ROOT (S (NP-SBJ (DT w1) (NN w2)) (VP (VB w3))))"
    as_text = parser.evaluate([text], metrics={"count": lambda found, true: float(len(found))})
    as_pair = parser.evaluate([("w1 w2 w3", text), ("", "")])
    as_tree = heedful.evaluate(parser, [read_tree(text, "here")])
    assert as_text.predicted == as_pair.predicted == as_tree.predicted  # type: ignore[attr-defined]
    assert as_text.to_json()["metrics"] == {"count": 1}


def test_labels_are_those_of_the_training_trees(parser: Parser) -> None:
    assert {"ROOT", "NP", "VP", "ADVP"} <= set(parser.labels)
    assert not any("-" in label or "=" in label for label in parser.labels), "functions are removed"


def test_a_tree_is_read_as_its_words_and_brackets(tmp_path: Path) -> None:
    lines = ["(ROOT (NP-SBJ (DT a) (-NONE- *) (NN dog)))", "", "(ROOT (NP (-NONE- *)))", "(ROOT (NN cat))"]
    (tmp_path / "some.trees").write_text("\n".join(lines))
    corpus = Trees(trees="some.trees")
    first, blank, traces, last = read_trees(corpus, str(tmp_path))
    assert first is not None
    assert tree_pair(first, "symbol") == ("a dog", "(ROOT (NP w w )NP )ROOT")
    assert tree_pair(first, "tag") == ("a dog", "(ROOT (NP DT NN )NP )ROOT")
    assert tree_pair(first, "word") == ("a dog", "(ROOT (NP a dog )NP )ROOT")
    assert blank is traces is None
    assert str(last) == "(ROOT (NN cat))"
    assert len(list(read_trees(corpus.model_copy(update={"lines": "2-3"}), str(tmp_path)))) == 2


def test_a_file_without_trees_is_refused_by_its_name(tmp_path: Path) -> None:
    write_trees(tmp_path, 4)
    (tmp_path / "train.trees").write_text("\n\n")
    with refuses("train.trees has no tree to train on."):
        untrained(tmp_path)


def test_trees_are_scored_against_the_true_ones(parser: Parser) -> None:
    true = [read_tree("(ROOT (S (NP (DT w1) (NN w2)) (VP (VB w3))))", "here"), None]
    found = parser.evaluate_rows(true)
    assert len(found.true) == len(found.predicted) == 1
    names = ["f1", "precision", "recall", "f1_short", "exact_match", "well_formed"]
    assert [score.name for score in found.scores()] == names
    assert found.to_json()["unparsed"] == 0
    line, blank = found.outputs()
    assert blank == ""
    assert read_tree(line, "here") == found.predicted[0]
    loose = parser.evaluate_rows(true, unconstrained=True)
    assert (found.well_formed, loose.well_formed) == (1.0, 0.0)
    assert list(loose.outputs()) == ["", ""]
    with refuses("nothing.trees has no tree to compare with."):
        parser.evaluate_rows([None], name="nothing.trees")


def test_validation_has_the_f1_of_greedy_parses_if_it_is_asked_for(bundle: Bundle[EncoderDecoder]) -> None:
    task = find_task(bundle.recipe)
    prepared = task.prepare(bundle.recipe, None, lambda message: None)
    scores = task.validator(bundle, prepared)()
    assert next(iter(scores)) == "f1"
    assert 0 <= scores["f1"] <= 1
    by_loss = bundle.recipe.train.validation.model_copy(update={"metric": "loss"})
    plain = bundle.recipe.model_copy(update={"train": bundle.recipe.train.model_copy(update={"validation": by_loss})})
    assert set(task.validator(Bundle(plain, bundle.vocabularies, bundle.model), prepared)()) == {
        "loss",
        "perplexity",
    }


def test_a_parser_is_trained_loaded_and_says_what_it_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    train(recipe(folder), tmp_path / "run")
    loaded = load(tmp_path / "run", device="cpu")
    assert isinstance(loaded, Parser)
    assert repr(loaded).startswith("<Parser: task parse, family transformer, ")
    assert Parser.load(tmp_path / "run", device="cpu").parse("w1") is not None


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_sentence_that_is_too_long_is_refused(parser: Parser) -> None:
    with refuses("texts, line 2 has 4 tokens, but at most 3 are parsed: split the line, or raise `max_source`."):
        parser.parse(["w1", "w1 w2 w3 w4"], max_source=3)


def test_a_tree_that_does_not_fit_is_refused(parser: Parser) -> None:
    with refuses("Sentence 1 has 4 words, but its tree may have 5 tokens only, and needs at..."):
        parser.parse(["w1 w2 w3 w4"], max_extra=1)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"tokenizer": {"target": {"kind": "bpe"}}},
            '`tokenizer.target` must be `{ kind = "word" }`: the targets of a parser are whole brackets',
        ),
        ({"data": {"tokenized": {"source": "en", "target": "en"}}}, "`data.tokenized` applies"),
        ({"decode": {"no_repeat": 3}}, "`decode.no_repeat` would forbid trees: leave it out"),
        (
            {"decode": {"max_extra": 2}},
            "`decode.max_extra` is 2, but must be at least 3: a tree has two brackets and `</s>` besides its words",
        ),
        ({"decode": {"mbr": 3}}, "`decode.mbr` compares texts, and a parser writes trees: leave it out"),
        (
            {"data": {"train": {"trees": "train.trees", "to": "de"}}},
            "`to` is the target",
        ),
        (
            {"data": {"train": {"trees": "train.trees", "leaves": "tag"}}},
            '`leaves` must be the same in all training and validation corpora, but is "symbol" in `data.valid` and '
            '"tag" in the first of `data.train`',
        ),
        ({"data": {"lowercase": True}}, "`data.lowercase` would change the labels of trees: leave it out"),
        (
            {"data": {"train": {"source": "a", "target": "b"}}},
            'a parser learns from trees: give `trees`, a file such as "train.trees"',
        ),
    ],
)
def test_recipes_that_no_parser_can_follow_are_refused(
    folder: Path, tables: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        recipe(folder, **tables)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("w1 w2", "(S (NN w1))"), "data, row 1: the tree has 1 word, but the sentence has 2: a tree is over exactly "),
        (("w1 w2", "(S (NN w1) (NN w3))"), "data, row 1: word 2 of the tree is `w3`, but that of the sentence is `w2`"),
        (("w1 w2", ""), "data, row 1: the sentence has no tree: leave it out."),
        ("(S (NN w1)", "data, row 1: 1 bracket not closed:"),
        (7, "data, row 1 is 7, but must be a tree: a bracketed text, a `heedful.Tree`, or a sentence and its "),
    ],
)
def test_what_is_not_a_tree_of_its_sentence_is_refused(parser: Parser, row: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parser.evaluate([row])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_options_that_would_forbid_trees_are_refused(parser: Parser) -> None:
    for name in ("no_repeat", "min_length"):
        with refuses(f"`{name}` would forbid trees: leave it out."):
            parser.parse("w1", **{name: 3})  # type: ignore[call-overload]
    with refuses("`mbr` compares texts, and a..."):
        parser.parse("w1", mbr=3)
    with refuses("`raw` is not an option. Known: beam, ...", TypeError):
        parser.parse("w1", raw=True)  # type: ignore[call-overload]


def test_trees_in_memory_are_not_trained_on(folder: Path, tmp_path: Path) -> None:
    with refuses(
        "`train` is given in memory, but a parser learns from files: write one bracketed tree per line, and name the "
        "file by `trees` in the recipe."
    ):
        heedful.train(recipe(folder), tmp_path / "run", train=["(S (NN a))"])


def test_a_parser_is_not_a_translator(bundle: Bundle[EncoderDecoder], tmp_path: Path) -> None:
    folder = written(bundle, tmp_path / "parser")
    with refuses("...parser is a model that parses: load it with ..."):
        Translator.load(folder, device="cpu")

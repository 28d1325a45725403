"""The [tokenizer] table: a target side may have a kind of its own, and then the vocabularies are separate."""

from pathlib import Path

import pytest
from tests.shared.refusals import like

from heedful.base.errors import UserError
from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_json, recipe_to_toml
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import ByteBpe, Characters, Words, WordsSide, side_of

DATA = '[data]\ntrain = { source = "a.en", target = "a.de" }\n'
UNTIED = '[model]\nfamily = "transformer"\ntie = "decoder"\n'
TEXTS = '[data]\ntrain = { text = "a.txt" }\n[model]\nfamily = "bert"\n'


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(tokenizer: str, rest: str = DATA + UNTIED, *overrides: str) -> Recipe:
    Path("my.toml").write_text(f"{rest}[tokenizer]\n{tokenizer}\n")
    return load_recipe("my.toml", overrides)


def complaint(tokenizer: str, rest: str = DATA + UNTIED) -> str:
    with pytest.raises(UserError) as caught:
        load(tokenizer, rest)
    return str(caught.value)


def test_a_target_of_its_own_makes_the_vocabularies_separate() -> None:
    tokenizer = load('kind = "char"\ntarget = { kind = "word", size = 500 }').tokenizer
    assert tokenizer == Characters(kind="char", joint=False, target=WordsSide(kind="word", size=500))
    assert not tokenizer.joint
    assert side_of(tokenizer, "source") is tokenizer
    assert side_of(tokenizer, "target") == WordsSide(kind="word", size=500)


def test_without_one_both_sides_are_the_table_itself() -> None:
    for tokenizer in (Words(kind="word"), ByteBpe(joint=False)):
        assert side_of(tokenizer, "source") is side_of(tokenizer, "target") is tokenizer


def test_a_resolved_recipe_comes_back_with_its_target(tmp_path: Path) -> None:
    recipe = load('kind = "char"\ntarget = { kind = "word", min_count = 2 }')
    (tmp_path / "resolved.toml").write_text(recipe_to_toml(recipe))
    assert "[tokenizer.target]\nkind = " in recipe_to_toml(recipe)
    assert load_recipe(str(tmp_path / "resolved.toml")) == recipe
    assert recipe_from_json(recipe_to_json(recipe), "x") == recipe


def test_an_override_gives_the_target_a_kind() -> None:
    tokenizer = load('kind = "char"', DATA + UNTIED, "tokenizer.target.size=50", "tokenizer.target.kind=word").tokenizer
    assert tokenizer.target == WordsSide(kind="word", size=50)


@pytest.mark.parametrize(
    ("tokenizer", "line"),
    [
        (
            'joint = true\ntarget = { kind = "word" }',
            "in `tokenizer`, `joint` must be false where `target` is a separate vocabulary: leave it out.",
        ),
        (
            'target = { kind = "word", joint = false }',
            "`tokenizer.target.joint` is not a key of the kind word. Did you mean `tokenizer.joint`?",
        ),
        (
            'target = { kind = "word", target = { kind = "char" } }',
            "`tokenizer.target.target` is not a key of the kind word.",
        ),
        ("target = { size = 500 }", "`tokenizer.target` is a table, but must be a table with `kind`."),
        (
            'target = { kind = "char", min_count = 2 }',
            "`tokenizer.target.min_count` is not a key of the kind char, but of the kind word.",
        ),
        (
            'target = { kind = "sentence" }',
            '`tokenizer.target.kind` is "sentence", but must be one of: byte_bpe, bpe, wordpiece, unigram, word, char.',
        ),
    ],
)
def test_what_a_target_cannot_be_is_refused_in_one_line(tokenizer: str, line: str) -> None:
    said = complaint(tokenizer)
    assert said.startswith(f"my.toml: {line}")
    assert "\n" not in said


def test_two_kinds_have_no_embedding_in_common() -> None:
    assert load('target = { kind = "word" }', DATA).pair_model.tie == "decoder"
    assert complaint('target = { kind = "word" }', DATA + '[model]\ntie = "all"\n') == like(
        'my.toml: `model.tie` must be ... `tokenizer.target` is a separate vocabulary, but is "all".'
    )


def test_a_model_that_reads_texts_has_no_target() -> None:
    assert complaint('target = { kind = "word" }', TEXTS) == (
        "my.toml: `tokenizer.target` applies to translators only, as texts have one vocabulary: leave it out."
    )


# --- words that are never split ---------------------------------------------------------------------------------------


def test_a_word_or_a_list_of_words_is_kept() -> None:
    assert load('kind = "word"\nkeep = "<bt>"').tokenizer.keep == ("<bt>",)
    recipe = load('kind = "char"\nkeep = ["<bt>", "A/B"]\ntarget = { kind = "word", keep = ["__NUM__"] }')
    assert recipe.tokenizer.keep == ("<bt>", "A/B")
    assert side_of(recipe.tokenizer, "target").keep == ("__NUM__",)
    assert recipe_from_json(recipe_to_json(recipe), "x") == recipe


@pytest.mark.parametrize(
    ("tokenizer", "line"),
    [
        (
            'keep = ["two words"]',
            "in `tokenizer.keep`, 'two words' cannot be a word that is never split: use up to 64 printable characters "
            "of ASCII, without a space.",
        ),
        ('keep = ["größe"]', "in `tokenizer.keep`, 'größe' cannot be a word that is never split: use up to 64 ..."),
        (
            'keep = ["<2de>"]',
            "in `tokenizer.keep`, '<2de>' cannot be a word that is never split, as it is a marker of vocabularies: "
            "choose another.",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_line(tokenizer: str, line: str) -> None:
    assert complaint(tokenizer) == like(f"my.toml: {line}")


def test_a_kept_word_that_lowercasing_changes_is_refused() -> None:
    lowercase = DATA.replace("[data]", "[data]\nlowercase = true") + UNTIED
    assert complaint('keep = ["<BT>"]', lowercase) == (
        "my.toml: `tokenizer.keep` has '<BT>', which `data.lowercase` makes '<bt>': keep that."
    )
    assert load('keep = ["<bt>"]', lowercase).tokenizer.keep == ("<bt>",)

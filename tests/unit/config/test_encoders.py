"""The [model] table of what reads one sequence: what stands in it, and what is refused."""

from pathlib import Path
from typing import get_args

import pytest
from tests.shared.refusals import like

from heedful.base.errors import UserError
from heedful.config.model.attention import AttentionPoolTable, PoolName
from heedful.config.model.encoder_only import BERT_PRESETS, BertModel
from heedful.config.model.encoders import (
    HierarchicalEncoderTable,
    RecurrentEncoderTable,
    TransformerEncoderTable,
)
from heedful.config.model.pooled import ClassifierModel
from heedful.config.model.transformer import TRANSFORMER_PRESETS
from heedful.config.reading.describing.commented import commented_toml
from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_json, recipe_to_toml
from heedful.config.recipe import Recipe
from heedful.nn.layers.pooling import POOLS

LABELLED = '[data]\ntrain = { tsv = "a.tsv", text = 2, label = 1 }\n'
RUNNING = '[data]\ntrain = { text = "a.txt" }\n'


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(model: str, *overrides: str, data: str = LABELLED) -> Recipe:
    Path("my.toml").write_text(f"{data}[model]\n{model}", encoding="utf-8")
    return load_recipe("my.toml", overrides)


def classifier(encoder: str = "", more: str = "") -> ClassifierModel:
    table = f"encoder = {{ {encoder} }}\n" if encoder else ""
    model = load(f'family = "classifier"\n{table}{more}').model
    assert isinstance(model, ClassifierModel)
    return model


def bert(more: str = "") -> BertModel:
    model = load(f'family = "bert"\n{more}', data=RUNNING).model
    assert isinstance(model, BertModel)
    return model


def complaints(model: str, data: str = LABELLED) -> list[str]:
    with pytest.raises(UserError) as caught:
        load(model, data=data)
    return str(caught.value).splitlines()


# --- what stands in them ----------------------------------------------------------------------------------------------


def test_recipes_name_every_pool() -> None:
    assert sorted(get_args(PoolName)) == sorted(POOLS)


@pytest.mark.parametrize(
    ("encoder", "usual", "kind"),
    [
        ("", "first", TransformerEncoderTable),
        ("width = 16", "first", TransformerEncoderTable),
        ('family = "recurrent"', "max", RecurrentEncoderTable),
        ('family = "hierarchical"', "attention", HierarchicalEncoderTable),
        ('family = "bert"', "first", BertModel),
    ],
)
def test_every_encoder_has_its_usual_pool_and_takes_any_other(encoder: str, usual: str, kind: type) -> None:
    model = classifier(encoder)
    assert isinstance(model.encoder, kind)
    assert model.pooled_by == usual
    assert model.nested == (kind is HierarchicalEncoderTable)
    for pool in get_args(PoolName):
        assert classifier(encoder, f'pool = "{pool}"').pooled_by == pool


def test_a_pool_is_a_name_or_a_table_of_attention_and_is_written_as_it_was_read() -> None:
    table = 'pool = { alignment = "deep", distribution = "entmax" }'
    model = classifier('family = "hierarchical", word_pool = { alignment = "area", area = 2 }', table)
    assert model.pooled_by == AttentionPoolTable(alignment="deep", distribution="entmax")
    assert isinstance(model.encoder, HierarchicalEncoderTable)
    assert model.encoder.word_pool == AttentionPoolTable(alignment="area", area=2)
    recipe = load(f'family = "classifier"\n{table}')
    Path("again.toml").write_text(recipe_to_toml(recipe))
    assert load_recipe("again.toml") == recipe == recipe_from_json(recipe_to_json(recipe), "again.json")
    Path("shown.toml").write_text(commented_toml(recipe))
    assert load_recipe("shown.toml") == recipe


@pytest.mark.parametrize(
    ("pool", "line"),
    [
        ("3", '`model.pool` is 3, but must be "first", "mean", "max", "last", "attention", "multi_dimensional" or a '
         "table."),
        ('{ alignment = "location" }', 'in `model.pool`, `alignment = "location"` scores positions whatever their '
         "tokens are, and a pool has one query for all texts: choose another alignment."),
        ('{ alignment = "kernel", distribution = "entmax" }', 'in `model.pool`, `alignment = "kernel"` '
         '... `distribution` must be "softmax", but is "entmax"; use ...'),
        ('{ distribution = "de_attention", choice = "hard" }', 'in `model.pool`, `choice = "hard"` '
         '... `distribution = "de_attention"` do not: ...'),
        ('{ distribution = "entmx" }', '`model.pool.distribution` is "entmx", but must be "softmax", "sigmoid", '
         '"normalised_sigmoid", "sparsemax", "entmax15", "entmax", "learned_entmax" or "de_attention".'),
        ('{ algnment = "deep" }', "`model.pool.algnment` is not a key. Did you mean `alignment`?"),
        ("{ alpha = 0.5 }", "`model.pool.alpha` is 0.5, but must be a number above 1 and of at most 4."),
    ],
)  # fmt: skip
def test_pools_that_cannot_be(pool: str, line: str) -> None:
    assert complaints(f'family = "classifier"\npool = {pool}') == [like(f"my.toml: {line}")]


@pytest.mark.parametrize(
    ("encoder", "embedding", "memory", "width"),
    [
        ("width = 16", 16, 16, 16),
        ('family = "bert", width = 24, heads = 4', 24, 24, 24),
        ('family = "recurrent", width = 10', 10, 20, 10),
        ('family = "recurrent", width = 10, bidirectional = false, embedding = 7', 7, 10, 10),
        ('family = "hierarchical"', 200, 100, 50),  # as Yang et al. 2016 have it
        ('family = "hierarchical", words = { width = 8 }, sentences = { width = 5 }', 8, 10, 5),
        ('family = "hierarchical", words = { family = "transformer", width = 8, heads = 2 }', 8, 100, 50),
    ],
)
def test_widths_are_those_of_the_encoder(encoder: str, embedding: int, memory: int, width: int) -> None:
    model = classifier(encoder)
    assert (model.encoder.embedding_width, model.encoder.memory_width) == (embedding, memory)
    assert (model.width, model.encoder.width) == (width, width)


def test_the_words_of_documents_are_read_by_a_recurrent_network_unless_the_recipe_says_another() -> None:
    encoder = classifier('family = "hierarchical", words = { cell = "lstm" }, sentences = { layers = 2 }').encoder
    assert isinstance(encoder, HierarchicalEncoderTable)
    assert encoder.words == RecurrentEncoderTable(cell="lstm")
    assert encoder.sentences == RecurrentEncoderTable(layers=2)


def test_a_preset_fills_what_the_recipe_leaves_out() -> None:
    for name, values in BERT_PRESETS.items():
        model = bert(f'preset = "{name}"\nlayers = 5').model_dump()
        assert {key: model[key] for key in values} == {**values, "layers": 5}
    for name, values in TRANSFORMER_PRESETS.items():
        table = classifier(f'preset = "{name}", heads = 2').encoder.model_dump()
        assert {key: table[key] for key in values} == {**values, "heads": 2}


def test_bert_has_the_settings_of_its_paper() -> None:
    """Devlin et al. 2019, 3 and A.2, and their program's `modeling.py`."""
    model = bert()
    assert (model.width, model.heads, model.layers, model.inner) == (768, 12, 12, 3072)
    assert (model.activation, model.norm, model.norm_epsilon) == ("gelu", "post", 1e-12)
    assert (model.positions, model.max_positions, model.segments) == ("learned", 512, 2)
    assert (model.dropout, model.dropout_attention) == (0.1, 0.1)
    assert (model.embedding_scale, model.embedding_norm, model.next_sentence) == (False, True, True)


@pytest.mark.parametrize(
    ("encoder", "longest"),
    [
        ("", None),
        ('positions = "learned", max_positions = 300', (300, "encoder.max_positions")),
        ('family = "recurrent"', None),
        ('family = "hierarchical"', None),
        (
            'family = "hierarchical", words = { family = "transformer", positions = "learned", max_positions = 101 }',
            (101, "encoder.words.max_positions"),
        ),
        ('family = "bert"', (512, "encoder.max_positions")),
    ],
)
def test_the_end_of_a_text_has_the_path_of_its_key(encoder: str, longest: tuple[int, str] | None) -> None:
    assert classifier(encoder).longest == longest


def test_what_a_model_does_follows_from_its_family() -> None:
    assert load('family = "classifier"').rules.name == "classify"
    assert load('family = "bert"', data=RUNNING).rules.name == "fill"


def test_labels_are_smoothed_by_default_in_translation_alone() -> None:
    pairs = '[data]\ntrain = { source = "a", target = "b" }\n'
    assert load("", data=pairs).label_smoothing == 0.1
    assert load('family = "classifier"').label_smoothing == 0.0
    assert load('family = "bert"', data=RUNNING).label_smoothing == 0.0
    assert load('family = "classifier"', "train.label_smoothing=0.2").label_smoothing == 0.2


@pytest.mark.parametrize(
    "model",
    [
        'family = "classifier"',
        'family = "classifier"\nlabels = "several"\npooler = true\nencoder = { family = "bert", preset = "tiny" }',
        'family = "classifier"\nencoder = { family = "recurrent", embedding = 7 }',
        'family = "classifier"\nencoder = { family = "hierarchical" }',
        'family = "classifier"\n'
        'encoder = { family = "hierarchical", words = { family = "transformer" }, sentences = { width = 4 } }',
        'family = "bert"\npreset = "mini"\nnext_sentence = false\nsegments = 0',
    ],
)
def test_a_resolved_recipe_comes_back_from_json_and_from_toml(model: str) -> None:
    recipe = load(model, data=LABELLED if "classifier" in model else RUNNING)
    assert recipe_from_json(recipe_to_json(recipe), "config.json") == recipe
    Path("shown.toml").write_text(recipe_to_toml(recipe))
    assert load_recipe("shown.toml") == recipe


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "line"),
    [
        (
            'family = "bret"',
            '`model.encoder.family` is "bret", but must be one of: transformer, recurrent, hierarchical, bag, bert, '
            "language.",
        ),
        (
            'cell = "lstm"',
            "`model.encoder.cell` is not a key of the family transformer, but of the family recurrent.",
        ),
        (
            'family = "recurrent", wiring = "luong"',
            "`model.encoder.wiring` is not a key of the family recurrent. Did you mean `model.wiring`?",
        ),
        (
            'family = "bert", preset = "huge"',
            '`model.encoder.preset` is "huge", but must be "tiny", "mini", "small", "base" or "large".',
        ),
        ("width = 10", "in `model.encoder`, `width` must be a multiple of `heads` (8), but is 10."),
        ("segments = -1", "`model.encoder.segments` is -1, but must be a whole number of at least 0."),
        (
            'family = "hierarchical", sentences = { embedding = 7 }',
            "in `model.encoder`, `sentences` reads vectors, not tokens, so `sentences.embedding` does not apply: leave "
            "it out.",
        ),
        (
            'family = "hierarchical", sentences = { dropout_words = 0.2 }',
            "in `model.encoder`, `sentences` reads vectors, ... `sentences.dropout_words` does not apply: "
            "leave it out.",
        ),
        (
            'family = "hierarchical", sentences = { embeddings = 2 }',
            "in `model.encoder`, `sentences` reads vectors, ... `sentences.embeddings` does not apply: leave it out.",
        ),
        (
            'family = "hierarchical", sentences = { family = "transformer" }',
            '`model.encoder.sentences.family` is "transformer", but must be "recurrent".',
        ),
        (
            'family = "hierarchical", words = { family = "transformer", positions = "learned", max_positions = 100 }',
            "in `model.encoder`, `max_sentence` (100) and an end marker must fit into `words.max_positions`, but that "
            "is 100.",
        ),
    ],
)
def test_a_mistake_in_an_encoder_is_one_line(encoder: str, line: str) -> None:
    assert complaints(f'family = "classifier"\nencoder = {{ {encoder} }}') == [like(f"my.toml: {line}")]


@pytest.mark.parametrize("segments", [0, 1])
def test_two_texts_that_bert_cannot_tell_apart_are_refused(segments: int) -> None:
    assert complaints(f'family = "bert"\nsegments = {segments}', RUNNING) == [
        "my.toml: in `model`, `segments` must be 2 where `next_sentence` is true, to tell two texts apart, "
        f"but is {segments}: set `next_sentence = false`, or leave `segments` out."
    ]
    assert bert(f"segments = {segments}\nnext_sentence = false").segments == segments


def test_an_unknown_pool_is_refused_with_all_there_are() -> None:
    assert complaints('family = "classifier"\npool = "frist"') == [
        'my.toml: `model.pool` is "frist", but must be "first", "mean", "max", "last", "attention", '
        '"multi_dimensional" or a table.'
    ]


def test_a_bag_has_no_state_that_knows_the_whole_text() -> None:
    for pool in ("first", "last"):
        message = rf'`pool` is "{pool}", but the state of a token in a bag sees no context beyond its n-grams'
        with pytest.raises(ValueError, match=message):
            ClassifierModel.model_validate({"family": "classifier", "encoder": {"family": "bag"}, "pool": pool})
    assert ClassifierModel.model_validate({"family": "classifier", "encoder": {"family": "bag"}}).pooled_by == "mean"

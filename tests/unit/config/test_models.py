"""The [model] table: which combinations a recipe may name, and what it says of the others."""

from itertools import islice, product
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.shared.covering import one_in
from tests.shared.refusals import like, refuses

from heedful.base.errors import UserError
from heedful.config.model.attention import (
    EQUAL_WIDTHS,
    FIXED_LENGTH,
    NEEDS_DISTANCE,
    SEVERAL_PLACES,
    AlignmentName,
    DistributionName,
)
from heedful.config.model.mixed import MixedModel, PairModel
from heedful.config.model.positions import POSITIONS, PositionsName
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_json, recipe_to_toml
from heedful.config.recipe import Recipe
from heedful.nn.alignments.distributions import DISTRIBUTIONS
from heedful.nn.alignments.table import ALIGNMENTS
from heedful.nn.attention.relative_positions import SCHEMES
from heedful.nn.layers.positions import ADDED

DATA = '[data]\ntrain = { source = "a.en", target = "a.de" }\n'
WORDS = {"alignment": get_args(AlignmentName), "distribution": get_args(DistributionName)}
CHOICES = ("soft", "hard", "gumbel")
BACKENDS = ("auto", "fused", "explicit")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(model: str, data: str = DATA) -> Recipe:
    Path("my.toml").write_text(f"{data}[model]\n{model}", encoding="utf-8")
    return load_recipe("my.toml")


def complaints(model: str, data: str = DATA) -> list[str]:
    with pytest.raises(UserError) as caught:
        load(model, data)
    return str(caught.value).splitlines()


def model_of(**options: Any) -> PairModel:
    adapter: TypeAdapter[PairModel] = TypeAdapter(PairModel)
    return adapter.validate_python(options)


def is_refused(**options: Any) -> bool:
    try:
        model_of(**options)
    except ValidationError:
        return True
    return False


# --- words of the schema, and what stands behind them -----------------------------------------------------------------


def test_recipes_name_every_alignment_and_every_distribution() -> None:
    assert WORDS["alignment"] == tuple(ALIGNMENTS)
    assert WORDS["distribution"] == tuple(DISTRIBUTIONS)


def test_the_schema_knows_what_alignments_and_distributions_demand() -> None:
    assert set(EQUAL_WIDTHS) == {name for name, kind in ALIGNMENTS.items() if kind.equal_widths}
    assert set(FIXED_LENGTH) == {name for name, kind in ALIGNMENTS.items() if kind.fixed_length}
    assert set(SEVERAL_PLACES) == {name for name, kind in ALIGNMENTS.items() if not kind.one_to_one}
    assert set(NEEDS_DISTANCE) == {name for name, kind in DISTRIBUTIONS.items() if kind.needs_distance}


def test_every_kind_of_positions_has_a_row_of_facts_and_one_equation() -> None:
    assert get_args(PositionsName) == tuple(POSITIONS) == (*ADDED, *SCHEMES)
    model = TransformerModel(width=8, heads=2)
    for name, build in SCHEMES.items():  # a scheme that search in slots cannot use adds to scores
        assert build(model).in_slots is not POSITIONS[name].adds_to_scores  # type: ignore[index]


def test_only_what_fused_kernels_compute_is_called_fused() -> None:
    for alignment, distribution, choice in product(*WORDS.values(), CHOICES):
        options = {"alignment": alignment, "distribution": distribution, "choice": choice, "max_places": 9}
        if is_refused(family="transformer", **options):
            continue
        usual = alignment == "scaled_dot" and DISTRIBUTIONS[distribution].fused and choice == "soft"
        assert TransformerModel(**options).fused == usual
        assert not TransformerModel(**options, backend="explicit").fused


# --- which combinations there are -------------------------------------------------------------------------------------


def can_be(alignment: str, distribution: str, choice: str) -> bool:
    """By what the parts of `nn` say of themselves."""
    if alignment == "kernel":
        return distribution == "softmax" and choice == "soft"
    return choice == "soft" or DISTRIBUTIONS[distribution].normalised


@pytest.mark.parametrize("share", one_in(5, range(5)))
def test_a_transformer_takes_every_combination_that_makes_sense_and_no_other(share: int) -> None:
    """A fifth of the combinations at a time: no list of words has a multiple of five, so each has every word."""
    for words in islice(product(*WORDS.values(), CHOICES, POSITIONS, BACKENDS), share, None, 5):
        alignment, distribution, choice, positions, backend = words
        single = alignment != "kernel" and ALIGNMENTS[alignment].one_to_one
        usual = (alignment, distribution, choice) == ("scaled_dot", "softmax", "soft")
        expected = (
            can_be(alignment, distribution, choice)
            and (single or positions not in ("alibi", "relative"))
            and (usual or backend != "fused")
        )
        keys = ("alignment", "distribution", "choice", "positions", "backend")
        options = dict(zip(keys, words, strict=True))
        assert is_refused(family="transformer", max_places=9, **options) != expected, words


def test_a_recurrent_model_takes_every_combination_that_makes_sense_and_no_other() -> None:
    for words in product(("bahdanau", "luong"), *WORDS.values(), CHOICES, ("global", "monotone", "predicted")):
        _, alignment, distribution, choice, window = words
        expected = can_be(alignment, distribution, choice) and (ALIGNMENTS[alignment].one_to_one or window == "global")
        keys = ("wiring", "alignment", "distribution", "choice", "window")
        options = dict(zip(keys, words, strict=True))
        assert is_refused(family="recurrent", max_places=9, **options) != expected, words


@pytest.mark.parametrize("alignment", WORDS["alignment"])
@pytest.mark.parametrize("family", ["transformer", "recurrent"])
def test_only_alignments_of_fixed_length_need_to_know_the_places(family: str, alignment: str) -> None:
    assert is_refused(family=family, alignment=alignment) == ALIGNMENTS[alignment].fixed_length
    assert not is_refused(family=family, alignment=alignment, max_places=9)


@pytest.mark.parametrize("alignment", WORDS["alignment"])
@pytest.mark.parametrize("distribution", ["softmax", "de_attention"])
def test_only_what_compares_states_with_the_memory_needs_equal_widths(alignment: str, distribution: str) -> None:
    if not can_be(alignment, distribution, "soft"):
        return
    demanding = ALIGNMENTS[alignment].equal_widths or DISTRIBUTIONS[distribution].needs_distance
    chosen = f"family = 'recurrent'\nalignment = '{alignment}'\ndistribution = '{distribution}'\nmax_places = 300\n"
    assert isinstance(
        load(chosen + "encoder_width = 256").model, RecurrentModel
    )  # in two directions, as wide as states
    assert isinstance(load(chosen + "bidirectional = false").model, RecurrentModel)
    sides = (f"[model.decoder]\n{chosen}", "[model.encoder]\nfamily = 'transformer'\nwidth = 256\n")
    mixed = "family = 'mixed'\n" + "".join(sides)
    if not demanding:
        load(chosen)
        load(mixed)
        return
    for model in (chosen, mixed):
        with refuses("...compares the decoder's states..."):
            load(model)


@pytest.mark.parametrize("wiring", ["sutskever", "cho"])
def test_a_wiring_without_attention_builds_with_all_else(wiring: str) -> None:
    model = model_of(family="recurrent", wiring=wiring, cell="lstm", layers=2, variational=True, reverse_source=True)
    assert isinstance(model, RecurrentModel)
    assert not model.attends


# --- what is said of the others ---------------------------------------------------------------------------------------

RECURRENT, MIXED = "family = 'recurrent'\n", "family = 'mixed'\n"
KERNEL = '`alignment = "kernel"` approximates a softmax with random features: '
PLACES = (
    '`alignment = "location"` scores a fixed number of positions, but sentences have any length: '
    "set `max_places` to `data.max_length` + 1, or choose another alignment."
)
FUSED = '`backend = "fused"` computes a softmax of scaled dot products over all keys: '
COMPARED = (
    "compares the decoder's states (512 wide) with the memory (1024) directly: "
    'make their widths equal (`encoder_width`, `bidirectional`), or use `alignment = "general"`.'
)
REFUSALS: dict[str, str] = {  # a [model] table, and what is said of it
    "width = 10\nheads = 3": "in `model`, `width` must be a multiple of `heads` (3), but is 10.",
    "key_value_heads = 3": "in `model`, `heads` must be a multiple of `key_value_heads` (3), but is 8.",
    "key_value_heads = 16": "in `model`, `heads` must be ... (16), but is 8.",
    "width = 9\nheads = 3": 'in `model`, `width` must be even for `positions = "sinusoidal"`, but is 9.',
    "width = 9\nheads = 3\npositions = 'sinusoidal_halves'": (
        'in `model`, `width` must be even for `positions = "sinusoidal_halves"`, but is 9.'
    ),
    "positions = 'learned'\nword_positions = true": (
        'in `model`, `word_positions` cannot be combined with `positions = "learned"`: use "sinusoidal", "rope", '
        '"alibi" or "relative".'
    ),
    "width = 18\nheads = 3\nword_positions = true": (
        "in `model`, `width` must be a multiple of 4 for `word_positions`, but is 18."
    ),
    "width = 12\nheads = 4\npositions = 'rope'": (
        'in `model`, `width` must be an even ... `heads` (4) for `positions = "rope"`, but is 12.'
    ),
    "alignment = 'kernel'\ndistribution = 'sparsemax'": (
        f'in `model`, {KERNEL}`distribution` must be "softmax", but is "sparsemax"; use `alignment = "scaled_dot"` '
        "to keep it."
    ),
    "alignment = 'kernel'\nchoice = 'hard'": (f'in `model`, {KERNEL}`choice` must be "soft", but is "hard"; use ...'),
    "alignment = 'location'": f"in `model`, {PLACES}",
    RECURRENT + "alignment = 'location'": f"in `model`, {PLACES}",
    **{
        f"choice = '{choice}'\ndistribution = '{distribution}'": (
            f'in `model`, `choice = "{choice}"` samples one position by weights that sum to 1, but those of '
            f'`distribution = "{distribution}"` do not: choose "softmax" or an entmax.'
        )
        for choice in ("hard", "gumbel")
        for distribution in ("sigmoid", "de_attention")
    },
    **{
        f"backend = 'fused'\n{key} = '{word}'": (
            f'in `model`, {FUSED}`{key}` is "{word}", which needs `backend = "auto"`.'
        )
        for key, word in (("choice", "gumbel"), ("distribution", "entmax"), ("alignment", "dot"))
    },
    **{
        f"positions = '{positions}'\nalignment = '{alignment}'": (
            f'in `model`, `positions = "{positions}"` adds to the score of each single position, which '
            f'`alignment = "{alignment}"` does not have: use `positions = "rope"` or "sinusoidal".'
        )
        for positions in ("alibi", "relative")
        for alignment in ("kernel", "area")
    },
    "alpha = 1": "`model.alpha` is 1, but must be a number above 1 and of at most 4.",
    "alpha = 4.1": "`model.alpha` is 4.1, but must be a number above 1 and of at most 4.",
    "temperature = 0": "`model.temperature` is 0, but must be a number above 0.",
    "features = 0": "`model.features` is 0, but must be a whole number of at least 1.",
    "area = 0": "`model.area` is 0, but must be a whole number of at least 1.",
    "max_places = 0": "`model.max_places` is 0, but must be a whole number of at least 1.",
    "choice = 'softly'": '`model.choice` is "softly", but must be "soft", "hard", "gumbel" or "reinforce".',
    "backend = 'flash'": '`model.backend` is "flash", but must be "auto", "fused" or "explicit".',
    RECURRENT + "tie = 'decoder'\nembedding = 256": (
        'in `model`, `tie` must be "none" where embeddings (256) are not as wide as states (512), but is "decoder": '
        "leave `embedding` out to tie."
    ),
    **{
        RECURRENT + f"wiring = '{wiring}'\n{key} = {value}": (
            f'in `model`, `wiring = "{wiring}"` has no attention, so `{key}` does not apply: leave it out, or choose '
            'the wiring "bahdanau" or "luong".'
        )
        for wiring in ("sutskever", "cho")
        for key, value in {
            "alignment": "'additive'",
            "window": "'monotone'",
            "distribution": "'sigmoid'",
            "alpha": 1.2,
            "choice": "'hard'",
            "temperature": 0.5,
            "features": 9,
            "area": 2,
            "max_places": 300,
        }.items()
    },
    **{
        RECURRENT + f"window = '{window}'\nalignment = 'area'": (
            f'in `model`, `window = "{window}"` selects single positions, but `alignment = "area"` scores spans of '
            'them: use `window = "global"`.'
        )
        for window in ("monotone", "predicted")
    },
    RECURRENT + "alignment = 'dot'": f'"dot" {COMPARED}',
    RECURRENT + "wiring = 'luong'\nalignment = 'area'": f'"area" {COMPARED}',
    MIXED + "[model.encoder]\nfamily = 'transformer'\nwidth = 1024\n[model.decoder]\nfamily = 'recurrent'\n"
    "alignment = 'content'": f'in `model`, "content" {COMPARED}',
    MIXED + "[model.encoder]\nfamily = 'recurrent'\ntie = 'none'\n[model.decoder]\nfamily = 'transformer'": (
        "in `model`, `tie` belongs to ... `encoder`."
    ),
    MIXED + "[model.encoder]\nfamily = 'recurrent'\n[model.decoder]\nfamily = 'transformer'\ntie = 'all'": (
        "in `model`, `tie` belongs to ... `decoder`."
    ),
    MIXED
    + "tie = 'all'\n[model.encoder]\nfamily = 'recurrent'\n[model.decoder]\nfamily = 'transformer'\nwidth = 256": (
        'in `model`, `tie` must be "decoder" or "none" where embeddings are 512 and 256 wide, but is "all".'
    ),
    MIXED + "tie = 'decoder'\n[model.encoder]\nfamily = 'transformer'\n[model.decoder]\nfamily = 'recurrent'\n"
    "embedding = 256": (
        'in `model`, `tie` must be "none" where the ... (256) are not as wide as ... (512), but is "decoder".'
    ),
    MIXED + "[model.encoder]\nfamily = 'transformer'\nheads = 3\n[model.decoder]\nfamily = 'recurrent'": (
        "in `model.encoder`, `width` must be a multiple of `heads` (3), but is 512."
    ),
    MIXED + "[model.encoder]\nfamily = 'mixed'\n[model.decoder]\nfamily = 'recurrent'": (
        '`model.encoder.family` is "mixed", but must be one of: transformer, recurrent.'
    ),
}


@pytest.mark.parametrize(("model", "line"), REFUSALS.items(), ids=lambda text: text.replace("\n", " "))
def test_what_cannot_be_is_one_line_with_a_way_out(model: str, line: str) -> None:
    assert complaints(model) == [like(f"my.toml: {line}")]


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("positions = 'learned'\nmax_positions = 256", "max_positions"),
        ("alignment = 'location'\nmax_places = 256", "max_places"),
        ("positions = 'learned'\nalignment = 'location'\nmax_places = 256", "max_places"),
        ("positions = 'learned'\nmax_positions = 256\nalignment = 'location'\nmax_places = 999", "max_positions"),
        (RECURRENT + "alignment = 'location'\nmax_places = 256", "max_places"),
        (
            MIXED + "[model.encoder]\nfamily = 'transformer'\nalignment = 'location'\nmax_places = 256\n"
            "[model.decoder]\nfamily = 'transformer'\npositions = 'learned'",
            "encoder.max_places",
        ),
        (
            MIXED + "[model.encoder]\nfamily = 'recurrent'\n"
            "[model.decoder]\nfamily = 'transformer'\npositions = 'learned'\nmax_positions = 256",
            "decoder.max_positions",
        ),
    ],
)
def test_the_longest_sentence_must_fit_into_what_ends(model: str, key: str) -> None:
    assert complaints(model) == [
        like(f"my.toml: `data.max_length` (256) and an end marker must ... `model.{key}`, but that is 256.")
    ]
    load(model.replace("256", "257"))
    load(model, DATA + "max_length = 255\n")


# --- what is taken ----------------------------------------------------------------------------------------------------

TAKEN: dict[str, str] = {
    "usual": "",
    "explicit": "backend = 'explicit'",
    "every part of attention": "alignment = 'location'\nmax_places = 300\ndistribution = 'entmax'\nalpha = 1.7\n"
    "choice = 'gumbel'\ntemperature = 0.5\npositions = 'relative'\nmax_distance = 4",
    "kernel": "alignment = 'kernel'\nfeatures = 99\npositions = 'rope'",
    "area": "alignment = 'area'\narea = 5\ndistribution = 'de_attention'\npositions = 'rope'",
    "recurrent": RECURRENT + "wiring = 'luong'\nalignment = 'location'\nmax_places = 300\nwindow = 'predicted'",
    "mixed": MIXED + "tie = 'decoder'\n[model.encoder]\nfamily = 'recurrent'\ncell = 'lstm'\n"
    "[model.decoder]\nfamily = 'transformer'\nalignment = 'additive'",
}


@pytest.mark.parametrize("model", TAKEN.values(), ids=TAKEN)
def test_a_model_comes_back_from_json_and_from_toml(model: str) -> None:
    recipe = load(model)
    assert recipe_from_json(recipe_to_json(recipe), "here") == recipe
    Path("again.toml").write_text(recipe_to_toml(recipe), encoding="utf-8")
    assert load_recipe("again.toml") == recipe


def test_recurrent_models_have_the_widths_and_the_alignments_of_their_papers() -> None:
    bahdanau, luong = (RecurrentModel(family="recurrent", wiring=wiring) for wiring in ("bahdanau", "luong"))
    assert (bahdanau.aligned_by, luong.aligned_by) == ("additive", "general")
    assert (bahdanau.embedding_width, bahdanau.memory_width) == (512, 1024)
    narrow = RecurrentModel(family="recurrent", width=8, encoder_width=3, embedding=5, bidirectional=False)
    assert (narrow.embedding_width, narrow.memory_width) == (5, 3)


def test_a_mixed_model_has_the_decoders_width_and_the_encoders_memory() -> None:
    recurrent, transformer = {"family": "recurrent", "width": 6}, {"family": "transformer", "width": 16}
    for encoder, decoder, width, memory in ((recurrent, transformer, 16, 12), (transformer, recurrent, 6, 16)):
        model = model_of(family="mixed", encoder=encoder, decoder=decoder)
        assert isinstance(model, MixedModel)
        assert (model.width, model.memory_width) == (width, memory)

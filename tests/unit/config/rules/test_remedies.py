"""Remedies that contradict each other or the model are refused when the recipe is read."""

import pytest
from tests.shared.refusals import like, refuses
from tests.unit.config.rules.family_recipes import FAMILIES, LABELLED, PAIR, RUNNING, complaint, load

from heedful.config.checks import check_remedies

R_DROP = "[train]\nr_drop = 5"


@pytest.mark.parametrize("family", FAMILIES)
def test_r_drop_applies_to_every_family(family: str) -> None:
    assert load(family, FAMILIES[family], rest=R_DROP).train.r_drop == 5
    assert load(family, FAMILIES[family]).train.r_drop is None


def test_r_drop_needs_dropout_somewhere_in_the_model() -> None:
    said = (
        "`train.r_drop` compares two passes with different dropout, but the model has none: set `model.dropout`, or "
        "leave it out."
    )
    assert complaint("transformer", PAIR, model="dropout = 0.0", rest=R_DROP) == said
    assert load("transformer", PAIR, model="dropout = 0.0\ndropout_attention = 0.1", rest=R_DROP).train.r_drop
    assert load("classifier", LABELLED, model="dropout = 0.0", rest=R_DROP).train.r_drop  # its encoder has some
    assert complaint("classifier", LABELLED, model="dropout = 0.0\nencoder = { dropout = 0.0 }", rest=R_DROP) == said


def test_bpe_dropout_needs_merges_and_texts_that_are_read_whole() -> None:
    dropout = "[train]\nbpe_dropout = 0.1"
    assert load("transformer", PAIR, rest=dropout).train.bpe_dropout == 0.1
    assert load("classifier", LABELLED, rest=dropout).train.bpe_dropout == 0.1
    mixed = f'{dropout}\n[tokenizer]\nkind = "bpe"\ntarget = {{ kind = "word" }}'
    assert load("transformer", PAIR, rest=mixed).train.bpe_dropout == 0.1
    assert complaint("transformer", PAIR, rest=f'{dropout}\n[tokenizer]\nkind = "unigram"') == (
        '`train.bpe_dropout` leaves out merges, which `tokenizer.kind = "unigram"` does not have: use "bpe" or '
        '"byte_bpe", or leave it out.'
    )
    for family, corpus, who in (
        ("bert", RUNNING, "a masked language model"),
        ("language", RUNNING, "a language model"),
        ("tagger", LABELLED, "a tagger"),
    ):
        assert complaint(family, corpus, rest=dropout) == (
            "`train.bpe_dropout` applies to translators, parsers, classifiers and regressors of texts, not to "
            f"{who}: leave it out."
        )
    assert complaint("classifier", LABELLED, model='encoder = { family = "hierarchical" }', rest=dropout) == (
        "`train.bpe_dropout` cuts whole texts anew in every epoch, but a hierarchical classifier reads sentences that "
        "are prepared once: leave it out."
    )


def test_initial_weights_that_would_be_replaced_or_scaled_for_others_are_refused() -> None:
    assert load("transformer", PAIR, rest='[train]\ninitialization = "gpt2"').train.initialization == "gpt2"
    fixed = 'norm = "tfixup"'
    assert load("transformer", PAIR, model=fixed, rest='[train]\ninitialization = "xavier"').train.initialization
    assert complaint("transformer", PAIR, model=fixed, rest='[train]\ninitialization = "bert"') == (
        '`train.initialization = "bert"` contradicts `model.norm = "tfixup"`, whose initial weights are scaled from '
        '"xavier": leave one of them out.'
    )
    recipe = load("transformer", PAIR, rest='[train]\ninitialization = "he"')
    started = recipe.model_copy(update={"train": recipe.train.model_copy(update={"start_from": "runs/a"})})
    with refuses("`train.initialization` draws weights that `train.start_from` replaces...", ValueError):
        check_remedies(started, started.rules)


def test_a_teacher_is_compared_by_single_predictions_from_the_same_tokens() -> None:
    distill = '[train]\ndistill = { teacher = "runs/big" }'
    made = load("transformer", PAIR, rest=distill).train.distill
    assert made is not None
    assert (made.teacher, made.weight, made.temperature) == ("runs/big", 0.5, 1.0)
    assert complaint("tagger", LABELLED, model="crf = true", rest=distill) == (
        "`train.distill` compares the labels of single words, but `model.crf = true` predicts those of a sentence "
        "together: leave one of them out."
    )
    recurrent = '[model.decoder]\nfamily = "recurrent"'
    assert complaint("language", RUNNING, data='borders = "open"', model=recurrent, rest=distill) == (
        "`train.distill` has a teacher that reads single batches, but a recurrent model with open borders carries its "
        'state from batch to batch: leave it out, or set `data.borders = "closed"`.'
    )
    sampling = f'{distill}\nscheduled_sampling = {{ kind = "linear", slope = 0.1 }}'
    assert complaint("recurrent", PAIR, rest=sampling) == (
        "`train.distill` compares predictions from the same tokens, but `train.scheduled_sampling` draws others for "
        "the model: leave one of them out."
    )
    language = 'encoder = { family = "language" }'
    assert complaint("classifier", LABELLED, model=language, rest=f"{distill}\nauxiliary = 0.5") == (
        "`train.distill` and `train.auxiliary` cannot be combined: leave one of them out."
    )


def test_weights_of_a_teacher_are_not_mixed_with_others() -> None:
    recipe = load("transformer", PAIR, rest='[train]\ndistill = { teacher = "runs/big", start = true }')
    for other, value in (("start_from", "runs/a"), ("initialization", "he")):
        mixed = recipe.model_copy(update={"train": recipe.train.model_copy(update={other: value})})
        said = (
            f"`train.distill.start` takes the weights of the teacher, but `train.{other}` gives others: leave one of "
        )
        with refuses(f"{said}them out", ValueError):
            check_remedies(mixed, mixed.rules)


def test_r_drop_compares_neither_label_sequences_nor_carried_states_nor_sampled_tokens() -> None:
    assert complaint("tagger", LABELLED, model="crf = true", rest=R_DROP) == like(
        "`train.r_drop` compares the labels of ..."
    )
    recurrent = '[model.decoder]\nfamily = "recurrent"'
    assert complaint("language", RUNNING, data='borders = "open"', model=recurrent, rest=R_DROP) == like(
        "`train.r_drop` reads each batch twice, but a recurrent model ..."
    )
    sampling = f'{R_DROP}\nscheduled_sampling = {{ kind = "linear", slope = 0.1 }}'
    assert complaint("recurrent", PAIR, rest=sampling) == like(
        "`train.r_drop` compares two passes over the same tokens, but ... in each: leave one of them out."
    )

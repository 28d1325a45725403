"""Remedies that contradict each other or the model are refused when the recipe is read."""

import pytest
from tests.unit.config.rules.family_recipes import FAMILIES, LABELLED, PAIR, RUNNING, complaint, load

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


def test_r_drop_compares_neither_label_sequences_nor_carried_states_nor_sampled_tokens() -> None:
    assert complaint("tagger", LABELLED, model="crf = true", rest=R_DROP) == (
        "`train.r_drop` compares the labels of single words, but `model.crf = true` predicts those of a sentence "
        "together: leave one of them out."
    )
    recurrent = '[model.decoder]\nfamily = "recurrent"'
    assert complaint("language", RUNNING, data='borders = "open"', model=recurrent, rest=R_DROP) == (
        "`train.r_drop` reads each batch twice, but a recurrent model with open borders carries its state from batch "
        'to batch: leave it out, or set `data.borders = "closed"`.'
    )
    sampling = f'{R_DROP}\nscheduled_sampling = {{ kind = "linear", slope = 0.1 }}'
    assert complaint("recurrent", PAIR, rest=sampling) == (
        "`train.r_drop` compares two passes over the same tokens, but `train.scheduled_sampling` draws others in "
        "each: leave one of them out."
    )

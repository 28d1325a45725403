"""What a recurrent language model demands of its keys and its corpora."""

import pytest
from tests.shared.refusals import like
from tests.unit.config.rules.family_recipes import RUNNING, complaint, load

OPEN = 'borders = "open"'


def decoder(keys: str) -> str:
    return f'decoder = {{ family = "recurrent", {keys} }}'


@pytest.mark.parametrize(
    ("train", "data", "model", "line"),
    [
        (
            RUNNING,
            "",
            decoder("dropout_state = 0.2"),
            "in `model.decoder`, `dropout_state` is 0.2, but only masks that are the same at every step can drop "
            "states: set `variational = true`, or leave it out.",
        ),
        (
            RUNNING,
            "",
            decoder("width = 20, embedding = 10"),
            "in `model`, `tie` must be false where embeddings (10) are not as wide as states (20), but is true: leave "
            "`decoder.embedding` out or set `decoder.last_width` to tie.",
        ),
        *(
            (
                RUNNING,
                "",
                decoder(f'feedback = "output", {keys}'),
                f'in `model.decoder`, {must}, where `feedback` is "output".',
            )
            for keys, must in (
                ("layers = 1", '`cell` must be "tanh" or "relu", as gates read and write a memory of their own'),
                ('cell = "tanh"', "`layers` must be 1, as only the last layer has an output"),
                ('cell = "relu", layers = 1, variational = true', "`variational` must be false"),
                ('cell = "tanh", layers = 1, dropout_weights = 0.5', "`dropout_weights` must be 0"),
            )
        ),
        (
            RUNNING,
            "",
            decoder("penalty_activation = 2.0"),
            '`model.decoder.penalty_activation` applies to models that carry their state: set `data.borders = "open"`, '
            "or leave it out.",
        ),
        (
            RUNNING,
            "",
            decoder("penalty_change = 2.0"),
            like("`model.decoder.penalty_change` applies to models that ..."),
        ),
        (
            '{ text = "a.txt", weight = 2 }',
            OPEN,
            decoder("width = 20"),
            "`data.train.weight` must be 1 where a recurrent model reads its corpora as one text (`data.borders` is "
            "open): leave it out, or close the borders.",
        ),
        (
            RUNNING,
            f"{OPEN}\ntemperature = 5.0",
            decoder("width = 20"),
            like("`data.temperature` must be 1 where a ..."),
        ),
    ],
)
def test_what_cannot_be_is_refused(train: str, data: str, model: str, line: str) -> None:
    assert complaint("language", train, data=data, model=model) == line


def test_a_last_layer_as_wide_as_embeddings_can_be_tied() -> None:
    keys = decoder("width = 20, embedding = 10, last_width = 10, penalty_change = 1.0")
    assert load("language", RUNNING, data=OPEN, model=keys).model.family == "language"


def test_shares_are_those_of_their_places_or_the_common_one() -> None:
    model = load("language", RUNNING, model=decoder("dropout = 0.3, dropout_input = 0.6")).model
    shares = [model.decoder.share(where) for where in ("input", "hidden", "output")]  # type: ignore[union-attr]
    assert shares == [0.6, 0.3, 0.3]

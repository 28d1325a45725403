"""What loaded models of several tasks can be asked besides an explanation: attributions, the logit lens, patches."""

from abc import abstractmethod
from collections.abc import Sequence

from heedful.base.arguments import check_number, check_text
from heedful.base.errors import UserError
from heedful.explain.attribution import Attribution, AttributionKind, attribute
from heedful.explain.lens import Lens, look
from heedful.explain.patching import Patches, patch
from heedful.explain.readings import Reading
from heedful.explain.texts import refuse_blank

Given = str | tuple[str, str]  # a text, or a pair of texts where a model reads pairs
Chosen = Sequence[int] | None  # classes that are predicted; None for the tokens of the text itself


class Measures:
    """A loaded model whose outputs are explained in numbers."""

    @abstractmethod
    def _choose(self, text: Given, output: str | None, each: bool, to: str | None) -> Chosen:
        """Return what is predicted for a text: an `output` that is given, or the model's own.

        With `each`, a language model predicts each token of the text; otherwise what follows it.
        """

    @abstractmethod
    def _read(self, text: Given, chosen: Chosen, to: str | None) -> Reading:
        """Return how the network reads a text and predicts."""

    def attribute(
        self,
        text: Given,
        output: str | None = None,
        *,
        kind: AttributionKind = "integrated",
        against: str | None = None,
        tolerance: float = 0.05,
        to: str | None = None,
    ) -> Attribution:
        """Return what each token of the input adds to log P of each token of the output, or of the label.

        `output` is the model's own by default: a translation, a label, candidates for masks; a language model predicts
        each token of the text or, with an `output`, that it follows the text. `against` asks why not another output:
        log P(output) - log P(against) is explained, at the first token in which they differ. `kind` is `integrated`
        (integrated gradients, exact to the `tolerance`), `gradient` (times input) or `erasure`.
        `to` is the language that a translator of several translates to. A pair of texts is a tuple.
        """
        chosen = self._choose(_checked(text), output, against is None, to)
        reading = self._read(text, chosen, to)
        if against is not None:
            reading = reading.contrasted(self._choose(text, check_text(against, "`against`"), False, to) or ())
        return attribute(reading, kind, _positive(tolerance))

    def lens(self, text: Given, output: str | None = None, *, top: int = 5, to: str | None = None) -> Lens:
        """Return what the model would predict if its layers ended earlier: see `Lens`. Arguments as in `attribute`.

        Each layer has the `top` most likely predictions.
        """
        return look(self._read(text, self._choose(_checked(text), output, True, to), to), top)

    def patch(self, text: Given, other: Given, output: str | None = None, *, to: str | None = None) -> Patches:
        """Return log P of an output, by default that of the other text, with states of the other text in this one's.

        Both must have the same number of tokens. Each state of each layer of a Transformer is replaced by itself, and
        all states of a layer together: where log P becomes that of the other text, the state carries the difference.
        """
        chosen = self._choose(_checked(other, "`other`"), output, False, to)
        return patch(self._read(_checked(text), chosen, to), self._read(other, chosen, to))


def refuse_language(to: str | None) -> None:
    """Refuse a language for a model that does not translate."""
    if to is not None:
        raise UserError("`to` is the language of a translation, but this model does not translate: leave it out.")


def single_text(text: Given) -> str:
    """Return a text; refuse a pair."""
    if not isinstance(text, str):
        raise UserError("This model reads single texts, but was given a pair: give one text.")
    return text


def pair_of(text: Given) -> tuple[str, str | None]:
    """Return a text, and the second text of a pair."""
    return (text, None) if isinstance(text, str) else text


def _checked(text: Given, name: str = "`text`") -> Given:
    """Return a text, or a pair of texts; refuse anything else, and blank ones."""
    if isinstance(text, tuple) and len(text) == 2:
        check_text(text[1], f"{name}, the second of the pair")
        refuse_blank(check_text(text[0], f"{name}, the first of the pair"))
    else:
        refuse_blank(check_text(text, name))
    return text


def _positive(tolerance: float) -> float:
    if check_number("`tolerance`", tolerance) <= 0:
        raise UserError(f"`tolerance` must be greater than 0, but is {tolerance}.")
    return tolerance

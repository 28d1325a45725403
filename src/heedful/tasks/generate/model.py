"""A trained language model: it continues texts, and says how probable they are."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Self, overload

from heedful.arguments import check_path, check_texts
from heedful.config.corpora import JsonlTexts
from heedful.config.rules.generate import GENERATE
from heedful.config.rules.task_rules import TaskRules
from heedful.data.corpora.in_memory import spool
from heedful.data.text_form import TextForm
from heedful.data.tokenize.line_breaks import restore_breaks, running_pieces
from heedful.data.tokenize.tokenizer import BEGIN
from heedful.decode.query import Query
from heedful.decode.scorer import SingleModel
from heedful.decode.search import search
from heedful.decode.settings import Sampling, SearchSettings
from heedful.errors import UserError
from heedful.models.bundle import Bundle, read_bundle
from heedful.models.networks import LanguageModel
from heedful.tasks.generate.evaluation import LanguageEvaluation, evaluate_language
from heedful.tasks.shared.evaluation_mode import evaluation_mode
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.tasks.shared.placement import Placement


class TextGenerator(LoadedModel[LanguageModel]):
    """A trained language model with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose.
    """

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "auto", precision: str = "auto") -> Self:
        """Load a language model as `heedful.load` does; refuse any other model."""
        return cls(read_generator(check_path("path", path), Placement.of(device, precision)))

    def __init__(self, bundle: Bundle[LanguageModel]) -> None:
        super().__init__(bundle)
        self._searched = SingleModel(self.network)

    @overload
    def generate(self, prompt: str, max_tokens: int = 200, sampling: Sampling | None = None) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def generate(self, prompt: Iterable[str], max_tokens: int = 200, sampling: Sampling | None = None) -> list[str]: ...
    def generate(
        self, prompt: str | Iterable[str], max_tokens: int = 200, sampling: Sampling | None = None
    ) -> str | list[str]:
        """Continue a text, or each of several texts, by at most `max_tokens` tokens."""
        if isinstance(prompt, str):
            return self.generate([prompt], max_tokens, sampling)[0]
        queries = [
            Query(self._encode(text, f"prompt, line {number + 1:,}"), max_tokens, (), number)
            for number, text in enumerate(check_texts(prompt, "prompt"))
        ]
        settings = SearchSettings(beam=1, sampling=sampling)
        with evaluation_mode(self.network):
            found = search(self._searched, queries, settings, self.recipe.data.batch_tokens)
        tokenizer = self.vocabularies["text"]
        texts = tokenizer.decode_batch([best.tokens for best, *_ in found])
        return [restore_breaks(text, tokenizer) for text in texts]

    def evaluate(self, data: object, *, name: str = "data", stride: int | None = None) -> LanguageEvaluation:
        """Score how well the model predicts texts: perplexity per token and word, bits per byte.

        `data` are texts in any form that `heedful.train` takes: texts, dictionaries, columns, frames. A window of
        `data.max_length` tokens moves by `stride` tokens, by default by its own length.
        """
        return evaluate_language(self.bundle, JsonlTexts.model_validate(spool(data, GENERATE, name)), "", stride)

    def _encode(self, prompt: str, where: str) -> list[int]:
        """Return the tokens that the model continues; with open borders a prompt may be from the middle of a text."""
        tokenizer = self.vocabularies["text"]
        form = TextForm.of(self.recipe.data)
        form.check_text(prompt, where)
        pieces = running_pieces(form(prompt), tokenizer.spells_spaces)
        tokens = [token for ids in tokenizer.encode_batch(pieces) for token in ids]
        if self.recipe.data.borders == "closed":
            return [BEGIN, *tokens]
        if not tokens:
            raise UserError(
                f"{where} is empty, but this model continues texts (`data.borders` is open): give some text."
            )
        return tokens


def read_generator(folder: Path, placement: Placement, rules: TaskRules | None = None) -> Bundle[LanguageModel]:
    """Read a language model from its folder and place it; `rules` are those of the task it was trained for."""
    bundle = read_bundle(folder, LanguageModel, rules)
    placement.put(bundle.model)
    return bundle

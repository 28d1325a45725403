"""Conversion between text and a model's pieces: its form, its words, and the tag of the target language."""

import re
from collections.abc import Iterator, Sequence

from heedful.base.arguments import check_one_each
from heedful.base.errors import UserError, by_caller
from heedful.config.recipe import Recipe
from heedful.data.text_form import TextForm, join_words, split_words
from heedful.data.tokenize.tokenizer import tag_of
from heedful.data.tokenize.vocabularies import Vocabularies

Languages = str | Sequence[str] | None  # the target language of all texts, or of each; None where texts have tags


class TextCodec:
    """Encodes and decodes text with a model's recipe and vocabularies."""

    def __init__(self, recipe: Recipe, vocabularies: Vocabularies) -> None:
        self._form, self._tokenized = TextForm.of(recipe.data), recipe.data.tokenized
        self._source, self._target = vocabularies["source"], vocabularies["target"]
        self.target_tags = recipe.data.target_tags
        self._language = {number: language for language, number in vocabularies["source"].tags.items()}

    def encode(self, texts: Sequence[str], to: Languages, raw: bool, name: str, first: int) -> list[list[int]]:
        """Return the source pieces of texts, after the tag of their target language if there are several languages.

        A blank text has none. `name` is the texts' name in messages, `first` the number of their first line.
        """
        if raw and self._tokenized is None:
            raise UserError("`raw` is for models of tokenized text, but this one reads ordinary text: leave it out.")
        self.check_lines(texts, name, first)
        languages = [to] * len(texts) if to is None or isinstance(to, str) else to
        check_one_each(len(texts), "text", len(languages), "target language")
        tagged = [
            self._tagged(text, language, f"{name}, line {number:,}")
            for number, (text, language) in enumerate(zip(texts, languages, strict=True), start=first)
        ]
        pieces = self._source.encode_batch([self.source_words(text, raw) for _, text in tagged])
        return [[*tag, *ids] if ids else [] for (tag, _), ids in zip(tagged, pieces, strict=True)]

    def source_words(self, text: str, raw: bool) -> str:
        """Return a source text in the form that is tokenized; `raw` texts are split into words first."""
        if not text.strip():
            return ""
        return self.normalise(split_words(text, self._tokenized.source) if raw and self._tokenized else text)

    def check_lines(self, texts: Sequence[str], name: str, first: int = 1) -> None:
        """Refuse a text that is longer than the lines the model was trained on may be."""
        self._form.check(texts, name, first)

    def encode_target(self, texts: Sequence[str], sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the target pieces of texts, with the tags that translations of their sources begin with.

        A blank text has none.
        """
        pieces = self._target.encode_batch([self.normalise(text) if text.strip() else "" for text in texts])
        tags = self._first_tokens(sources)
        return [[*tag, *ids] if ids else [] for tag, ids in zip(tags, pieces, strict=True)]

    def _first_tokens(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the tokens that translations of sources begin with: their tags, if targets have them."""
        return [list(source[:1]) if self.target_tags else [] for source in sources]

    def encode_prefixes(
        self, prefix: str | Sequence[str], sources: Sequence[Sequence[int]], first: int
    ) -> list[list[int]]:
        """Return the target pieces that translations of sources start with; refuse text that has unknown parts."""
        tags = self._first_tokens(sources)
        if prefix == "":
            return tags
        texts = [prefix] * len(sources) if isinstance(prefix, str) else prefix
        check_one_each(len(sources), "text", len(texts), "prefix", ", which may be empty")
        pieces = self._target.encode_batch([self.normalise(text.rstrip()) for text in texts])
        for number, (text, ids) in enumerate(zip(texts, pieces, strict=True), start=first):
            if self._target.unknown in ids:
                raise UserError(
                    f"The prefix of line {number:,} cannot be tokenized: a part of `{text}` is not in the vocabulary."
                )
        return [[*tag, *ids] for tag, ids in zip(tags, pieces, strict=True)]

    def decode(self, batch: Sequence[Sequence[int]], languages: Sequence[str | None], raw: bool) -> Iterator[str]:
        """Yield the texts of target pieces; `raw` ones are ordinary text."""
        for text, language in zip(self._target.decode_batch(batch), languages, strict=True):
            yield self.ordinary(text, language) if raw else text

    def decode_draft(self, tokens: Sequence[int], raw: bool) -> str:
        """Return the text of target pieces that others will follow: never half of a character."""
        (text,) = self.decode([tokens], [None], raw)
        return text.rstrip("\N{REPLACEMENT CHARACTER}")

    def normalise(self, text: str) -> str:
        """Return the text in the form that the model was trained on."""
        return self._form(text)

    def ordinary(self, text: str, language: str | None = None) -> str:
        """Undo the splitting of words and punctuation if the model's text is tokenized."""
        return join_words(text, language or self._tokenized.target) if self._tokenized else text

    def split_target(self, text: str, language: str | None = None) -> str:
        """Put spaces between words and punctuation of ordinary target text, if the model's text is tokenized."""
        return split_words(text, language or self._tokenized.target) if self._tokenized else text

    def language(self, source: Sequence[int]) -> str | None:
        """Return the target language in the tag of a source; None if it has none."""
        return self._language.get(source[0]) if source else None

    def without_tag(self, text: str, to: str) -> tuple[str, str]:
        """Return the target language of a text, "" where there is one for all, and the text without its tag."""
        tag, rest = self._tagged(text, to or None, "the text")
        return self.language(tag) or "", rest

    def _tagged(self, text: str, language: str | None, where: str) -> tuple[list[int], str]:
        """Return the tag of a text, and the text without it."""
        tags = self._source.tags
        found = re.match(r"\s*<2(?P<language>[^<>\s]+)>", text) if tags else None
        if language is not None:
            if found and found["language"] in tags:
                raise UserError(
                    f"{where} begins with {tag_of(found['language'])}, but `to` is given too: leave one of them out."
                )
            if not tags:
                raise UserError(
                    f"`to` is `{language}`, but this model has one target language and no tags: leave it out."
                )
            return [self._source.tag(language)], text
        if not tags or not text.strip():
            return [], text
        if found is None:
            known = ", ".join(map(tag_of, tags))
            raise UserError(
                f"{where} does not say its target language: begin it with one of {known}, or use "
                f"{by_caller('`--to`', '`to`')}."
            )
        try:
            return [self._source.tag(found["language"])], text[found.end() :].lstrip()
        except UserError as error:
            raise UserError(f"{where}: {error}") from error

"""Keys of corpora that their files tell, such as the separator of a table: part of the recipe that a run saves."""

from contextlib import suppress

from heedful.base.errors import HeedfulError
from heedful.config.corpora.containers import SPLITS, AnyCorpus
from heedful.config.recipe import Recipe
from heedful.data.corpora.files import files_of
from heedful.data.corpora.formats.settling import settle


def settle_corpora(recipe: Recipe) -> Recipe:
    """Return the recipe of a new run with the keys that the files tell.

    A file that is not there yet, as that of a test set may be, is taken to be like the first one of its container: the
    run saves all keys, and none is told later.
    """
    first: dict[type, AnyCorpus] = {}  # that is there, by container

    def settled(corpus: AnyCorpus) -> AnyCorpus:
        if not all(file.path.exists() for file in files_of(corpus, recipe.data.folder)):
            return _with_form_of(corpus, first.get(type(corpus), corpus))
        with suppress(HeedfulError):  # training says what is wrong with the data
            corpus = settle(corpus, recipe.data.folder)
        first.setdefault(type(corpus), corpus)
        return corpus

    found = {split: tuple(map(settled, getattr(recipe.data, split))) for split in SPLITS}
    return _with_corpora(recipe, found)


def with_forms_of(recipe: Recipe, begun: Recipe) -> Recipe:
    """Return the recipe of a run that is resumed: what it does not set about files is read as when the run began."""
    found = {}
    for split in SPLITS:
        own, old = getattr(recipe.data, split), getattr(begun.data, split)
        if len(own) == len(old):
            found[split] = tuple(map(_with_form_of, own, old))
    return _with_corpora(recipe, found)


def _with_form_of(corpus: AnyCorpus, begun: AnyCorpus) -> AnyCorpus:
    if type(corpus) is not type(begun):
        return corpus
    own = [key for key in corpus.found_keys if key in type(corpus).model_fields and key not in corpus.model_fields_set]
    return corpus.model_copy(update={key: getattr(begun, key) for key in own}) if own else corpus


def _with_corpora(recipe: Recipe, corpora: dict[str, tuple[AnyCorpus, ...]]) -> Recipe:
    changed = {split: found for split, found in corpora.items() if found != getattr(recipe.data, split)}
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=changed)}) if changed else recipe

"""A model as a folder for a hub: its bundle without places, a card with a YAML header, a licence; and its upload."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from torch import nn

from heedful.base.arguments import check_path
from heedful.base.errors import MachineError, UserError, counted, machine_faults, suggestion
from heedful.base.files import new_folder, output_folder, read_bytes, read_json, write_bytes, write_json
from heedful.config.reading.places import take_places
from heedful.config.recipe import Recipe
from heedful.doctor.findings import Finding
from heedful.doctor.publishing import LICENSE, examine_model
from heedful.models.bundle import CARD, CONFIG, read_bundle, read_recipe, refuse_used_folder

OTHER: Final = "other"  # a licence of one's own, whose text is in a file
LICENSES: Final = (  # identifiers that hubs know, of licences that models have
    *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "isc", "unlicense", "cc0-1.0"),
    *("cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-4.0"),
    *("cc-by-3.0", "cc-by-sa-3.0", "cc-by-nc-3.0", "openrail", "bigscience-openrail-m", "bigscience-bloom-rail-1.0"),
    *("gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "agpl-3.0", "mpl-2.0", "epl-2.0", "eupl-1.2", "odc-by", "odbl"),
    *("artistic-2.0", "bsl-1.0", "wtfpl", "zlib", OTHER),
)
# What hubs call tasks, by the name of ours; parsing and regression have no name there.
_PIPELINES: Final[Mapping[str, str]] = {
    "translate": "translation",
    "classify": "text-classification",
    "classify_images": "image-classification",
    "caption": "image-to-text",
    "tag": "token-classification",
    "fill": "fill-mask",
    "generate": "text-generation",
    "answer": "question-answering",
    "answer_images": "visual-question-answering",
}
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_REPOSITORY: Final = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_FRONT: Final = re.compile(r"\A---\n.*?^---\n+", re.DOTALL | re.MULTILINE)  # a header that is there already


@dataclass(frozen=True)
class CardHeader:
    """What the header of a card says besides what the recipe tells."""

    license: str | None = None
    license_file: Path | None = None
    languages: Sequence[str] = ()
    tags: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.license is not None and self.license not in LICENSES:
            raise UserError(
                f"`{self.license}` is not a licence that hubs know: use an identifier such as apache-2.0, mit or "
                f"cc-by-4.0, or `{OTHER}` with --license-file.{suggestion(self.license, LICENSES)}"
            )
        if self.license == OTHER and self.license_file is None:
            raise UserError(f"The licence `{OTHER}` says nothing by itself: add its text, by --license-file FILE.")
        if self.license is None and self.license_file is not None:
            raise UserError(f"--license-file has the text of a licence: name it too, by --license (or `{OTHER}`).")
        strange = next((one for one in self.languages if not _LANGUAGE.fullmatch(one)), None)
        if strange is not None:
            raise UserError(f"--lang: `{strange}` is not the code of a language: use one such as de, en or pt-BR.")

    def yaml(self, recipe: Recipe) -> str:
        """Return the header; a text as JSON writes it is a text of YAML."""
        rules = recipe.rules
        tags = dict.fromkeys(("heedful", rules.name, recipe.model.family, *self.tags))
        fields = {
            "license": self.license,
            "license_link": LICENSE if self.license == OTHER else None,
            "language": list(self.languages),
            "library_name": "heedful",
            "pipeline_tag": _PIPELINES.get(rules.name),
            "tags": list(tags),
        }
        lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items() if value)
        return f"---\n{''.join(lines)}---\n\n"


@dataclass(frozen=True)
class PreparedModel:
    """A folder that can be published, and what there is to know of it before."""

    folder: Path
    files: Sequence[str]
    findings: Sequence[Finding]


def prepare(
    model: str | Path, out: str | Path, header: CardHeader, repository: str | None = None, *, despite: bool = False
) -> PreparedModel:
    """Write a model's bundle to a folder for a hub, with what names this machine or its user removed or refused.

    `repository` is the name that the model gets there. With `despite`, what looks private is not refused.
    """
    source, target = check_path("model", model), output_folder(out)
    refuse_used_folder(target)
    recipe = read_recipe(source)
    terms = None if header.license_file is None else read_bytes(header.license_file)
    read_bundle(source, nn.Module)  # nothing that is damaged is published
    with new_folder(target) as staged:
        for name in examine_model(source).files:
            if name not in (CARD, CONFIG, LICENSE):
                with machine_faults(source / name):
                    shutil.copyfile(source / name, staged / name)
        write_json(staged / CONFIG, _config_without_places(source, recipe))
        card = header.yaml(recipe) + _card_of(source, target.absolute().name, recipe, repository)
        write_bytes(staged / CARD, card.encode())
        if terms is not None:
            write_bytes(staged / LICENSE, terms)
        found = examine_model(staged)
        _refuse_private(source, found.findings, despite)
    return PreparedModel(target, found.files, found.findings)


def _config_without_places(source: Path, recipe: Recipe) -> object:
    """Return the config of a bundle; those that earlier versions wrote have paths of a machine in their recipe."""
    config: Any = read_json(source / CONFIG)
    with suppress(LookupError, TypeError):  # a recipe in other words, of an earlier version: what it has is refused
        take_places(recipe, config["recipe"])
    return config


def _card_of(source: Path, name: str, recipe: Recipe, repository: str | None) -> str:
    """Return the text of a model's card under the name that it gets."""
    known = repository.partition("/")[2] if repository else name
    text = (source / CARD).read_text("utf-8", "replace") if (source / CARD).is_file() else ""
    text = _FRONT.sub("", text) or f"# {source.name}\n\nA model that {recipe.rules.does}, made with Heedful.\n"
    title, _, rest = text.partition("\n")
    old = re.escape(title.removeprefix("# ").strip())
    used = re.compile(rf'^(    heedful \w+ |    model = heedful\.load\("){old}(?=[ "]|$)', re.MULTILINE)
    rest = used.sub(lambda found: f"{found[1]}{known}", rest)
    fetched = f"\nDownload it before:\n\n    hf download {repository} --local-dir {known}\n" if repository else ""
    return f"# {known}\n{rest}".rstrip("\n") + f"\n{fetched}"


def _refuse_private(source: Path, findings: Sequence[Finding], despite: bool) -> None:
    """Refuse to publish what looks private."""
    private = [finding for finding in findings if finding.severity != "note"]
    if private and not despite:
        first = private[0]
        example = f" ({first.example})" if first.example else ""
        more = f", and {counted(len(private) - 1, 'more finding')}" if len(private) > 1 else ""
        raise UserError(
            f"{source} would reveal something private: {first.what}{example}{more}. `heedful doctor {source}` lists "
            "all of it; --despite-warnings publishes it all the same."
        )


# --- upload -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hub:
    """A place on the Hugging Face hub, which this user may write to."""

    repository: str
    token: str

    @classmethod
    def open(cls, repository: str) -> "Hub":
        """Check all that can be checked before anything is written: the name, the library and the token."""
        if not _REPOSITORY.fullmatch(repository):
            raise UserError(f"--upload is `{repository}`, but must be USER/NAME, a name on the hub such as ann/de-en.")
        token = _library().get_token()
        if not token:
            raise UserError("--upload needs a token of the hub: log in with `hf auth login`, or set HF_TOKEN.")
        return cls(repository, token)

    def upload(self, model: PreparedModel, private: bool) -> str:
        """Send the files of a prepared folder, and nothing else; return the address of the model."""
        with _hub_faults(self.repository, model.folder):
            api = _library().HfApi(token=self.token)
            address = api.create_repo(self.repository, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=self.repository,
                folder_path=str(model.folder),
                allow_patterns=list(model.files),
                commit_message="Model of Heedful",
            )
        return str(address)


def _library() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError as error:
        raise UserError(
            "--upload needs huggingface_hub, which is not installed: `pip install 'heedful[publish]'`."
        ) from error


@contextmanager
def _hub_faults(repository: str, folder: Path) -> Iterator[None]:
    """Turn what a hub or the network refuses into one line; what was prepared stays."""
    try:
        yield
    except (OSError, ValueError) as error:  # errors of HTTP are OSErrors; names that the library refuses, ValueErrors
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise MachineError(
            f"{repository} was not uploaded ({reason}): the folder {folder} is complete, upload it with "
            f"`hf upload {repository} {folder}`."
        ) from error

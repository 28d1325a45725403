"""`heedful publish MODEL -o FOLDER`: prepare a model for a hub, and upload it where that is asked for."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.options import ModelArgument, json_option, option, out_option
from heedful.cli.output import write_result


def command(
    model: ModelArgument,
    out: Annotated[str, out_option(", which is what is published")],
    license_: Annotated[
        str | None, option("Identifier of the licence, such as apache-2.0 or cc-by-4.0.", "--license", metavar="ID")
    ] = None,
    license_file: Annotated[
        Path | None, option("Text of the licence, which becomes LICENSE.", "--license-file", metavar="FILE")
    ] = None,
    languages: Annotated[
        str | None, option("Codes of languages, separated by commas: de,en.", "--lang", metavar="CODES")
    ] = None,
    tags: Annotated[
        str | None, option("Further tags of the card, separated by commas.", "--tags", metavar="WORDS")
    ] = None,
    despite_warnings: Annotated[
        bool, option("Publish what looks private too; it is listed.", "--despite-warnings")
    ] = False,
    upload: Annotated[
        str | None,
        option("Upload the folder to this name on the Hugging Face hub.", "--upload", metavar="USER/NAME"),
    ] = None,
    private: Annotated[bool, option("With --upload: others cannot see the model.", "--private")] = False,
    as_json: Annotated[bool, json_option("the folder, its files, what they reveal, and the address")] = False,
) -> None:
    """Prepare a model for a hub: its bundle alone, a card with a header, and a licence.

    What is written has no path, host name or user name of this machine; a model that has them elsewhere is refused.
    Nothing leaves the machine without --upload, which needs a token: that of `hf auth login`, or of HF_TOKEN.
    """
    if private and upload is None:
        raise UserError("--private is for models that are uploaded: add --upload USER/NAME, or leave it out.")
    from heedful.interop.hub import CardHeader, Hub, prepare  # importing torch takes seconds

    header = CardHeader(license_, license_file, _listed(languages), _listed(tags))
    hub = None if upload is None else Hub.open(upload)
    with messages.busy(f"preparing {model}"):
        prepared = prepare(model, out, header, upload, despite=despite_warnings)
    address = None
    if hub is not None:
        with messages.busy(f"uploading {prepared.folder}"):
            address = hub.upload(prepared, private)
    if as_json:
        findings = [asdict(finding) for finding in prepared.findings]
        folder, files = str(prepared.folder), list(prepared.files)
        write_result({"folder": folder, "files": files, "findings": findings, "address": address})
        return
    print(f"{prepared.folder} is ready to be published: {', '.join(prepared.files)}")
    for finding in prepared.findings:
        shown = f" ({finding.example})" if finding.example else ""
        messages.note(f"{finding.what}{shown}. {finding.advice}")
    if license_ is None:
        messages.warn("warning: the card has no licence, without which others may not use the model: add --license.")
    if address is not None:
        print(f"It is at {address}")


def _listed(words: str | None) -> list[str]:
    return [word.strip() for word in (words or "").split(",") if word.strip()]

"""`heedful shortlist MODEL`: learn the lexicon that `heedful translate --shortlist` makes its shortlists of."""

from typing import Annotated

from heedful.cli import messages
from heedful.cli.options import ModelArgument, ToOption, json_option, option
from heedful.cli.output import write_result


def command(
    model: ModelArgument,
    source: Annotated[
        str | None, option("File of sources: pairs to learn from, instead of the training corpora.", metavar="FILE")
    ] = None,
    target: Annotated[str | None, option("File of targets: the translations of --source.", metavar="FILE")] = None,
    to: ToOption = None,
    candidates: Annotated[
        int, option("Number of target tokens that each source token adds to a shortlist.", metavar="N", min=1)
    ] = 50,
    frequent: Annotated[
        int, option("Number of target tokens that are on every shortlist, the most frequent ones.", metavar="N", min=0)
    ] = 1000,
    as_json: Annotated[bool, json_option("the file, and what it was learned from")] = False,
) -> None:
    """Learn which target tokens translate which source tokens, and write it into the model's folder.

    `heedful translate --shortlist` then searches among these tokens only. They are learned from the pairs that the
    model was trained on, or from two other files.
    """
    from heedful.tasks.translate.learning import learn_shortlist  # importing torch takes seconds

    with messages.busy("learning"):
        learned = learn_shortlist(
            model, source=source, target=target, to=to or "", candidates=candidates, frequent=frequent
        )
    each = len(learned.lexicon.tokens) / max(1, len(learned.lexicon.ends))
    if as_json:
        write_result({"file": str(learned.path), "learned_from": learned.pairs, "tokens_each": round(each, 1)})
        return
    print(f"{learned.path}: {each:.1f} target tokens for a source token, learned from {learned.pairs}")
    messages.note(f"next: heedful translate {model} --shortlist < text.txt")

"""What the doctor says about some planted faults, and the way out."""

from collections.abc import Mapping

SAID: Mapping[tuple[str, str], tuple[str, str]] = {
    ("classify", "header"): (
        "the first line looks like the names of columns: “text | label”",
        "Set `header = true`: otherwise the names are learned as an example.",
    ),
    ("fill", "header"): (
        "the first line looks like the names of columns: “text”",
        "Delete the line: otherwise the names are learned as an example.",
    ),
    ("translate", "shifted by a line"): (
        "the sides are shifted: each source line fits the target 1 line above it",
        "One side has 1 line more or less before this line: remove or add what differs.",
    ),
    ("translate", "shifted by two lines"): (
        "the sides are shifted: each source line fits the target 2 lines below it",
        "One side has 2 lines more or less before this line: remove or add what differs.",
    ),
    ("translate", "late validation"): (
        "the first of the validations every 1,000 updates comes after the run's 200",
        "Lower `train.validation.every`: with one validation, at the end, there is no best model to keep.",
    ),
    ("translate", "idle patience"): (
        "a patience of 8 cannot stop a run with 4 validations",
        "Lower `train.validation.patience` or `train.validation.every`, or raise `train.steps`.",
    ),
    ("classify", "dominant class"): (
        "392 of 400 texts (98.0%) have the label `news`",
        'A model that always predicts it looks good: set `train.class_weights = "balanced"` and '
        '`train.validation.metric = "f1"`, or collect more of the other classes.',
    ),
    ("classify", "class in two spellings"): (
        "labels differ only in case or spaces: `News` (66) and `news` (67)",
        "Each is a class of its own: write them alike.",
    ),
    ("classify", "unknown class"): (
        "labels that no training text has: `sport`",
        "Correct them, remove these texts, or add such texts to `data.train`.",
    ),
    ("classify", "one class in valid"): (
        "all 60 texts have the label `praise`",
        "The score says nothing about other classes. If a file sorted by class was cut in two, shuffle it first.",
    ),
    ("classify", "wrong columns"): (
        "400 texts have 400 different labels: these are not classes",
        "`label` may name the wrong column: look at its number or name.",
    ),
    ("fill", "no blank lines"): (
        "the whole text is one document: a blank line never separates two",
        "Separate documents, set `documents` to what separates them, or set `model.next_sentence = false`: "
        "next-sentence prediction draws sentences from other documents.",
    ),
    ("fill", "no headings"): (
        'the whole text is one document: a heading such as " = Title = " never separates two',
        "Separate documents, set `documents` to what separates them.",
    ),
    ("fill", "one sentence per document"): (
        "documents of one sentence: 400 of 400 (100.00%)",
        "Next-sentence prediction needs several: keep the sentences of a document together, or set "
        "`model.next_sentence = false`.",
    ),
    ("fill", "a line per document"): (
        "sentences with more words than `data.max_length` (64) has tokens: 40 of 40 (100.00%)",
        'Lines are whole documents: set `sentences = "split"` and `documents = "line"`.',
    ),
    ("fill", "hardly any lines"): (
        "the training text has 15 sentences in 20 lines",
        "This is too little to learn a language from. If the file has more, its line ends may be unusual: lines end "
        "with a newline.",
    ),
    ("fill", "wrapped lines"): (
        "lines end in the middle of sentences: only 30 of 236 end with a sentence, and none has more than "
        "71 characters",
        "The text is wrapped: join the lines of each paragraph, as a sentence never goes beyond its line.",
    ),
    ("generate", "hardly any lines"): (
        "the training text has 584 characters: at most 10 windows of `data.max_length` (64) tokens",
        "This is too little to learn a language from: give more text, or lower `data.max_length`.",
    ),
    ("generate", "not one window"): (
        "the training text has 22 characters: not one window of `data.max_length` (64) tokens",
        "This is too little to learn a language from: give more text, or lower `data.max_length`.",
    ),
}

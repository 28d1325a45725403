"""From a recipe to tokenizers and tokenized corpora, trained and tokenized where the cache does not have them yet."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import batched
from pathlib import Path

import tokenizers as tokenizers_library

from heedful.config.schema import AnyCorpus, AnyTokenizer, Data, Recipe
from heedful.data.cache import Progress, cache_folder, cached, key_of
from heedful.data.readers import check_files, content_key, corpus_name, is_blank, read_pairs
from heedful.data.store import FORMAT, Sentences, TokenStore, open_store, write_store
from heedful.data.tokenizer import Tokenizer
from heedful.data.tokenizer_training import train_tokenizer
from heedful.errors import UserError

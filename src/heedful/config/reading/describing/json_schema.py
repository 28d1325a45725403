"""The JSON Schema of a recipe (draft 2020-12), by which editors complete, explain and check a recipe's keys.

What must be there, and what fits together, is left to `heedful config check`: a recipe that extends another one, or
starts from a model, may leave out what it takes over.
"""

from typing import Any

from heedful.config.reading.describing.entries import EXTENDS, KeyEntry, all_entries, table_meaning
from heedful.config.reading.outline import is_list, kind_of, mark_of
from heedful.config.recipe import Recipe
from heedful.config.section import Section
from heedful.config.tasks import TASKS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema of a recipe's file."""
    made = Recipe.model_json_schema()
    tables = _tables()
    definitions = {name: _described(schema, tables[name]) for name, schema in made.pop("$defs").items()}
    top = _described(made, Recipe)
    top["properties"] = {"extends": {"type": "string", "description": EXTENDS}, **top["properties"]}
    return {
        "$schema": _DIALECT,
        "title": "A recipe of Heedful",
        "description": "One model, from its data to its scores.",
        **{key: value for key, value in top.items() if key not in ("title", "description")},
        "if": {"required": ["extends"]},
        "else": {"required": ["data"]},
        "$defs": definitions,
    }


def _tables() -> dict[str, type[Section]]:
    """Return the classes of all tables by name."""
    held = {table.__name__: table for entry in all_entries() for table in entry.tables.values()}
    return {**held, Recipe.__name__: Recipe}


def _described(schema: dict[str, Any], table: type[Section]) -> dict[str, Any]:
    """Add meanings to the keys of a table, and remove what says nothing to an editor."""
    properties = {}
    for key, made in schema["properties"].items():
        entry = KeyEntry(key, table, (), ())
        said = {
            name: part
            for name, part in made.items()
            if name not in ("title", "description", "discriminator", "examples")
        }
        properties[key] = {**_short_forms(said, entry), "description": entry.meaning.replace("\n", "\n\n")}
        if entry.tables:
            properties[key].pop("default", None)
    described = {key: part for key, part in schema.items() if key not in ("title", "required", "properties")}
    return {**described, "description": table_meaning(table), "properties": properties}


def _short_forms(schema: dict[str, Any], entry: KeyEntry) -> dict[str, Any]:
    """Allow the shorter ways to write a table: one corpus instead of a list, the name of a kind instead of a table."""
    if entry.key == "metric":
        return {**schema, "enum": list(dict.fromkeys(name for rules in TASKS.values() for name in rules.metrics))}
    if is_list(entry.field.annotation):
        one = {"anyOf": schema["items"].get("oneOf", [schema["items"]])}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": int(entry.required)}]}
    options = schema.get("oneOf") or schema.get("anyOf", [])
    kinds = [kind_of(table) for table in entry.tables.values() if mark_of(table)]
    if len(kinds) < 2:
        return schema
    tables = [part for option in options for part in option.get("oneOf", [option]) if "$ref" in part]
    return {"anyOf": [{"enum": kinds}, *tables]}

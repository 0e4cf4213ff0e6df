"""YAML text becomes plain values, with the line each of them stands on.

YAML 1.2 without its machinery: anchors, merge keys and tags are refused, so that a sweep file means what it shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.tokens import (
    AliasToken,
    AnchorToken,
    BlockEndToken,
    BlockMappingStartToken,
    BlockSequenceStartToken,
    FlowMappingEndToken,
    FlowMappingStartToken,
    FlowSequenceEndToken,
    FlowSequenceStartToken,
    TagToken,
)

from bench.sweep.faults import Location, dotted
from bench.sweep.trial import show_value

DEEPEST = 30
"""Sections within sections that are read."""

_OPENING = (BlockMappingStartToken, BlockSequenceStartToken, FlowMappingStartToken, FlowSequenceStartToken)
_CLOSING = (BlockEndToken, FlowMappingEndToken, FlowSequenceEndToken)

LinedSentence = tuple[int, str]
"""Line number, counted from 1, and what is wrong there."""


@dataclass(frozen=True)
class Document:
    """Hold a YAML document twice: as plain values, and with positions."""

    plain: Any
    """Dictionaries, lists, numbers, texts, booleans and null only; a date stays a date."""
    positioned: Any
    """The same as ruamel.yaml keeps it, with a line for each key and list item."""

    def line(self, location: Location) -> int:
        """Find the line of a key or list item; of the nearest section around it when it is missing."""
        line, part = 1, self.positioned
        for name in location:
            key: Any = name
            if isinstance(part, CommentedMap):
                key = next((its for its in part if _key_text(its) == str(name)), part)
            if isinstance(part, CommentedMap) and key is not part:
                line = part.lc.key(key)[0] + 1
            elif isinstance(part, CommentedSeq) and isinstance(key, int) and key < len(part):
                line = part.lc.item(key)[0] + 1
            else:
                break
            part = part[key]
        return int(line)


def read_document(text: str) -> tuple[Document | None, list[LinedSentence]]:
    """Parse YAML text. The document is null when the text is not YAML; then the one fault says where it breaks."""
    yaml = YAML(typ="rt", pure=True)
    yaml.allow_duplicate_keys = True  # found below, all of them, and in words of our own
    try:
        refused = list(_machinery(text))
        if refused:
            return None, refused
        faults = list(_duplicate_keys(yaml.compose(text), ()))
        positioned = yaml.load(text)
        return Document(_plain(positioned), positioned), faults
    except MarkedYAMLError as error:
        marks = [error.problem_mark, error.context_mark]
        if "end of stream" in str(error.problem):
            marks.reverse()  # what is not closed is where it opens
        mark = next((mark for mark in marks if mark is not None), None)
        return None, [(mark.line + 1 if mark else 1, _syntax_in_words(error))]
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, [(line, f"This is not YAML: character U+{_code(error.character):04X} is not allowed. Remove it.")]
    except (YAMLError, ValueError) as error:
        return None, [
            (1, f"This is not YAML: {' '.join(str(error).split())}. `bench init quickstart` writes a file that is.")
        ]


def _code(character: int | str) -> int:
    return character if isinstance(character, int) else ord(character)


def _machinery(text: str) -> Iterator[LinedSentence]:
    """Find anchors, aliases, tags and merge keys, and stop at a depth no sweep has, where parsing gets slow."""
    words = {AnchorToken: "an anchor (&)", AliasToken: "an alias (*)", TagToken: "a tag (!)"}
    depth = 0
    for token in YAML(typ="rt", pure=True).scan(text):
        depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
        if depth > DEEPEST:
            yield token.start_mark.line + 1, "Sections are nested too deeply. A sweep file needs five levels at most."
            return
        line = token.start_mark.line + 1
        if type(token) in words:
            yield line, f"A sweep file may not use {words[type(token)]}. Write the value out where it is needed."
        elif getattr(token, "value", None) == "<<" and getattr(token, "plain", False):
            yield line, "A sweep file may not use a merge key (<<). Write the keys out where they are needed."


def _duplicate_keys(node: Node | None, location: Location) -> Iterator[LinedSentence]:
    """Find keys written twice in one section: YAML readers differ on which of the two they keep."""
    if isinstance(node, SequenceNode):
        for position, item in enumerate(node.value):
            yield from _duplicate_keys(item, (*location, position))
    if not isinstance(node, MappingNode):
        return
    first_line: dict[str, int] = {}
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        inner = (*location, name)
        if name in first_line:
            yield line, f"{dotted(inner)} is written twice, first on line {first_line[name]}. Keep one of the two."
        first_line.setdefault(name, line)
        yield from _duplicate_keys(value, inner)


def _plain(value: Any) -> Any:
    """Turn ruamel.yaml's types into Python's own."""
    if isinstance(value, CommentedMap):
        return {_key_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, CommentedSeq):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    for plain_type in (int, float, str):
        if isinstance(value, plain_type):
            return plain_type(value)
    return value


def _key_text(key: Any) -> str:
    """Write a key as text: one that YAML reads as null, a number, a boolean or a date is an unknown key like others."""
    return str(key) if isinstance(key, str) else show_value(key)


_SYNTAX_WORDS = (
    ("'\\t'", "a tab where only spaces are allowed", "Indent with spaces"),
    ("'@'", "a plain value cannot begin with @", "Put quotes round it"),
    ("'`'", "a plain value cannot begin with `", "Put quotes round it"),
    ("'%'", "a plain value cannot begin with %", "Put quotes round it"),
    (
        "mapping values are not allowed",
        "a colon in the wrong place",
        "Check that the line above has its colon, and put quotes round a value that contains one",
    ),
    ("could not find expected ':'", "a key without its colon", "Write key: value, with a space after the colon"),
    ("expected ',' or ']'", "a list [ that is not closed, or lacks a comma", "Close it with ]"),
    ("expected ',' or '}'", "a section { that is not closed, or lacks a comma", "Close it with }"),
    (
        "expected <block end>",
        "the indentation does not match the lines above",
        "Align the keys of a section with spaces",
    ),
    ("found unexpected end of stream", "a quote that is not closed", "Close the quote"),
    ("another document", "a second document begins (---)", "Keep one sweep per file"),
)


def _syntax_in_words(error: MarkedYAMLError) -> str:
    """Say what breaks the syntax, in words where the common slips are concerned."""
    problem = " ".join(str(part) for part in (error.problem, error.context) if part)
    for pattern, words, way_out in _SYNTAX_WORDS:
        if pattern in problem:
            return f"This is not YAML: {words}. {way_out}."
    return f"This is not YAML: {error.problem or error}. Compare with what `bench init quickstart` writes."

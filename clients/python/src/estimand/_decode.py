"""JSON as dataclasses: `dataName` becomes `data_name`.

Fields that are not known are passed over, as a newer service may send them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Callable, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def decode(kind: type[T], document: Any) -> T:
    """A document as an instance of a dataclass."""
    if not isinstance(document, dict):
        raise ValueError(f"expected an object for {kind.__name__}")
    given = {}
    for key, name, reader in _fields(cast(Any, kind)):
        value = document.get(key)
        if value is not None:
            given[name] = reader(value) if reader else value
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(str(error)) from None


def decode_all(kind: type[T], documents: Any) -> list[T]:
    """A list of documents."""
    if not isinstance(documents, list):
        raise ValueError(f"expected a list of {kind.__name__}")
    return [decode(kind, document) for document in documents]


def instant(text: str) -> datetime:
    """An instant as services write it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((_key(f), f.name, _reader(hints[f.name])) for f in dataclasses.fields(kind))


def _key(field: dataclasses.Field[Any]) -> str:
    """The name on the wire. A keyword of Python has a `_` behind it."""
    if "key" in field.metadata:
        return str(field.metadata["key"])
    first, *rest = field.name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _reader(hint: Any) -> Any:
    """A function for what JSON does not have by itself; none for all else."""
    if get_origin(hint) is Union:
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        return _reader(kinds[0]) if len(kinds) == 1 else None
    if hint is datetime:
        return instant
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return lambda document: decode(hint, document)
    if get_origin(hint) is Sequence:
        return _sequence(get_args(hint)[0])
    return None


def _sequence(of: Any) -> Callable[[Any], Any]:
    reader = _reader(of)
    return lambda items: tuple(reader(item) if reader else item for item in items)


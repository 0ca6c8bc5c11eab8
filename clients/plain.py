"""Copies an OpenAPI document without three things that openapi-generator does not read right.

Conditions between fields (a `oneOf` or `anyOf` beside properties, or inside an `allOf`, says which fields go together) it
takes for requirements of all of them, or does not come to an end; numbers without the formats `int32` or `int64` for 32
bits, whatever their maximum. Of a value that may be of several types it makes one of the first of them; here each is a choice.
"""

import json
import sys

MOST = 2**63 - 1
CHOICES = {"oneOf", "anyOf"}


def plain(part):
    if isinstance(part, list):
        return [plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    rest = [one for one in part.get("allOf", []) if not CHOICES & set(one)]
    left_out = {"allOf"} | (CHOICES if isinstance(part.get("properties"), dict) and part.get("type") == "object" else set())
    kept = {key: plain(one) for key, one in part.items() if key not in left_out} | ({"allOf": plain(rest)} if rest else {})
    kinds = kept.get("type")
    if isinstance(kinds, list) and len([kind for kind in kinds if kind != "null"]) > 1:
        return {"description": kept.get("description", ""), "oneOf": [one_of(kept, kind) for kind in kinds]}
    if kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds):
        if kept.get("format") != "int32":
            kept["format"] = "int64"
        if kept.get("maximum", 0) > MOST:
            kept["maximum"] = MOST
    return kept


def one_of(part, kind):
    """The part as it is if its value is of that one of its types."""
    return {"type": kind} | ({"items": part.get("items", {})} if kind == "array" else {})


json.dump(plain(json.load(sys.stdin)), sys.stdout)

"""Copies an OpenAPI document without two things that openapi-generator does not read right.

Conditions between fields (a `oneOf` or `anyOf` inside an `allOf` says which fields go together) it takes for requirements of
all of them; numbers without the formats `int32` or `int64` for 32 bits, whatever their maximum.
"""

import json
import sys

MOST = 2**63 - 1


def plain(part):
    if isinstance(part, list):
        return [plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    rest = [one for one in part.get("allOf", []) if not {"oneOf", "anyOf"} & set(one)]
    kept = {key: plain(one) for key, one in part.items() if key != "allOf"} | ({"allOf": plain(rest)} if rest else {})
    kinds = kept.get("type")
    if kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds):
        if kept.get("format") != "int32":
            kept["format"] = "int64"
        if kept.get("maximum", 0) > MOST:
            kept["maximum"] = MOST
    return kept


json.dump(plain(json.load(sys.stdin)), sys.stdout)

"""Events become pictures, each of one revision."""

from __future__ import annotations

import json
import unittest
from typing import Optional

from estimand.picture import Assembly, EventBlock, Picture, WatchEvent


def block(event: str, document: object, id: int) -> bytes:
    return f": comment\nevent: {event}\ndata: {json.dumps(document)}\nid: {id}".encode()


def value(name: str, node: str, number: object, revision: int, state: str = "fresh") -> dict[str, object]:
    at = "2026-01-31T23:59:59.000001Z"
    given = {"dataName": name, "nodeName": node, "dataValue": number, "state": state, "revision": revision}
    return {**given, "collectedAt": at, "receivedAt": at, "unknown": 1}


def event(kind: str, document: object, id: int) -> WatchEvent:
    parsed: Optional[WatchEvent] = EventBlock.parse(block(kind, document, id)).watch_event()
    assert parsed is not None
    return parsed


def snapshot(*values: object, revision: int) -> WatchEvent:
    return event("snapshot", {"revision": revision, "reason": "start", "values": values}, revision)


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        self.assembly = Assembly(["cpu", "load", "disk*"])
        self.assembly.apply(snapshot(value("cpu", "a", 1, 5), revision=5))

    def picture(self) -> Picture:
        assert self.assembly.picture is not None
        return self.assembly.picture

    def test_a_watched_name_is_there_without_values(self) -> None:
        self.assertEqual(dict(self.picture()["load"]), {})
        self.assertNotIn("disk*", self.picture())

    def test_a_batch_is_there_when_it_has_settled(self) -> None:
        before = self.picture()
        self.assertFalse(self.assembly.apply(event("change", value("cpu", "a", 2, 6), 6)))
        self.assertFalse(self.assembly.apply(event("change", value("load", "a", 7, 7), 7)))
        self.assertIs(self.picture(), before)
        self.assertTrue(self.assembly.apply(event("settled", {"revision": 7}, 7)))
        self.assertEqual((self.picture()["cpu"]["a"], self.picture()["load"]["a"]), (2, 7))
        self.assertEqual(self.picture().revision, 7)
        self.assertEqual((before["cpu"]["a"], before.revision), (1, 5))

    def test_a_deleted_value_is_gone(self) -> None:
        before = self.picture()
        self.assembly.apply(event("delete", {"dataName": "cpu", "nodeName": "a", "revision": 6}, 6))
        self.assembly.apply(event("settled", {"revision": 6}, 6))
        self.assertEqual(dict(self.picture()["cpu"]), {})
        self.assertEqual(dict(before["cpu"]), {"a": 1})

    def test_a_name_of_a_pattern_goes_with_its_last_value(self) -> None:
        self.assembly.apply(event("change", value("disk_a", "a", 1, 6), 6))
        self.assembly.apply(event("settled", {"revision": 6}, 6))
        self.assertIn("disk_a", self.picture())
        self.assembly.apply(event("delete", {"dataName": "disk_a", "nodeName": "a", "revision": 7}, 7))
        self.assembly.apply(event("settled", {"revision": 7}, 7))
        self.assertNotIn("disk_a", self.picture())

    def test_a_snapshot_voids_what_was_before(self) -> None:
        self.assembly.apply(event("change", value("cpu", "a", 2, 6), 6))
        self.assembly.apply(snapshot(value("cpu", "b", 3, 9), revision=9))
        self.assertFalse(self.assembly.apply(event("settled", {"revision": 9}, 9)))
        self.assertEqual(dict(self.picture()["cpu"]), {"b": 3})

    def test_only_fresh_values_when_one_asks_for_them(self) -> None:
        self.assembly.apply(event("change", value("cpu", "b", 2, 6, state="stale"), 6))
        self.assembly.apply(event("settled", {"revision": 6}, 6))
        self.assertEqual(dict(self.picture()["cpu"]), {"a": 1, "b": 2})
        self.assertEqual(dict(self.picture()["cpu"].fresh()), {"a": 1})
        self.assertEqual(self.picture()["cpu"].record("b").state, "stale")

    def test_comments_and_unknown_events_are_passed_over(self) -> None:
        for lines in (b": nothing", b"event: new\ndata: {}", b""):
            self.assertIsNone(EventBlock.parse(lines).watch_event())


if __name__ == "__main__":
    unittest.main()

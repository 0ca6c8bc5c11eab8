"""Values, bindings, mirrors and registrations, against a real server."""

from __future__ import annotations

import threading
import time
import unittest
from datetime import datetime, timedelta, timezone

from server import PATIENCE, shared

from estimand import Changed, Client, Settled, Snapshot, Write
from estimand.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnauthorizedError,
)


class WithServer(unittest.TestCase):
    def setUp(self) -> None:
        self.client = shared().client()
        self.addCleanup(self.client.close)


class Values(WithServer):
    def test_a_value_is_written_and_read_with_its_state(self) -> None:
        at = datetime.now(timezone.utc) - timedelta(minutes=1)
        receipt = self.client.put("v_one", "n", {"a": [1, "ä"]}, collected_at=at, valid_for="1s")
        self.assertEqual(receipt.outcome, "created")
        value = self.client.value("v_one", "n")
        assert value is not None
        self.assertEqual((value.value, value.state, value.revision), ({"a": [1, "ä"]}, "stale", receipt.revision))
        self.assertEqual((value.collected_at, value.valid_for), (at, 1))
        self.assertEqual(self.client.put("v_one", "n", None).outcome, "replaced")
        self.assertEqual(dict(self.client.values("v_one")["v_one"]), {"n": None})

    def test_a_value_that_is_not_there_is_none_and_a_part_of_it_an_error(self) -> None:
        self.assertIsNone(self.client.value("v_nothing", "n"))
        self.assertEqual(dict(self.client.values("v_nothing")["v_nothing"]), {})
        self.client.put("v_part", "n", {"cpu": 1})
        with self.assertRaisesRegex(NotFoundError, "cpu") as raised:
            self.client.value("v_part", "n", field="/disk")
        self.assertEqual(raised.exception.kind, "no-such-field")

    def test_nodes_and_values_are_chosen(self) -> None:
        self.client.put_all([Write("v_chosen", f"n{number}", number) for number in range(5)])
        chosen = self.client.values("v_chosen", node=["n1", "n3", "nowhere"], where="value>1")
        self.assertEqual(dict(chosen["v_chosen"]), {"n3": 3})
        # Too many for a URL.
        nodes = [f"some-node-{number:05}" for number in range(5000)]
        chosen = self.client.values("v_chosen", node=[*nodes, "n2"], states=["fresh"], limit=7)
        self.assertEqual(dict(chosen["v_chosen"]), {"n2": 2})
        with self.client.mirror("v_chosen", where="value>=4") as values:
            self.assertEqual(dict(values["v_chosen"]), {"n4": 4})

    def test_a_batch_of_a_thousand_is_there_as_a_whole(self) -> None:
        nodes = [f"n{number}" for number in range(1000)]
        with self.client.mirror("v_many") as values:
            before = values.picture
            receipt = self.client.put_all(Write("v_many", node, number) for number, node in enumerate(nodes))
            self.assertEqual((receipt.created, receipt.replaced), (1000, 0))
            after = values.wait(before, timeout=PATIENCE)
            self.assertEqual(dict(after["v_many"]), {node: number for number, node in enumerate(nodes)})
        read = self.client.values("v_many")
        self.assertEqual(read["v_many"], after["v_many"])
        # Other names are written meanwhile, by the collectors of other tests.
        for picture in (read, after):
            self.assertGreaterEqual(picture.revision, receipt.revision)
            revisions = [record.revision for record in picture["v_many"].records().values()]
            self.assertEqual(sorted(revisions), list(range(receipt.revision - 999, receipt.revision + 1)))
        greatest = self.client.values("v_many", sort="-value", limit=2)
        self.assertEqual(list(greatest["v_many"].items()), [("n999", 999), ("n998", 998)])
        self.assertEqual(self.client.delete_values("v_many").deleted, 1000)

    def test_a_wrong_batch_says_what_would_be_right_and_leaves_nothing(self) -> None:
        with self.assertRaisesRegex(InvalidInputError, r"\[1\]\.dataName.*given 1st; expected a letter") as raised:
            self.client.put_all([Write("v_half", "n", 1), Write("1st", "n", 1)])
        self.assertEqual([error.field for error in raised.exception.errors], ["[1].dataName"])
        self.assertIsNone(self.client.value("v_half", "n"))

    def test_the_past_is_kept_for_a_name_with_a_history(self) -> None:
        self.client.register({"dataName": "v_past", "cmd": "true", "max-Time": 60, "paused": True, "history": "1h"})
        self.addCleanup(self.client.unregister, "v_past", force=True)
        for number in range(3):
            self.client.put("v_past", "n", number)
        self.assertEqual([past.value for past in self.client.history("v_past", since="1h")], [0, 1, 2])


class Mirrors(WithServer):
    def test_a_mirror_is_current_for_every_thread(self) -> None:
        self.client.put("m_cpu", "n", 0)
        with self.client.mirror("m_cpu") as values:
            seen: list[list[int]] = [[] for _ in range(4)]

            def read(into: list[int]) -> None:
                while not into or into[-1] < 20:
                    into.append(values["m_cpu"]["n"])

            threads = [threading.Thread(target=read, args=(into,)) for into in seen]
            for thread in threads:
                thread.start()
            for number in range(1, 21):
                self.client.put("m_cpu", "n", number)
            for thread in threads:
                thread.join(PATIENCE)
            for numbers in seen:
                self.assertEqual(numbers[-1], 20)
                self.assertEqual(numbers, sorted(numbers))

    def test_names_that_are_written_together_are_seen_together(self) -> None:
        self.client.put_all([Write("m_a", "n", 0), Write("m_b", "n", 0)])
        with self.client.mirror("m_a", "m_b") as values:
            picture = values.picture
            for number in range(1, 21):
                self.client.put_all([Write("m_a", "n", number), Write("m_b", "n", number)])
            while picture["m_a"]["n"] < 20:
                picture = values.wait(picture, timeout=PATIENCE)
                self.assertEqual(picture["m_a"]["n"], picture["m_b"]["n"])

    def test_a_swapped_binding_brings_other_values(self) -> None:
        self.client.put_all([Write("m_old", "n", 1), Write("m_new", "n", {"x": 2})])
        self.client.bind("m_bound", "m_old")
        with self.client.mirror("m_bound") as values:
            before = values.picture
            self.assertEqual(before["m_bound"]["n"], 1)
            binding = self.client.bind("m_bound", "m_new", field="/x", only_from="m_old")
            self.assertEqual((binding.to, binding.field), ("m_new", "/x"))
            assert binding.before is not None
            self.assertEqual(binding.before.to, "m_old")
            self.assertEqual(values.wait(before, timeout=PATIENCE)["m_bound"]["n"], 2)
            after = values.picture
            self.assertEqual(self.client.roll_back("m_bound").to, "m_old")
            self.assertEqual(values.wait(after, timeout=PATIENCE)["m_bound"]["n"], 1)
        with self.assertRaises(ConflictError):
            self.client.bind("m_bound", "m_new", only_from="m_new")
        actions = [swap.action for swap in self.client.binding_history("m_bound")]
        self.assertEqual(actions, ["rolled-back", "bound", "bound"])
        self.client.unbind("m_bound")
        self.assertNotIn("m_bound", [binding.data_name for binding in self.client.bindings()])

    def test_a_mirror_is_closed_while_nothing_comes(self) -> None:
        mirror = self.client.mirror("m_quiet")
        with mirror:
            pass
        self.assertEqual(dict(mirror["m_quiet"]), {})
        self.assertFalse(mirror.is_connected)
        self.assertNotIn("estimand-mirror", [thread.name for thread in threading.enumerate()])

    def test_a_refused_mirror_says_why(self) -> None:
        with self.assertRaisesRegex(InvalidInputError, "given 1st; expected a letter"), self.client.mirror("1st"):
            pass

    def test_a_watch_gives_the_events_themselves(self) -> None:
        watch = self.client.watch("m_watch")
        first = next(watch)
        assert isinstance(first, Snapshot)
        self.assertEqual((first.reason, list(first.values)), ("start", []))
        watch.close()
        self.assertEqual(list(watch), [])

    def test_a_connection_that_breaks_is_gone_on_with_behind_its_revision(self) -> None:
        watch = self.client.watch("m_resume")
        self.addCleanup(watch.close)
        self.assertIsInstance(next(watch), Snapshot)
        self.client.put("m_resume", "n", 1)
        self.assertEqual([type(next(watch)), type(next(watch))], [Changed, Settled])
        assert watch._response is not None
        watch._response.connection.interrupt()
        self.client.put("m_resume", "n", 2)
        event = next(watch)
        assert isinstance(event, Changed)
        self.assertEqual(event.value.value, 2)

    def test_a_revision_that_came_in_part_comes_again_as_a_whole(self) -> None:
        self.client.put("m_part", "n", 1)
        self.client.bind("m_part_bound", "m_part")
        self.addCleanup(self.client.unbind, "m_part_bound")
        watch = self.client.watch("m_part", "m_part_bound")
        self.addCleanup(watch.close)
        self.assertIsInstance(next(watch), Snapshot)
        revision = self.client.put("m_part", "n", 2).revision
        self.assertIsInstance(next(watch), Changed)
        # The connection breaks between two events of one revision: what has come of the second is lost.
        watch._drop()
        last = self.client.put("m_part", "n", 3).revision
        changed = set()
        event = next(watch)
        while not (isinstance(event, Settled) and event.revision >= last):
            if isinstance(event, Changed):
                changed.add((event.value.data_name, event.value.revision))
            event = next(watch)
        self.assertLessEqual({("m_part", revision), ("m_part_bound", revision)}, changed)


class Registrations(WithServer):
    def test_a_registration_lives(self) -> None:
        made = self.client.register({"dataName": "r_echo", "cmd": ["/bin/echo", "7"], "max-Time": 0.2})
        self.assertEqual((made["version"], made["max-Time"]), (1, 0.2))
        with self.client.mirror("r_echo") as values:
            picture = values.picture
            while not picture["r_echo"]:
                picture = values.wait(picture, timeout=PATIENCE)
            self.assertEqual(dict(picture["r_echo"]), {"node-1": 7})
        self.assertEqual(self.client.patch("r_echo", {"max-Time": 5})["version"], 2)
        self.assertEqual([instance["nodeName"] for instance in self.client.instances("r_echo")], ["node-1"])
        with self.assertRaisesRegex(ConflictError, "r_echo"):
            self.client.register({"dataName": "r_echo", "cmd": "true", "max-Time": 5})
        self.assertIn("r_echo", [one["dataName"] for one in self.client.registrations()])
        self.assertIsNone(self.client.unregister("r_echo"))
        with self.assertRaises(NotFoundError):
            self.client.registration("r_echo")
        actions = [change.action for change in self.client.registration_history("r_echo")]
        self.assertEqual(actions, ["deleted", "replaced", "created"])

    def test_several_are_changed_or_none(self) -> None:
        outcomes = self.client.change_registrations(
            [{"dataName": "r_set", "cmd": "true", "max-Time": 5, "paused": True}], config_set="a", dry_run=True
        )
        self.assertEqual([(o["dataName"], o["outcome"]) for o in outcomes], [("r_set", "created")])
        self.assertNotIn("r_set", [one["dataName"] for one in self.client.registrations()])

    def test_every_wrong_field_is_named(self) -> None:
        with self.assertRaises(InvalidInputError) as raised:
            self.client.register({"dataName": "1st", "cmd": "x", "maxTime": 5})  # type: ignore[typeddict-unknown-key]
        text = str(raised.exception)
        for part in ("dataName: ", "max-Time: is missing", "expected `max-Time`?"):
            self.assertIn(part, text)


class Nodes(WithServer):
    def test_a_node_is_labelled_and_cordoned(self) -> None:
        self.assertEqual(self.client.label("node-1", {"zone": "a"}).labels["zone"], "a")
        self.client.put("n_value", "node-1", 1)
        until = time.monotonic() + PATIENCE
        while not self.client.values("n_value", nodes="zone=a")["n_value"]:
            self.assertLess(time.monotonic(), until)
        self.assertNotIn("zone", self.client.label("node-1", {"zone": None}).labels)
        self.assertTrue(self.client.cordon("node-1").cordoned)
        self.assertFalse(self.client.cordon("node-1", False).cordoned)
        self.assertEqual([(node.node_name, node.state) for node in self.client.nodes()], [("node-1", "ready")])


class Tokens(unittest.TestCase):
    def test_a_wrong_token_is_refused_with_what_to_do(self) -> None:
        with Client(shared().address, token="wrong") as client:
            with self.assertRaisesRegex(UnauthorizedError, "not known here.*ESTIMAND_TOKEN"):
                client.nodes()
            with self.assertRaises(UnauthorizedError), client.mirror("cpu"):
                pass

    def test_without_a_token_tasks_are_refused(self) -> None:
        with Client(shared().address) as client, self.assertRaises((UnauthorizedError, ForbiddenError)):
            client.submit({"command": "/bin/true"})


if __name__ == "__main__":
    unittest.main()

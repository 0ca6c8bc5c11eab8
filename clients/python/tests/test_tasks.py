"""Tasks, their logs and events, and files, against a real server."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
import unittest
import uuid
from pathlib import Path

from server import PATIENCE, shared

from estimand._http import Answer, QueryValue, Request
from estimand.errors import ConflictError, DigestError, GoneError, InvalidInputError, NotFoundError, TaskFailedError


class WithServer(unittest.TestCase):
    def setUp(self) -> None:
        self.client = shared().client()
        self.addCleanup(self.client.close)


class Tasks(WithServer):
    def test_a_task_is_submitted_once_and_its_output_read(self) -> None:
        key = uuid.uuid4().hex
        document = {"command": ["/bin/sh", "-c", "echo out; echo err >&2"], "labels": {"test": "once"}}
        task = self.client.submit(document, key=key)  # type: ignore[arg-type]
        self.assertEqual(self.client.submit(document, key=key).id, task.id)  # type: ignore[arg-type]
        over = self.client.wait(task.id, timeout=PATIENCE, check=True)
        self.assertTrue(over.succeeded)
        self.assertEqual((over.node, over.end_in_words()), ("node-1", "exit code 0"))
        self.assertEqual([change.to for change in over.transitions][-1], "SUCCEEDED")
        (used,) = over.used
        self.assertEqual(used.attempt, 1)
        self.assertGreater(used.usage.ran_us, 0)
        self.assertEqual({line.text for line in self.client.logs(task.id)}, {"out", "err"})
        self.assertEqual([line.text for line in self.client.logs(task.id, stream="STDERR")], ["err"])
        self.assertEqual([found.id for found in self.client.tasks(labels="test=once").tasks], [task.id])

    def test_a_task_that_fails_says_how_and_shows_its_last_lines(self) -> None:
        task = self.client.submit({"command": ["/bin/sh", "-c", "seq 9; echo no such sensor >&2; exit 3"]})
        over = self.client.wait(task.id, timeout=PATIENCE)
        self.assertEqual((over.state, over.succeeded, over.ending), ("FAILED", False, {"exit": 3}))
        with self.assertRaisesRegex(TaskFailedError, "(?s)FAILED: exit code 3.*no such sensor") as raised:
            self.client.wait(task.id, check=True)
        self.assertEqual(raised.exception.task.id, task.id)
        refused = self.client.submit({"command": ["/nowhere/program"], "retries": 0})
        with self.assertRaisesRegex(TaskFailedError, "not started"):
            self.client.wait(refused.id, timeout=PATIENCE, check=True)

    def test_a_log_is_followed_while_the_task_runs(self) -> None:
        task = self.client.submit({"command": ["/bin/sh", "-c", "for n in 1 2 3; do echo $n; sleep 0.2; done"]})
        self.assertEqual([line.text for line in self.client.logs(task.id, follow=True)], ["1", "2", "3"])
        self.assertEqual([line.text for line in self.client.logs(task.id, tail=1)], ["3"])

    def test_a_task_says_how_far_it_is(self) -> None:
        line = """estimand-progress {"step": '$n', "of": 2, "values": {"loss": 0.'$n'}}"""
        script = f"for n in 1 2; do echo '{line}'; done"
        task = self.client.submit({"command": ["/bin/sh", "-c", script], "labels": {"test": "progress"}})
        told = list(itertools.islice(self.client.progress(labels="test=progress"), 2))
        self.assertEqual([(report.id, report.step, report.of) for report in told], [(task.id, 1, 2), (task.id, 2, 2)])
        self.assertEqual(told[1].values, {"loss": 0.2})
        page = self.client.progress_page(after=told[0].revision, id=task.id, wait=PATIENCE)
        self.assertEqual([report.revision for report in page.reports], [told[1].revision])
        over = self.client.wait(task.id, timeout=PATIENCE, check=True)
        assert over.progress is not None
        self.assertEqual((over.progress.step, over.progress.attempt, over.progress_problem), (2, 1, None))

    def test_an_unfinished_line_is_seen_and_each_byte_is_there(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        answer = Path(folder.name, "answer")
        script = f"printf 'Really? '; while [ ! -e {answer} ]; do sleep 0.05; done; printf '\\377\\n'; printf 'no end'"
        task = self.client.submit({"command": ["/bin/sh", "-c", script]})
        page = self.client.log_page(task.id)
        while not page.open and not page.over:
            page = self.client.log_page(task.id, start=page.next, open=page.open_revision, wait=5)
        self.assertEqual([(line.stream, line.text) for line in page.open], [("STDOUT", "Really? ")])
        answer.touch()
        self.client.wait(task.id, timeout=PATIENCE)
        written = b"".join(line.written for line in self.client.logs(task.id))
        self.assertEqual(written, b"Really? \xff\nno end")

    def test_an_array_and_what_comes_after_it(self) -> None:
        array = f"a{uuid.uuid4().hex[:8]}"
        self.client.submit({"id": array, "count": 3, "command": ["/bin/sh", "-c", "exit $ESTIMAND_TASK_INDEX"]})
        never = self.client.submit({"command": "/bin/true", "after": [array]})
        after = self.client.submit({"command": "/bin/true", "after": [{"id": array, "on": "end"}]})
        with self.assertRaisesRegex(TaskFailedError, "'FAILED': 2"):
            self.client.wait(array, timeout=PATIENCE, check=True)
        self.assertRegex(self.client.wait(never.id, timeout=PATIENCE).end_in_words(), f"never ran, because of {array}")
        self.assertTrue(self.client.wait(after.id, timeout=PATIENCE).succeeded)
        self.assertEqual(len(self.client.tasks(array=array).tasks), 3)

    def test_a_task_that_waits_says_for_what_and_is_cancelled(self) -> None:
        task = self.client.submit({"command": "/bin/true", "resources": {"gpu": 2}})
        self.assertRegex(task.hint or "", "gpu")
        with self.assertRaisesRegex(TimeoutError, "it is QUEUED"):
            self.client.wait(task.id, timeout=0.2)
        self.assertEqual(self.client.cancel(task.id).state, "CANCELLED")
        self.client.delete_task(task.id)
        with self.assertRaises(NotFoundError):
            self.client.task(task.id)

    def test_a_task_saves_its_work_and_goes_back_to_the_queue_or_ends(self) -> None:
        script = "trap 'echo saved; exit 0' USR1; echo on; while :; do sleep 0.05; done"
        task = self.client.submit({"command": ["/bin/sh", "-c", script], "checkpointGrace": "1h"})
        first = self.client.logs(task.id, follow=True)
        self.assertEqual(next(first).text, "on")
        self.assertEqual(self.client.yield_task(task.id, grace="1h").state, "STOPPING")
        lines = [line.text for line in itertools.islice(first, 2)]
        self.assertEqual(lines, ["saved", "on"])
        self.client.cancel(task.id, checkpoint=True)
        over = self.client.wait(task.id, timeout=PATIENCE)
        self.assertEqual((over.state, over.ending, over.program), ("CANCELLED", "cancelled", {"exit": 0}))
        self.assertEqual((over.attempt, over.failures), (2, 0))
        with self.assertRaisesRegex(ConflictError, "is CANCELLED"):
            self.client.yield_task(task.id)
        with self.assertRaisesRegex(InvalidInputError, "kills it at once"):
            self.client.cancel(task.id, grace=0, checkpoint=True)
        waits = self.client.submit({"command": "/bin/true", "resources": {"gpu": 2}})
        self.assertRegex(self.client.yield_task(waits.id).hint or "", "waits already")
        self.client.cancel(waits.id, grace=0)

    def test_a_wrong_task_is_refused_with_what_would_be_right(self) -> None:
        with self.assertRaisesRegex(InvalidInputError, "(?s)`image` is missing.*comand.*expected `command`"):
            self.client.submit({"comand": "/bin/true"})  # type: ignore[typeddict-unknown-key]

    def test_capacity_is_what_the_node_has(self) -> None:
        (node,) = self.client.capacity()
        self.assertEqual((node.node, node.standing), ("node-1", "up"))
        self.assertLessEqual(node.free["cpu"], node.capacity["cpu"])


class Events(WithServer):
    def test_the_feed_goes_on_after_a_revision(self) -> None:
        before = self.client.tasks(limit=1).revision
        task = self.client.submit({"command": "/bin/true"})
        states = []
        for event in self.client.events(after=before, id=task.id):
            self.assertGreater(event.revision, before)
            states.append(event.to)
            if event.to == "SUCCEEDED":
                break
        self.assertEqual(states[0], "QUEUED")
        self.assertEqual(len(self.client.event_page(after=event.revision, id=task.id).events), 0)

    def test_a_feed_that_is_not_kept_is_410_and_goes_on_from_the_list(self) -> None:
        # A revision of another store: what follows it is not kept here.
        with self.assertRaisesRegex(GoneError, "read the tasks anew") as raised:
            next(self.client.events(after=999_999_999))
        self.assertEqual(raised.exception.status, 410)
        after = self.client.tasks().revision
        task = self.client.submit({"command": "/bin/true"})
        self.assertEqual(next(self.client.events(after=after)).id, task.id)


class Files(WithServer):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = f"t{uuid.uuid4().hex[:8]}/file.bin"
        # Small pieces, so that a small file has many.
        self.client = shared().client(piece=1000)
        self.addCleanup(self.client.close)
        self.sent: list[Request] = []
        send = self.client._transport.send

        def spy(request: Request) -> Answer:
            self.sent.append(request)
            return send(request)

        self.client._transport.send = spy  # type: ignore[method-assign]

    def local(self, content: bytes) -> Path:
        file = self.folder / "local"
        file.write_bytes(content)
        return file

    def pieces(self, method: str) -> int:
        return sum(1 for one in self.sent if one.method == method and one.path[-1] == "content")

    def test_a_file_goes_there_and_back_in_pieces(self) -> None:
        content = bytes(range(256)) * 10
        entry = self.client.upload(self.local(content), self.path)
        self.assertEqual((entry.size, self.pieces("PUT")), (2560, 3))
        self.assertEqual(self.client.upload(self.folder / "local", self.path).sha256, entry.sha256)
        self.assertEqual(self.pieces("PUT"), 3, "what is there is not sent again")
        self.client.download(self.path, self.folder / "back")
        self.assertEqual((self.folder / "back").read_bytes(), content)
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["back", "local"])
        folder = self.path.split("/")[0]
        self.assertEqual([file.path for file in self.client.files(folder).files], [self.path])
        with self.assertRaises(ConflictError):
            self.client.remove_file(folder)
        self.client.remove_file(self.path)
        with self.assertRaises(NotFoundError):
            self.client.file(self.path)

    def test_an_upload_goes_on_where_it_was(self) -> None:
        local = self.local(b"x" * 5000)
        sha256 = hashlib.sha256(b"x" * 5000).hexdigest()
        query: dict[str, QueryValue] = {"path": self.path, "size": 5000, "sha256": sha256}
        self.client._send_piece(local, query, 0, 5000)
        self.client._send_piece(local, query, 1000, 5000)
        self.client.upload(local, self.path)
        offsets = [one.query["offset"] for one in self.sent if one.method == "PUT"]
        self.assertEqual(offsets, [0, 1000, 2000, 3000, 4000])

    def test_a_download_goes_on_where_it_was_and_never_with_another_content(self) -> None:
        content = b"0123456789" * 300
        entry = self.client.upload(self.local(content), self.path)
        part = self.folder / f"back.{(entry.sha256 or '')[:16]}.part"
        part.write_bytes(content[:2500])
        self.client.download(self.path, self.folder / "back")
        self.assertEqual((self.folder / "back").read_bytes(), content)
        self.assertEqual(self.pieces("GET"), 1)
        part.write_bytes(b"wrong")
        with self.assertRaises(DigestError):
            self.client.download(self.path, self.folder / "back")
        self.assertFalse(part.exists())
        self.assertEqual((self.folder / "back").read_bytes(), content)

    def test_an_empty_file(self) -> None:
        self.assertEqual(self.client.upload(self.local(b""), self.path).size, 0)
        self.client.download(self.path, self.folder / "back")
        self.assertEqual((self.folder / "back").read_bytes(), b"")


if __name__ == "__main__":
    unittest.main()

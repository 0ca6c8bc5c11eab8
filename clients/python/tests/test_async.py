"""The client with `async`, against a real server."""

from __future__ import annotations

import asyncio
import tempfile
import time
import unittest
from pathlib import Path
from typing import Callable

from server import PATIENCE, Server, shared

from estimand import AsyncClient, Snapshot, Write
from estimand.errors import GoneError, InvalidInputError, UnauthorizedError, UnreachableError


async def until(what: str, holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = shared().async_client()
        self.addAsyncCleanup(self.client.close)

    async def test_values_and_a_mirror(self) -> None:
        await self.client.put_all(Write("y_a", f"n{number}", number) for number in range(1000))
        self.assertEqual(len((await self.client.values("y_a"))["y_a"]), 1000)
        async with self.client.mirror("y_a", "y_b") as values:
            picture = values.picture
            await self.client.put_all([Write("y_a", "n0", "new"), Write("y_b", "n0", "new")])
            picture = await values.wait(picture, timeout=PATIENCE)
            self.assertEqual((picture["y_a"]["n0"], values["y_b"]["n0"]), ("new", "new"))
            waiting = [asyncio.create_task(values.wait(picture, timeout=PATIENCE)) for _ in range(3)]
            await asyncio.sleep(0)
            await self.client.put("y_b", "n0", "newer")
            pictures = await asyncio.gather(*waiting)
            self.assertEqual([one["y_b"]["n0"] for one in pictures], ["newer"] * 3)
            with self.assertRaises(TimeoutError):
                await values.wait(pictures[0], timeout=0.01)

    async def test_many_requests_at_once(self) -> None:
        receipts = await asyncio.gather(*(self.client.put("y_many", f"n{n}", n) for n in range(20)))
        self.assertEqual(len({receipt.revision for receipt in receipts}), 20)
        self.assertEqual((await self.client.values("y_many"))["y_many"], {f"n{n}": n for n in range(20)})

    async def test_a_watch(self) -> None:
        watch = self.client.watch("y_watch")
        async for event in watch:
            assert isinstance(event, Snapshot)
            break
        watch.close()

    async def test_a_task_its_log_and_its_events(self) -> None:
        before = (await self.client.tasks(limit=1)).revision
        task = await self.client.submit({"command": ["/bin/sh", "-c", "echo 1; sleep 0.3; echo 2; exit 3"]})
        self.assertEqual([line.text async for line in self.client.logs(task.id, follow=True)], ["1", "2"])
        self.assertEqual((await self.client.wait(task.id, timeout=PATIENCE)).ending, {"exit": 3})
        async for event in self.client.events(after=before, id=task.id):
            if event.to == "FAILED":
                break
        with self.assertRaises(GoneError):
            async for _ in self.client.events(after=999_999_999):
                pass

    async def test_a_wait_that_is_cancelled_leaves_a_client_that_works(self) -> None:
        task = await self.client.submit({"command": ["/bin/sleep", "60"]})
        waiting = asyncio.create_task(self.client.wait(task.id))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        await self.client.cancel(task.id)
        self.assertEqual((await self.client.wait(task.id, timeout=PATIENCE)).state, "CANCELLED")

    async def test_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            local, back = Path(folder, "local"), Path(folder, "back")
            local.write_bytes(b"hello" * 1000)
            await self.client.upload(local, "async/file")
            await self.client.download("async/file", back)
            self.assertEqual(back.read_bytes(), local.read_bytes())

    async def test_registrations_and_bindings(self) -> None:
        await self.client.register({"dataName": "y_reg", "cmd": "true", "max-Time": 60, "paused": True})
        self.assertEqual((await self.client.registration("y_reg"))["paused"], True)
        self.assertEqual((await self.client.bind("y_bound", "y_reg")).to, "y_reg")
        await self.client.unbind("y_bound")
        await self.client.unregister("y_reg")

    async def test_refusals(self) -> None:
        async with AsyncClient(shared().address, token="wrong") as stranger:
            with self.assertRaises(UnauthorizedError):
                await stranger.nodes()
            with self.assertRaises(UnauthorizedError):
                async with stranger.mirror("y"):
                    pass
        with self.assertRaises(InvalidInputError):
            await self.client.put("1st", "n", 1)


class Away(unittest.IsolatedAsyncioTestCase):
    async def test_a_mirror_and_a_log_go_on_when_the_server_is_back(self) -> None:
        server = Server().start()
        self.addCleanup(server.stop)
        flag = server.folder / "flag"
        script = f"echo begin; while [ ! -e {flag} ]; do sleep 0.1; done; echo end"
        async with server.async_client() as client:
            # It goes on however long the start takes: it runs without a lease.
            task = await client.submit({"command": ["/bin/sh", "-c", script], "onLoss": "wait"})
            lines: list[tuple[int, int, str]] = []

            async def follow() -> None:
                async for line in client.logs(task.id, follow=True):
                    lines.append((line.line, line.attempt, line.text))

            following = asyncio.create_task(follow())
            await client.put("cpu", "a", 1)
            async with client.mirror("cpu") as values:
                await until("a line", lambda: lines)
                server.kill()
                await until("the mirror to notice", lambda: not values.is_connected)
                self.assertIsInstance(values.trouble, UnreachableError)
                self.assertEqual(values["cpu"]["a"], 1)
                await asyncio.to_thread(server.start)
                await client.put("cpu", "a", 2)
                picture = values.picture
                while picture["cpu"]["a"] != 2:
                    picture = await values.wait(picture, timeout=PATIENCE)
                flag.touch()
                await asyncio.wait_for(following, PATIENCE)
            history = (await client.task(task.id)).transitions
            self.assertEqual(lines, [(0, 1, "begin"), (1, 1, "end")], history)


if __name__ == "__main__":
    unittest.main()

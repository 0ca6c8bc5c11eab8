"""Tasks: submitted, waited for, their logs and events followed."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Optional, Union

from estimand._async.calls import AsyncCalls
from estimand._async.values import Moment, moment_text
from estimand._decode import decode
from estimand._http import Request, json_body
from estimand.errors import TaskFailedError
from estimand.records import (
    Capacity,
    LogLine,
    LogPage,
    Task,
    TaskDocument,
    TaskEvent,
    TaskEventPage,
    TaskPage,
)
from estimand.task_reports import TaskProgressPage, TaskProgressReport

# So many of the last lines are in the text of a failure.
LAST_LINES = 5


class AsyncTaskCalls(AsyncCalls):
    """The task service."""

    async def submit(self, document: TaskDocument, *, key: Optional[str] = None) -> Task:
        """Submits a task, or an array with `count`. Sent again with the same key it is the same task.

        Without a key one is made, so that this call may send it until there is an answer.
        """
        headers = {"idempotency-key": key or uuid.uuid4().hex}
        request = Request("POST", ("api", "tasks"), headers=headers, body=json_body(document), safe=True)
        answer = await self._transport.send(request)
        return replace(self._read(answer, lambda task: decode(Task, task)), hint=answer.hint)

    async def task(self, id: str) -> Task:
        """One task with everything about it, or an array."""
        return await self._one(Task, Request("GET", ("api", "tasks", id), safe=True))

    async def tasks(
        self,
        *,
        states: Iterable[str] = (),
        labels: Optional[str] = None,
        user: Optional[str] = None,
        array: Optional[str] = None,
        before: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> TaskPage:
        """A page of tasks, the newest first. Its revision is the one after which to follow `events`."""
        query = {
            "state": ",".join(states) or None,
            "labels": labels,
            "user": user,
            "array": array,
            "before": before,
            "limit": limit,
        }
        answer = await self._transport.send(Request("GET", ("api", "tasks"), query, safe=True))
        return replace(self._read(answer, lambda page: decode(TaskPage, page)), revision=answer.revision)

    async def wait(self, id: str, *, timeout: Optional[float] = None, check: bool = False) -> Task:
        """The task or array when it is over, also if the service is away meanwhile.

        `TimeoutError` if it is not over in time. With `check`, `TaskFailedError` unless it succeeded.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else until - time.monotonic()
            request = Request("GET", ("api", "tasks", id), {"waitMs": self._wait_ms(left)}, safe=True)
            answer = await self._until_there(request, until)
            task = self._read(answer, lambda document: decode(Task, document))
            if task.is_over:
                break
            if left is not None and left <= 0:
                raise TimeoutError(f"`{id}` is not over in {timeout:g} s: it is {task.state}")
        if check and not task.succeeded:
            raise TaskFailedError(await self._failure(task), task)
        return task

    async def _failure(self, task: Task) -> str:
        text = f"`{task.id}` is {task.state}: {task.end_in_words()}"
        if task.states:
            return f"`{task.id}` is {task.state}: {dict(task.states)}"
        page = await self.log_page(task.id, tail=LAST_LINES)
        return "\n".join([text, *(f"  {line.text}" for line in page.lines)])

    async def cancel(
        self, id: str, *, grace: Union[float, str, None] = None, checkpoint: Optional[bool] = None
    ) -> Task:
        """Ends a task, or lets it not begin; so all of an array.

        It is killed after `grace`, 0 for at once; with `checkpoint` it gets SIGUSR1 first, to save its work.
        """
        return await self._stop(id, "cancel", grace, checkpoint)

    async def yield_task(
        self, id: str, *, grace: Union[float, str, None] = None, checkpoint: Optional[bool] = None
    ) -> Task:
        """Sends a task back to the queue: it saves its work, ends, and is run again; so all of an array.

        The `hint` says so if it waits already.
        """
        return await self._stop(id, "yield", grace, checkpoint)

    async def _stop(
        self, id: str, how: str, grace: Union[float, str, None], checkpoint: Optional[bool]
    ) -> Task:
        given = {"grace": grace, "checkpoint": checkpoint}
        given = {name: value for name, value in given.items() if value is not None}
        body = json_body(given) if given else None
        answer = await self._transport.send(Request("POST", ("api", "tasks", id, how), body=body, safe=True))
        return replace(self._read(answer, lambda task: decode(Task, task)), hint=answer.hint)

    async def delete_task(self, id: str) -> None:
        """Forgets a task or array that is over, with its log."""
        await self._transport.send(Request("DELETE", ("api", "tasks", id)))

    async def log_page(
        self,
        id: str,
        *,
        start: int = 0,
        stream: Optional[str] = None,
        attempt: Optional[int] = None,
        since: Moment = None,
        until: Moment = None,
        contains: Optional[str] = None,
        tail: Optional[int] = None,
        limit: Optional[int] = None,
        open: Optional[int] = None,
        wait: float = 0,
    ) -> LogPage:
        """A piece of a log from the line `start` on, or its last `tail` lines.

        It may wait for a line, and with `open`, the `open_revision` of the page before, also until other lines are
        unfinished.
        """
        request = _log_request(
            id, start, stream, attempt, since, until, contains, tail, limit, open, wait_ms=self._wait_ms(wait)
        )
        return await self._one(LogPage, request)

    async def logs(
        self,
        id: str,
        *,
        follow: bool = False,
        start: int = 0,
        stream: Optional[str] = None,
        attempt: Optional[int] = None,
        since: Moment = None,
        until: Moment = None,
        contains: Optional[str] = None,
        tail: Optional[int] = None,
    ) -> AsyncIterator[LogLine]:
        """The lines of a task.

        With `follow` also those to come until it is over, also if the service is away meanwhile.
        """
        wait_ms = self._wait_ms(None) if follow else 0
        while True:
            request = _log_request(
                id, start, stream, attempt, since, until, contains, tail, None, None, wait_ms=wait_ms
            )
            answer = await (self._until_there(request) if follow else self._transport.send(request))
            page = self._read(answer, lambda document: decode(LogPage, document))
            for line in page.lines:
                yield line
            if page.over or (not follow and page.next == start):
                return
            start, tail = page.next, None

    async def event_page(
        self,
        *,
        after: Optional[int] = None,
        states: Iterable[str] = (),
        labels: Optional[str] = None,
        user: Optional[str] = None,
        id: Optional[str] = None,
        limit: Optional[int] = None,
        wait: float = 0,
    ) -> TaskEventPage:
        """A page of what happened to tasks after a revision, the oldest first; without one of all that is kept."""
        wait_ms = self._wait_ms(wait)
        request = _feed_request("events", after, ",".join(states), labels, user, id, limit, wait_ms=wait_ms)
        return await self._one(TaskEventPage, request)

    async def events(
        self,
        *,
        after: Optional[int] = None,
        states: Iterable[str] = (),
        labels: Optional[str] = None,
        user: Optional[str] = None,
        id: Optional[str] = None,
    ) -> AsyncIterator[TaskEvent]:
        """What happens to tasks, without an end, also if the service is away meanwhile.

        `GoneError` says that what follows the revision is not kept: list the `tasks`, and go on after their revision.
        """
        wanted = ",".join(states)
        while True:
            wait_ms = self._wait_ms(None)
            request = _feed_request("events", after, wanted, labels, user, id, None, wait_ms=wait_ms)
            answer = await self._until_there(request)
            page = self._read(answer, lambda document: decode(TaskEventPage, document))
            for event in page.events:
                yield event
            after = page.next

    async def progress_page(
        self,
        *,
        after: Optional[int] = None,
        labels: Optional[str] = None,
        user: Optional[str] = None,
        id: Optional[str] = None,
        limit: Optional[int] = None,
        wait: float = 0,
    ) -> TaskProgressPage:
        """A page of how far tasks said they are, the oldest first: after a revision, or all that is kept."""
        wait_ms = self._wait_ms(wait)
        request = _feed_request("progress", after, "", labels, user, id, limit, wait_ms=wait_ms)
        return await self._one(TaskProgressPage, request)

    async def progress(
        self,
        *,
        after: Optional[int] = None,
        labels: Optional[str] = None,
        user: Optional[str] = None,
        id: Optional[str] = None,
    ) -> AsyncIterator[TaskProgressReport]:
        """How far tasks say they are, without an end, also if the service is away meanwhile.

        `GoneError` says that what follows the revision is not kept.
        """
        while True:
            wait_ms = self._wait_ms(None)
            request = _feed_request("progress", after, "", labels, user, id, None, wait_ms=wait_ms)
            answer = await self._until_there(request)
            page = self._read(answer, lambda document: decode(TaskProgressPage, document))
            for report in page.reports:
                yield report
            after = page.next

    async def capacity(self) -> list[Capacity]:
        """What each node has, and what of it no task has."""
        return await self._all(Capacity, Request("GET", ("api", "capacity"), safe=True))


def _log_request(
    id: str,
    start: int,
    stream: Optional[str],
    attempt: Optional[int],
    since: Moment,
    until: Moment,
    contains: Optional[str],
    tail: Optional[int],
    limit: Optional[int],
    open: Optional[int],
    *,
    wait_ms: int,
) -> Request:
    query = {
        "from": start or None,
        "stream": stream,
        "attempt": attempt,
        "since": moment_text(since),
        "until": moment_text(until),
        "contains": contains,
        "tail": tail,
        "limit": limit,
        "open": open,
        "waitMs": wait_ms or None,
    }
    return Request("GET", ("api", "tasks", id, "logs"), query, safe=True)


def _feed_request(
    feed: str,
    after: Optional[int],
    states: str,
    labels: Optional[str],
    user: Optional[str],
    id: Optional[str],
    limit: Optional[int],
    *,
    wait_ms: int,
) -> Request:
    query = {
        "after": after,
        "state": states or None,
        "labels": labels,
        "user": user,
        "id": id,
        "limit": limit,
        "waitMs": wait_ms or None,
    }
    return Request("GET", ("api", "tasks", feed), query, safe=True)

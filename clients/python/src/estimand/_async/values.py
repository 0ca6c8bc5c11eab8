"""Values, their past, mirrors and watches, and bindings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Optional, Union

from estimand._async.calls import AsyncCalls
from estimand._async.mirror import AsyncMirror
from estimand._async.watch import AsyncWatch
from estimand._decode import decode_all
from estimand._http import Request, json_body, rfc3339
from estimand.errors import NotFoundError
from estimand.picture import Assembly, NodeValues, Picture
from estimand.records import (
    BatchReceipt,
    Binding,
    DeletionReceipt,
    Json,
    PastValue,
    Swap,
    Value,
    Write,
    WriteReceipt,
)

Moment = Union[datetime, str, None]
"""An instant, or how long ago (`"1h"`)."""


Nodes = Union[str, Iterable[str], None]
"""A node, or several."""

MAX_TARGET = 4_000
"""A question that makes a longer target is sent as a body; many proxies take no longer ones."""


def moment_text(moment: Moment) -> Optional[str]:
    """An instant as a parameter."""
    return rfc3339(moment) if isinstance(moment, datetime) else moment


def _write(write: Write) -> dict[str, Json]:
    document: dict[str, Json] = {"dataName": write.data_name, "nodeName": write.node_name, "dataValue": write.value}
    if write.collected_at is not None:
        document["collectedAt"] = rfc3339(write.collected_at)
    if write.valid_for is not None:
        document["validFor"] = write.valid_for
    if write.provenance is not None:
        document["provenance"] = write.provenance
    return document


def _names(names: Sequence[str]) -> str:
    return ",".join(names) or "*"


def _nodes(nodes: Nodes) -> Optional[str]:
    return nodes if nodes is None or isinstance(nodes, str) else ",".join(nodes)


class AsyncValueCalls(AsyncCalls):
    """The data service."""

    async def values(
        self,
        *names: str,
        node: Nodes = None,
        nodes: Optional[str] = None,
        states: Iterable[str] = (),
        max_age: Union[float, str, None] = None,
        where: Optional[str] = None,
        field: Optional[str] = None,
        sort: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> Picture:
        """Values by name and node, all of one revision. `cpu*` is a pattern; without names it is all of them.

        `node` is a node or several, `nodes` selects by labels, `where="value>0.9"` by the values, `field` is a JSON
        pointer, `sort="-/one"` and `limit=5` give the greatest five.
        """
        query = {
            "dataName": _names(names),
            "dataNode": _nodes(node),
            "nodes": nodes,
            "state": ",".join(states) or None,
            "maxAge": max_age,
            "where": where,
            "field": field,
            "sort": sort,
            "limit": limit,
        }
        request = Request("GET", ("api", "data"), query, safe=True)
        if len(request.target("")) > MAX_TARGET:
            given = {name: value for name, value in query.items() if value is not None}
            request = Request("POST", ("api", "data", "query"), body=json_body(given), safe=True)
        answer = await self._transport.send(request)
        found: dict[str, dict[str, Value]] = {name: {} for name in names if "*" not in name}
        for value in self._read(answer, lambda documents: decode_all(Value, documents)):
            found.setdefault(value.data_name, {})[value.node_name] = value
        return Picture({name: NodeValues(records) for name, records in found.items()}, answer.revision)

    async def value(
        self, name: str, node: str, *, field: Optional[str] = None, explain: bool = False
    ) -> Optional[Value]:
        """One value; none if there is none. With `explain` it says what produced it."""
        query = {"field": field, "explain": "1" if explain else None}
        try:
            return await self._one(Value, Request("GET", ("api", "data", name, node), query, safe=True))
        except NotFoundError as error:
            if error.kind != "not-found":
                raise
            return None

    async def put(
        self,
        name: str,
        node: str,
        value: Json,
        *,
        collected_at: Optional[datetime] = None,
        valid_for: Union[float, str, None] = None,
        provenance: Optional[dict[str, Json]] = None,
    ) -> WriteReceipt:
        """Writes a value, which is stored when this returns."""
        body = json_body(_write(Write(name, node, value, collected_at, valid_for, provenance)))
        return await self._one(WriteReceipt, Request("PUT", ("api", "data"), body=body, safe=True))

    async def put_all(self, writes: Iterable[Write]) -> BatchReceipt:
        """Writes up to 10,000 values, all or nothing."""
        body = json_body([_write(write) for write in writes])
        return await self._one(BatchReceipt, Request("POST", ("api", "data", "batch"), body=body, safe=True))

    async def delete_values(self, name: str, node: Optional[str] = None) -> DeletionReceipt:
        """Deletes the values of a name, or the one of a node, with their history."""
        query = {"dataName": name, "dataNode": node}
        return await self._one(DeletionReceipt, Request("DELETE", ("api", "data"), query, safe=True))

    async def history(
        self,
        *names: str,
        node: Optional[str] = None,
        since: Moment = None,
        until: Moment = None,
        limit: Optional[int] = None,
        field: Optional[str] = None,
    ) -> list[PastValue]:
        """Past values, the oldest first. A name keeps them if its registration has a `history`."""
        query = {
            "dataName": _names(names),
            "dataNode": node,
            "since": moment_text(since),
            "until": moment_text(until),
            "limit": limit,
            "field": field,
        }
        return await self._all(PastValue, Request("GET", ("api", "data", "history"), query, safe=True))

    def watch(
        self,
        *names: str,
        node: Nodes = None,
        nodes: Optional[str] = None,
        where: Optional[str] = None,
        field: Optional[str] = None,
    ) -> AsyncWatch:
        """The events of values: a snapshot, then each change. It goes on until it is closed."""
        query = {"dataName": _names(names), "dataNode": _nodes(node), "nodes": nodes, "where": where, "field": field}
        return AsyncWatch(self._transport, query)

    def mirror(
        self,
        *names: str,
        node: Nodes = None,
        nodes: Optional[str] = None,
        where: Optional[str] = None,
        field: Optional[str] = None,
        timeout: float = 30.0,
    ) -> AsyncMirror:
        """Values as a mapping that stays current. Its `with` waits up to `timeout` seconds for the first ones."""
        watch = self.watch(*names, node=node, nodes=nodes, where=where, field=field)
        return AsyncMirror(watch, Assembly(names), timeout)

    async def bindings(self) -> list[Binding]:
        """All bindings."""
        return await self._all(Binding, Request("GET", ("api", "bindings"), safe=True))

    async def binding(self, name: str) -> Binding:
        """One binding."""
        return await self._one(Binding, Request("GET", ("api", "bindings", name), safe=True))

    async def bind(
        self,
        name: str,
        to: str,
        *,
        field: Optional[str] = None,
        only_from: Optional[str] = None,
        force: bool = False,
    ) -> Binding:
        """Makes a name serve the values of `to`, or the part `field` of each; a bound name is swapped.

        With `only_from`, only if it serves that one until then; with `force`, also if readers lose all values by that.
        """
        body: dict[str, Any] = {"to": to}
        if field is not None:
            body["field"] = field
        if only_from is not None:
            body["from"] = only_from
        path, query = ("api", "bindings", name), {"force": force or None}
        request = Request("PUT", path, query, body=json_body(body), safe=True)
        return await self._one(Binding, request)

    async def roll_back(
        self, name: str, *, only_from: Optional[str] = None, force: bool = False
    ) -> Binding:
        """Makes a name serve what it served before; twice is back again."""
        body = json_body({} if only_from is None else {"from": only_from})
        path, query = ("api", "bindings", name, "rollback"), {"force": force or None}
        return await self._one(Binding, Request("POST", path, query, body=body))

    async def unbind(self, name: str) -> None:
        """Removes a binding."""
        await self._transport.send(Request("DELETE", ("api", "bindings", name)))

    async def binding_history(self, name: str, limit: Optional[int] = None) -> list[Swap]:
        """The changes of a binding, the newest first."""
        request = Request("GET", ("api", "bindings", name, "history"), {"limit": limit}, safe=True)
        return await self._all(Swap, request)

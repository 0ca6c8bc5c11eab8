"""Registrations, and the nodes that they run on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional, cast

from estimand._async.calls import AsyncCalls
from estimand._http import Request, json_body
from estimand.records import Change, Json, Node, Registration


class AsyncRegistryCalls(AsyncCalls):
    """The registry and the manager."""

    async def register(self, registration: Registration) -> Registration:
        """Registers; `ConflictError` if the name is taken."""
        request = Request("POST", ("api", "registry"), body=json_body(registration))
        return cast(Registration, await self._json(request))

    async def replace(self, registration: Registration) -> Registration:
        """Replaces the registration of that name; with `version`, only if that is the current one."""
        request = Request("PUT", ("api", "registry"), body=json_body(registration), safe=True)
        return cast(Registration, await self._json(request))

    async def patch(self, name: str, patch: Mapping[str, Json]) -> Registration:
        """Changes the fields that are named, and keeps the others, secrets included."""
        request = Request("PATCH", ("api", "registry", name), body=json_body(patch), safe=True)
        return cast(Registration, await self._json(request))

    async def rename(self, name: str, to: str, *, force: bool = False) -> Registration:
        """Gives a registration another name. Its values stay under the old one."""
        path, query = ("api", "registry", name, "rename"), {"force": force or None}
        return cast(Registration, await self._json(Request("POST", path, query, body=json_body({"to": to}))))

    async def unregister(self, name: str, *, force: bool = False) -> Optional[str]:
        """Stops it everywhere and forgets it. What is returned says what could not be confirmed."""
        request = Request("DELETE", ("api", "registry", name), {"force": force or None})
        return (await self._transport.send(request)).hint

    async def change_registrations(
        self,
        registrations: Iterable[Registration] = (),
        remove: Iterable[str] = (),
        *,
        config_set: Optional[str] = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> list[Mapping[str, Json]]:
        """Registers, replaces and removes several, all or nothing; dry, it only says what would change."""
        names = list(remove)
        body: dict[str, Any] = {"registrations": list(registrations), "remove": names}
        if config_set is not None:
            body["configSet"] = config_set
        query = {"dryRun": dry_run or None, "force": force or None}
        # A name that is removed cannot be removed again.
        request = Request("PATCH", ("api", "registry"), query, body=json_body(body), safe=not names)
        return cast("list[Mapping[str, Json]]", await self._json(request))

    async def registrations(self) -> list[Registration]:
        """All registrations."""
        return cast("list[Registration]", await self._json(Request("GET", ("api", "registry"), safe=True)))

    async def registration(self, name: str) -> Registration:
        """One registration."""
        return cast(Registration, await self._json(Request("GET", ("api", "registry", name), safe=True)))

    async def registration_history(self, name: str) -> list[Change]:
        """Who changed it, when and to what, the newest first; also of a deleted one."""
        return await self._all(Change, Request("GET", ("api", "registry", name, "history"), safe=True))

    async def nodes(self) -> list[Node]:
        """All nodes."""
        return await self._all(Node, Request("GET", ("api", "nodes"), safe=True))

    async def node(self, name: str) -> Node:
        """One node."""
        return await self._one(Node, Request("GET", ("api", "nodes", name), safe=True))

    async def label(self, name: str, labels: Mapping[str, Optional[str]]) -> Node:
        """Sets labels of a node; none takes one away."""
        request = Request("PATCH", ("api", "nodes", name, "labels"), body=json_body(labels), safe=True)
        return await self._one(Node, request)

    async def cordon(self, name: str, is_cordoned: bool = True) -> Node:
        """Places no further counted instances and tasks on a node, or lets them come again."""
        request = Request("PUT" if is_cordoned else "DELETE", ("api", "nodes", name, "cordon"), safe=True)
        return await self._one(Node, request)

    async def remove_node(self, name: str) -> None:
        """Forgets a lost node and its values."""
        await self._transport.send(Request("DELETE", ("api", "nodes", name)))

    async def instances(self, name: Optional[str] = None, node: Optional[str] = None) -> list[Mapping[str, Json]]:
        """What runs where, with its last run, as the service's documents."""
        query = {"dataName": name, "dataNode": node}
        documents = await self._json(Request("GET", ("api", "mng", "instances"), query, safe=True))
        return cast("list[Mapping[str, Json]]", documents)

"""The client with all parts of the interface."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Optional

from estimand._address import DEFAULT, Credentials
from estimand._async.files import AsyncFileCalls
from estimand._async.registry import AsyncRegistryCalls
from estimand._async.studies import AsyncStudyCalls
from estimand._async.tasks import AsyncTaskCalls
from estimand._async.transport import AsyncTransport
from estimand._async.values import AsyncValueCalls
from estimand.options import Options


class AsyncClient(AsyncValueCalls, AsyncRegistryCalls, AsyncTaskCalls, AsyncFileCalls, AsyncStudyCalls):
    """Speaks to an Estimand service.

    Without an address it is ESTIMAND_SERVER, or this machine; without a token, ESTIMAND_TOKEN; without files for TLS,
    ESTIMAND_AUTHORITY and ESTIMAND_CERTIFICATE. `others` are further services: each request goes to the first that
    serves it.
    """

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        token: Optional[str] = None,
        authority: Optional[str] = None,
        certificate: Optional[str] = None,
        others: Sequence[str] = (),
        options: Optional[Options] = None,
    ) -> None:
        address = address or os.environ.get("ESTIMAND_SERVER") or DEFAULT
        credentials = Credentials.of(token, authority, certificate)
        super().__init__(AsyncTransport([address, *others], credentials, options or Options()))

    @property
    def withholds_token(self) -> bool:
        """True if a token is not sent to one of its services, because it would go over the network unencrypted."""
        return any(service.withholds_token for service in self._transport.services)

    async def close(self) -> None:
        """Ends its connections."""
        self._transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

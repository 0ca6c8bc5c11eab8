# Made of _async/studies.py by make_sync; change that.
"""Studies of tuning: made, asked for trials, told results."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Optional

from estimand._sync.calls import Calls
from estimand._http import Request, json_body
from estimand.studies import Importance, ReportAnswer, Study, StudyDocument, StudyPage, Trial, TrialPage, TrialsAsked


class StudyCalls(Calls):
    """The tuning service."""

    def create_study(self, document: StudyDocument) -> Study:
        """Makes a study. One with the same id and document is the same study."""
        return self._one(Study, _post((), document))

    def studies(
        self,
        *,
        states: Iterable[str] = (),
        user: Optional[str] = None,
        before: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> StudyPage:
        """A page of studies, the newest first."""
        query = {"state": ",".join(states) or None, "user": user, "before": before, "limit": limit}
        return self._one(StudyPage, Request("GET", ("api", "studies"), query, safe=True))

    def study(self, id: str) -> Study:
        """One study."""
        return self._one(Study, _get(id))

    def pause_study(self, id: str) -> Study:
        """Lets a study propose nothing until it is resumed."""
        return self._one(Study, _post((id, "pause")))

    def resume_study(self, id: str) -> Study:
        """Lets a paused study go on."""
        return self._one(Study, _post((id, "resume")))

    def stop_study(self, id: str) -> Study:
        """Ends a study; its trials stay."""
        return self._one(Study, _post((id, "stop")))

    def delete_study(self, id: str) -> None:
        """Forgets a study, with all its trials."""
        self._transport.send(Request("DELETE", ("api", "studies", id)))

    def trials(
        self,
        id: str,
        *,
        states: Iterable[str] = (),
        after: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> TrialPage:
        """A page of the trials of a study, by ascending number and without their reports."""
        query = {"state": ",".join(states) or None, "after": after, "limit": limit}
        return self._one(TrialPage, Request("GET", ("api", "studies", id, "trials"), query, safe=True))

    def trial(self, id: str, number: int) -> Trial:
        """A trial with its reports."""
        return self._one(Trial, _get(id, "trials", str(number)))

    def ask(self, id: str, *, count: int = 1, key: Optional[str] = None) -> TrialsAsked:
        """Asks for trials. Asked again with the same key they are the same trials; without a key one is made."""
        headers = {"idempotency-key": key or uuid.uuid4().hex}
        path = ("api", "studies", id, "ask")
        return self._one(
            TrialsAsked, Request("POST", path, headers=headers, body=json_body({"count": count}), safe=True)
        )

    def report(self, id: str, number: int, step: int, value: float) -> bool:
        """Reports a value of a trial on its way; whether it should stop."""
        request = _post((id, "trials", str(number), "report"), {"step": step, "value": value})
        return (self._one(ReportAnswer, request)).stop

    def tell(
        self,
        id: str,
        number: int,
        value: Optional[float] = None,
        *,
        pruned: bool = False,
        failed: Optional[str] = None,
    ) -> Trial:
        """Tells the one result of a trial: a value, that it ended early, or why it failed."""
        end: dict[str, Any] = {"value": value, "pruned": pruned or None, "failed": failed}
        given = {name: field for name, field in end.items() if field is not None}
        return self._one(Trial, _post((id, "trials", str(number), "tell"), given))

    def best(self, id: str) -> Trial:
        """The best trial, with its reports; `NotFoundError` while none is complete."""
        return self._one(Trial, _get(id, "best"))

    def importance(self, id: str) -> Importance:
        """How much each parameter matters."""
        return self._one(Importance, _get(id, "importance"))


def _get(*rest: str) -> Request:
    return Request("GET", ("api", "studies", *rest), safe=True)


def _post(rest: tuple[str, ...], body: Any = None) -> Request:
    """A request that may be sent twice."""
    return Request("POST", ("api", "studies", *rest), body=None if body is None else json_body(body), safe=True)

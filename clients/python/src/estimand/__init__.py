"""Client of Estimand: facts about the nodes of a cluster, tasks and files, for schedulers in Python.

`Client` blocks, `AsyncClient` is the same with `async` and `await`.
"""

from estimand import errors
from estimand._async.client import AsyncClient
from estimand._async.mirror import AsyncMirror
from estimand._async.watch import AsyncWatch
from estimand._sync.client import Client
from estimand._sync.mirror import Mirror
from estimand._sync.watch import Watch
from estimand.errors import EstimandError, Problem
from estimand.options import Options
from estimand.picture import Changed, Deleted, NodeValues, Picture, Settled, Snapshot, WatchEvent
from estimand.records import (
    BatchReceipt,
    Binding,
    BindingTarget,
    Capacity,
    Change,
    DeletionReceipt,
    FileEntry,
    FilePage,
    LogLine,
    LogPage,
    Node,
    OpenLine,
    PastValue,
    Registration,
    Swap,
    Task,
    TaskDocument,
    TaskEvent,
    TaskEventPage,
    TaskPage,
    Transition,
    UploadProgress,
    Value,
    Write,
    WriteReceipt,
)
from estimand.studies import Importance, Study, StudyDocument, StudyPage, Trial, TrialPage, TrialsAsked
from estimand.task_reports import AttemptUsage, TaskProgress, TaskProgressPage, TaskProgressReport, TaskUsage

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncMirror",
    "AsyncWatch",
    "AttemptUsage",
    "BatchReceipt",
    "Binding",
    "BindingTarget",
    "Capacity",
    "Change",
    "Changed",
    "Client",
    "Deleted",
    "DeletionReceipt",
    "EstimandError",
    "FileEntry",
    "FilePage",
    "Importance",
    "LogLine",
    "LogPage",
    "Mirror",
    "Node",
    "NodeValues",
    "OpenLine",
    "Options",
    "PastValue",
    "Picture",
    "Problem",
    "Registration",
    "Settled",
    "Snapshot",
    "Study",
    "StudyDocument",
    "StudyPage",
    "Swap",
    "Task",
    "TaskDocument",
    "TaskEvent",
    "TaskEventPage",
    "TaskPage",
    "TaskProgress",
    "TaskProgressPage",
    "TaskProgressReport",
    "TaskUsage",
    "Transition",
    "Trial",
    "TrialPage",
    "TrialsAsked",
    "UploadProgress",
    "Value",
    "Watch",
    "WatchEvent",
    "Write",
    "WriteReceipt",
    "errors",
]

#!/usr/bin/env python3
"""scheduler.py COUNT: runs so many parts of a job where the fact `room` says, and prints what each wrote.

All that it needs is HTTP. The fact is a name: what estimates it may change while this goes on.
"""
import json
import os
import sys
import urllib.request
import uuid

SERVER = os.environ.get("ESTIMAND_SERVER", "http://127.0.0.1:7070")
TOKEN = os.environ["ESTIMAND_TOKEN"]


def ask(method, path, body=None, key=None):
    """One request, and the text of its answer. With a key it may be sent again: it is the same task."""
    headers = {"Authorization": f"Bearer {TOKEN}", **({"Idempotency-Key": key} if key else {})}
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode() if body else None, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def room():
    """What is known now of each node; a node that is lost, or whose value is old, is not chosen."""
    values = json.loads(ask("GET", "/api/data?dataName=room"))
    return {value["nodeName"]: value["dataValue"] for value in values if value["state"] == "fresh"}


def divide(count, rooms):
    """The policy: each part goes to the node with the most room for one more; of equals to the first by name."""
    given = dict.fromkeys(sorted(rooms), 0)
    for _ in range(count):
        node = max(given, key=lambda node: rooms[node] / (given[node] + 1))
        given[node] += 1
        yield node


def submit(part, node):
    task = {"command": ["/bin/echo", "part", str(part)], "nodes": f"node={node}", "retries": {"count": 2}}
    return json.loads(ask("POST", "/api/tasks", task, key=str(uuid.uuid4())))["id"]


def finish(task):
    """Waits for the end, a minute at a time."""
    while json.loads(ask("GET", f"/api/tasks/{task}?waitMs=30000"))["state"] not in ("SUCCEEDED", "FAILED", "CANCELLED"):
        pass
    return ask("GET", f"/api/tasks/{task}/logs?format=raw").strip()


plan = list(divide(int(sys.argv[1]), room()))
tasks = [submit(part, node) for part, node in enumerate(plan)]
for node, task in zip(plan, tasks):
    print(f"{node}: {finish(task)}")

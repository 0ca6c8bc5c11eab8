"""A scheduler in 60 lines: each part of a job runs on the node that is best by facts.

    python3 examples/scheduler.py 8 -- /bin/echo part

Facts come by a mirror, under the name `free_processors`. It is a binding: whoever runs the cluster swaps the estimator
behind it while this goes on. The fact is how many processors others leave free; what runs from here is subtracted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from estimand import Client, Mirror, Task

FACT = "free_processors"


def best_node(free: Mapping[str, float], placed: Mapping[str, int]) -> Optional[str]:
    """The policy: the node with the most that is free, less what was placed there; none if all are full."""
    left = {node: amount - placed.get(node, 0) for node, amount in free.items()}
    node = max(sorted(left), key=lambda node: left[node], default=None)
    return node if node is not None and left[node] >= 1 else None


def schedule(client: Client, facts: Mirror, command: Sequence[str], parts: int) -> Iterator[Task]:
    """Runs the parts, as many at once as there is room for; gives each that is over."""
    waiting, running = list(range(parts)), dict[str, str]()
    while waiting or running:
        picture = facts.picture
        node = best_node(picture[FACT].fresh(), Counter(running.values())) if waiting else None
        if node is not None:
            part = str(waiting.pop(0))
            # Each node has the label `node` with its name.
            task = client.submit({"command": [*command, part], "nodes": f"node={node}", "retries": 2})
            running[task.id] = node
        elif running:
            over = client.wait(next(iter(running)), check=True)
            del running[over.id]
            yield over
        else:
            facts.wait(picture)


def main() -> int:
    """Prints which node had each part, and what it wrote."""
    parts, command = int(sys.argv[1]), sys.argv[sys.argv.index("--") + 1 :]
    with Client() as client, client.mirror(FACT) as facts:
        for task in schedule(client, facts, command, parts):
            for line in client.logs(task.id):
                print(f"{task.node}: {line.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

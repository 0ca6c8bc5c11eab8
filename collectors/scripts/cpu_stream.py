#!/usr/bin/env python3
"""A collector of the stream mode: how busy this machine's processors are, as a line of JSON for each answer.

It answers every ESTIMAND_INTERVAL seconds until it is asked for the first time, with an empty line; from then on, whenever
it is asked. Being a process that stays, it compares with its own last answer and never has to wait for a second look. It
ends when nobody can ask any more.
"""

import json
import os
import select
import sys
import time

# The first answer has nothing to compare with but a look taken this long before.
FIRST_PAUSE_SECONDS = 0.1


def look():
    """The kernel's counts since the start: all time, and time in which nothing was to do."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    idle += iowait
    return user + nice + system + idle + irq + softirq + steal, idle


def usage(before, now):
    """The part of the time that was used, or nothing if no time has passed."""
    total, idle = now[0] - before[0], now[1] - before[1]
    if total <= 0:
        return None
    # The kernel corrects its idea of idle time, so that it may seem more or less than there was.
    return round(min(max(1 - idle / total, 0), 1), 4)


def question(seconds):
    """Waits to be asked, but no longer than that if there is a limit; tells whether it was, or is none if nobody can."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if not ready:
        return False
    # Without buffering, so that no question stays behind unseen. Several that piled up are one.
    return True if os.read(sys.stdin.fileno(), 4096) else None


def main():
    interval = float(os.environ.get("ESTIMAND_INTERVAL", "5"))
    before = look()
    time.sleep(FIRST_PAUSE_SECONDS)
    while True:
        now = look()
        answer = usage(before, now)
        if answer is None:
            # Asked again before a tick of the kernel's clock: soon there will be something to tell.
            time.sleep(FIRST_PAUSE_SECONDS)
            continue
        print(json.dumps({"usageFraction": answer}), flush=True)
        before = now
        asked = question(interval)
        if asked is None:
            return
        if asked:
            # Somebody keeps the time; to keep it here too would be to answer twice.
            interval = None


if __name__ == "__main__":
    main()

# A fake worker for tests: it keeps to the worker's protocol, and classifies nothing. How fast it is it learns from its
# parameters, a figure for each node. What stands in its results is made up, but the same for an image each time. Of the
# image that is called `forgotten` it says that it is done, and writes nothing.
import http.client
import json
import os
import sys
import threading
import time
from urllib.parse import urlsplit

NODE = os.environ["ESTIMAND_NODE"]
JOB = os.environ["ESTIMAND_PARAM_JOB"]
RATE = json.loads(os.environ["ESTIMAND_PARAM_RATES"])[NODE]
FOLDER = os.path.join(os.environ["ESTIMAND_PARAM_OUT"], JOB)
LOG = os.environ.get("ESTIMAND_PARAM_LOG", "").replace("{node}", NODE)
SERVER = urlsplit(os.environ["ESTIMAND_SERVER"]).netloc

speaking = threading.Lock()
state = {"part": None, "queue": [], "done": set(), "fresh": []}


def say(activity=None):
    with speaking:
        part = state["part"] or {"images": [], "revision": None}
        left = len(state["queue"])
        line = {
            "job": JOB,
            "activity": activity or ("working" if left else "waiting"),
            "revision": part["revision"],
            "done": len(part["images"]) - left,
            "of": len(part["images"]),
            "fps": RATE,
            "images": state["fresh"],
            "extra": sorted(state["done"] - set(part["images"])),
        }
        state["fresh"] = []
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def listen():
    for _ in sys.stdin:
        if state["part"]:
            say()
    os._exit(0)


def log(images, seconds):
    if LOG:
        with open(LOG, "a") as lines:
            lines.write(f"job={JOB} node={NODE} images={images} seconds={seconds:.3f} avg_fps={images / seconds:.2f}\n")


def read_part(connection):
    connection.request("GET", f"/api/data/{JOB}.part/{NODE}")
    answer = connection.getresponse()
    body = answer.read()
    return json.loads(body)["dataValue"] if answer.status == 200 else None


def main():
    say("starting")
    os.makedirs(FOLDER, exist_ok=True)
    attempt = 1
    for name in os.listdir(FOLDER):
        if name.startswith(NODE + ".") and name.endswith(".jsonl"):
            attempt += 1
            with open(os.path.join(FOLDER, name)) as lines:
                state["done"] |= {json.loads(line)["image"] for line in lines if line.endswith("\n")}
    results = open(os.path.join(FOLDER, f"{NODE}.{attempt}.jsonl"), "x")
    threading.Thread(target=listen, daemon=True).start()
    connection, said, looked, began, did = None, 0.0, 0.0, 0.0, 0
    while True:
        if time.monotonic() - looked > 0.05:
            looked = time.monotonic()
            try:
                connection = connection or http.client.HTTPConnection(SERVER, timeout=10)
                part = read_part(connection)
            except OSError:
                connection, part = None, state["part"]
            if part != state["part"] or not said:
                with speaking:
                    state["part"] = part
                    images = part["images"] if part else []
                    state["queue"] = [image for image in images if image not in state["done"]]
                say()
                said = time.monotonic()
        if not state["queue"]:
            time.sleep(0.02)
            continue
        image = state["queue"][0]
        began = time.monotonic() if did == 0 else began
        time.sleep(1 / RATE)
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000 % 1_000_000:06}Z"
        answer = {"image": image, "label": sum(image.encode()) % 1000, "score": 0.5, "node": NODE, "at": at}
        if image != "forgotten":
            results.write(json.dumps(answer) + "\n")
            results.flush()
        did += 1
        with speaking:
            state["queue"].pop(0)
            state["done"].add(image)
            state["fresh"].append(image)
        if not state["queue"]:
            # Before the line that reports the end: its reader may end this worker.
            log(did, time.monotonic() - began)
            did = 0
        if not state["queue"] or time.monotonic() - said > 0.2:
            say()
            said = time.monotonic()


main()

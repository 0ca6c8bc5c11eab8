"""What `estimand export-metrics` sends is what a scrape shows, read by the messages that OpenTelemetry generates."""

import os
import queue
import re
import signal
import subprocess
import threading
import time
import unittest
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests
from google.rpc import status_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service

SERVER, TOKEN, BINARY = os.environ["SERVER"], os.environ["TOKEN"], os.environ["ESTIMAND_BINARY"]
AUTHORIZATION = {"authorization": f"Bearer {TOKEN}"}
PATIENCE = 30
TAKEN = (200, {}, service.ExportMetricsServiceResponse().SerializeToString())


class Receiver:
    """Answers as it is told to, the last answer for ever, and keeps what it was sent, with the time."""

    def __init__(self, *answers) -> None:
        self.sent: queue.Queue = queue.Queue()
        answers = list(answers)
        sent = self.sent

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers, answer = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                for name, value in {"Content-Type": "application/x-protobuf", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                sent.put((time.monotonic(), self.path, dict(self.headers), body))

            def log_message(self, *_) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.http.shutdown()
        self.http.server_close()


class Exporter:
    def __init__(self, to: str, *options: str, **environment: str) -> None:
        command = [BINARY, "export-metrics", "--server", SERVER, "--to", to, *options]
        environment = {**os.environ, "ESTIMAND_TOKEN": TOKEN, **environment}
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.said = ""
        self.lines: queue.Queue = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        for line in self.process.stderr:
            self.lines.put(line)
        self.lines.put(None)

    def __enter__(self) -> "Exporter":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()

    def until_said(self, text: str) -> None:
        """Waits until it says that: a receiver has what was sent before the exporter has the answer."""
        while text not in self.said:
            line = self.lines.get(timeout=PATIENCE)
            if line is None:
                raise AssertionError(f"it ended, and never said {text!r}: {self.said}")
            self.said += line

    def end(self) -> str:
        """Ends it as a service manager does; what it has said."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=PATIENCE)
        for line in iter(lambda: self.lines.get(timeout=PATIENCE), None):
            self.said += line
        if status != 0:
            raise AssertionError(f"it ended with {status}: {self.said}")
        return self.said


def write(name: str, node: str, value, **fields) -> None:
    body = {"dataName": name, "nodeName": node, "dataValue": value, **fields}
    requests.put(f"{SERVER}/api/data", json=body, headers=AUTHORIZATION, timeout=10).raise_for_status()


def scraped(names: str) -> dict:
    """The series of a scrape, by name and labels; what `path` escapes is not used here."""
    answer = requests.get(f"{SERVER}/api/data/metrics?dataName={names}", headers=AUTHORIZATION, timeout=10)
    found = {}
    for line in answer.text.splitlines():
        matched = re.fullmatch(r"(estimand_value(?:_state)?)\{(.*)\} (\S+)", line)
        if matched:
            labels = frozenset(re.findall(r'(\w+)="([^"]*)"', matched[2]))
            found[(matched[1], labels)] = float(matched[3])
    return found


def exported(bodies) -> tuple[dict, dict]:
    """The same of what was sent; and the times of the points."""
    found, times = {}, {}
    for body in bodies:
        for of_node in service.ExportMetricsServiceRequest.FromString(body).resource_metrics:
            resource = {one.key: one.value.string_value for one in of_node.resource.attributes}
            for metric in (metric for scope in of_node.scope_metrics for metric in scope.metrics):
                assert metric.WhichOneof("data") == "gauge", metric
                for point in metric.gauge.data_points:
                    labels = {one.key: one.value.string_value for one in point.attributes}
                    assert labels["node"] == resource["host.name"] == resource["service.instance.id"], point
                    key = (metric.name, frozenset(labels.items()))
                    assert key not in found, point
                    found[key] = float(getattr(point, point.WhichOneof("value")))
                    times[key] = point.time_unix_nano
    return found, times


class Output(unittest.TestCase):
    def test_what_is_sent_is_what_a_scrape_shows(self) -> None:
        at = "2023-11-14T22:13:20.000001Z"
        write("out_cpu", "n1", {"idle": 0.25, "cores": [{"busy": True}, {"busy": False}], "model": "x"}, collectedAt=at)
        write("out_cpu", "n2", {"idle": 1e-7, "ticks": 2**53 + 1, "vast": 1.5e300}, collectedAt=at, validFor="1s")
        write("out_load", "n1", -3)
        write("out_other", "n1", 1)
        binding = {"to": "out_cpu"}
        requests.put(
            f"{SERVER}/api/bindings/out_bound", json=binding, headers=AUTHORIZATION, timeout=10
        ).raise_for_status()
        names = ["out_cpu", "out_load", "out_bound"]
        with Receiver(TAKEN) as receiver:
            headers = "authorization=Bearer%20a,x-scope=b"
            with Exporter(
                receiver.url, "--names", "out_c*,out_load,out_b*", OTEL_EXPORTER_OTLP_HEADERS=headers
            ) as exporter:
                _, path, sent, body = receiver.sent.get(timeout=PATIENCE)
                exporter.until_said("the first metrics are taken points=18")
                said = exporter.end()
        self.assertEqual((path, sent["authorization"], sent["x-scope"]), ("/v1/metrics", "Bearer a", "b"))
        found, times = exported([body])
        self.assertEqual(found, scraped(",".join(names)))
        self.assertEqual(len(found), 2 * (3 + 3) + 1 + 5)
        collected = round(datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() * 1e6) * 1000
        for (metric, labels), nanos in times.items():
            if metric == "estimand_value" and ("data_name", "out_load") not in labels:
                self.assertEqual(nanos, collected)
            else:
                self.assertLess(abs(nanos / 1e9 - time.time()), 60)
        self.assertIn(f'values are sent as metrics to="{receiver.url}/v1/metrics" every=10s', said)

    def test_a_receiver_that_is_busy_is_asked_again_when_it_says(self) -> None:
        write("busy", "n1", 1)
        busy = (503, {"Retry-After": "1"}, b"")
        with Receiver(busy, (429, {}, b""), TAKEN) as receiver, Exporter(receiver.url, "--names", "busy") as exporter:
            sent = [receiver.sent.get(timeout=PATIENCE) for _ in range(3)]
            exporter.until_said("does not take metrics now")
            said = exporter.end()
        self.assertEqual(said.count("does not take metrics now: it answered with status 503"), 1, said)
        self.assertGreaterEqual(sent[1][0] - sent[0][0], 1)
        self.assertEqual({body for *_, body in sent}, {sent[0][3]}, "the same is sent again")

    def test_a_refusal_is_said_and_the_next_round_is_sent_all_the_same(self) -> None:
        write("refused", "n1", 1)
        status = status_pb2.Status(code=3, message="not like this")
        partial = service.ExportMetricsServiceResponse()
        partial.partial_success.rejected_data_points = 2
        partial.partial_success.error_message = "two are odd"
        answers = [(400, {}, status.SerializeToString()), (200, {}, partial.SerializeToString())]
        with Receiver(*answers) as receiver:
            with Exporter(receiver.url, "--names", "refused", "--every", "1s") as exporter:
                for _ in range(3):
                    receiver.sent.get(timeout=PATIENCE)
                exporter.until_said("works again")
                said = exporter.end()
        for part in ("refuses metrics", "400 Bad Request: not like this", "left points out: two are odd", "works again"):
            self.assertIn(part, said)
        self.assertEqual(said.count("two are odd"), 1)

    def test_it_ends_at_once_also_while_it_waits(self) -> None:
        write("waiting", "n1", 1)
        with Receiver((503, {"Retry-After": "30"}, b"")) as receiver, Exporter(receiver.url) as exporter:
            receiver.sent.get(timeout=PATIENCE)
            asked = time.monotonic()
            exporter.end()
            self.assertLess(time.monotonic() - asked, 20)

    def test_a_wrong_option_is_explained(self) -> None:
        for options, said in (
            (["--to", "host:4318"], "http://HOST:4318"),
            (["--to", "http://host", "--every", "1ms"], "expected 1s or more"),
            (["--to", "http://host", "--header", "secret"], "NAME=VALUE"),
            (["--to", "http://host", "--json"], "--log-format"),
        ):
            ended = subprocess.run([BINARY, "export-metrics", *options], capture_output=True, text=True, timeout=PATIENCE)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(said, ended.stderr)
            self.assertNotIn("secret", ended.stderr)


if __name__ == "__main__":
    unittest.main()

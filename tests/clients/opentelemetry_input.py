"""What the SDK of OpenTelemetry exports is read as values; its own messages read the answers."""

import logging
import os
import unittest

import requests
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

SERVER, TOKEN = os.environ["SERVER"], os.environ["TOKEN"]
ENDPOINT = f"{SERVER}/v1/metrics"
AUTHORIZATION = {"authorization": f"Bearer {TOKEN}"}
# The reasons why an export fails are the tests', not the reader's.
logging.disable(logging.CRITICAL)


def value(name: str, node: str) -> dict:
    answer = requests.get(f"{SERVER}/api/data/{name}/{node}", headers=AUTHORIZATION, timeout=10)
    answer.raise_for_status()
    return answer.json()


def export(attributes: dict, measure, **options) -> None:
    exporter = OTLPMetricExporter(endpoint=ENDPOINT, headers={**AUTHORIZATION, **options.pop("headers", {})}, **options)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    exponential = View(instrument_name="exponential", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider([reader], Resource(attributes), views=[exponential])
    measure(provider.get_meter("test"))
    provider.force_flush()
    provider.shutdown()


class Sdk(unittest.TestCase):
    def test_every_instrument_becomes_a_value(self) -> None:
        def measure(meter) -> None:
            counter = meter.create_counter("http.requests", unit="1", description="Requests.")
            counter.add(2, {"method": "GET", "code": 200})
            counter.add(3, {"method": "GET", "code": 200})
            counter.add(1, {"method": "PUT", "code": 201})
            meter.create_up_down_counter("queue.length").add(-4)
            meter.create_gauge("cpu-load").set(0.25)
            histogram = meter.create_histogram("duration", unit="s", explicit_bucket_boundaries_advisory=[1, 2.5])
            for seconds in (0.5, 1, 2, 9):
                histogram.record(seconds)
            exponential = meter.create_histogram("exponential")
            for number in (1, 2, 4):
                exponential.record(number)

        for compression in (Compression.NoCompression, Compression.Gzip):
            node = f"node-{compression.value}"
            export(
                {"service.name": "my-shop", "host.name": node},
                measure,
                compression=compression,
                headers={"estimand-valid-for": "60s"},
            )
            requested = value("my_shop_http_requests", node)
            self.assertEqual(requested["validFor"], 60)
            self.assertEqual(
                requested["dataValue"],
                {
                    "type": "counter",
                    "help": "Requests.",
                    "unit": "1",
                    "series": {'code="200",method="GET"': 5, 'code="201",method="PUT"': 1},
                },
            )
            self.assertEqual(value("my_shop_queue_length", node)["dataValue"], {"type": "gauge", "value": -4})
            self.assertEqual(value("my_shop_cpu_load", node)["dataValue"], {"type": "gauge", "value": 0.25})
            took = {"count": 4, "sum": 12.5, "min": 0.5, "max": 9, "buckets": {"1.0": 2, "2.5": 3, "+Inf": 4}}
            self.assertEqual(
                value("my_shop_duration", node)["dataValue"], {"type": "histogram", "unit": "s", "value": took}
            )
            spread = {"count": 3, "sum": 7, "min": 1, "max": 4}
            self.assertEqual(value("my_shop_exponential", node)["dataValue"], {"type": "histogram", "value": spread})

    def test_a_node_that_is_missing_fails_the_export_and_the_answer_says_the_remedy(self) -> None:
        export({}, lambda meter: meter.create_gauge("nowhere").set(1))
        names = requests.get(f"{SERVER}/api/data/names", headers=AUTHORIZATION, timeout=10).text
        self.assertNotIn("nowhere", names)


class Messages(unittest.TestCase):
    """Requests and answers, made and read by the messages that OpenTelemetry generates."""

    request = json_format.ParseDict(
        {
            "resourceMetrics": [
                {
                    "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "n1"}}]},
                    "scopeMetrics": [
                        {
                            "metrics": [
                                {"name": "fine", "sum": {"isMonotonic": True, "dataPoints": [{"asInt": 2**60}]}},
                                {"name": "wrong", "summary": {"dataPoints": [{"quantileValues": [{"quantile": 2}]}]}},
                            ]
                        }
                    ],
                }
            ]
        },
        service.ExportMetricsServiceRequest(),
    )

    def test_a_partial_success_is_read_in_both_encodings(self) -> None:
        in_json = json_format.MessageToJson(self.request, use_integers_for_enums=True).encode()
        for kind, body in (("x-protobuf", self.request.SerializeToString()), ("json", in_json)):
            headers = {**AUTHORIZATION, "Content-Type": f"application/{kind}"}
            answer = requests.post(ENDPOINT, data=body, headers=headers, timeout=10)
            self.assertEqual((answer.status_code, answer.headers["Content-Type"]), (200, f"application/{kind}"))
            read = service.ExportMetricsServiceResponse()
            if kind == "json":
                json_format.Parse(answer.text, read)
            else:
                read.ParseFromString(answer.content)
            self.assertEqual(read.partial_success.rejected_data_points, 1)
            self.assertIn("`wrong` has a summary", read.partial_success.error_message)
            self.assertEqual(value("otel_fine", "n1")["dataValue"], {"type": "counter", "value": 2**60})


if __name__ == "__main__":
    unittest.main()

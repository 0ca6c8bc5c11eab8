#!/usr/bin/env python3
"""The paper's Figure 7 in Python, with nothing but its standard library.

Reads how loaded the processors of all nodes are, judges each node by Equation (1), and prints the judgements as
`format: nodes` reads them: {"node-1": {"value": 0.5, "spread": 0, "samples": 1}}

Register it as a processor with the load as its first input. Parameters, as of the built-in `capability_cpu`:
  cpu_req  the part of a whole machine's processors that the program needs, more than 0 and at most 1; 1 if absent
  reads    free_fraction: the load is an object with freeFraction, or a number of 0 to 1; if absent
           usage_percent: it is a number of 0 to 100
A node whose load makes no sense is left out and named on standard error; if there are only such, the run fails.
"""

import json
import os
import sys
import urllib.parse
import urllib.request

# How far a measured fraction may be outside of 0 to 1.
ROUNDING = 0.01


def parameters():
    text = os.environ.get("ESTIMAND_PARAM_CPU_REQ", "1")
    try:
        cpu_req = float(text)
    except ValueError:
        cpu_req = 0.0
    if not 0 < cpu_req <= 1:
        sys.exit(f"cpu_req is {text}; expected more than 0 and at most 1")
    reads = os.environ.get("ESTIMAND_PARAM_READS", "free_fraction")
    if reads not in ("free_fraction", "usage_percent"):
        sys.exit(f"reads is {reads}; expected free_fraction or usage_percent")
    return cpu_req, reads


def values_of(data_name):
    """All values of a name, by node."""
    query = urllib.parse.urlencode({"dataName": data_name})
    server = os.environ["ESTIMAND_SERVER"].rstrip("/")
    with urllib.request.urlopen(f"{server}/api/data?{query}", timeout=30) as answer:
        return {value["nodeName"]: value["dataValue"] for value in json.load(answer)}


def free_of(load, reads):
    """CpuFree of Equation (1), from 0 to 1; None if it is not known yet."""
    if reads == "free_fraction" and isinstance(load, dict):
        if "freeFraction" not in load:
            raise ValueError("is not there")
        load = load["freeFraction"]
    if load is None:
        return None
    if isinstance(load, bool) or not isinstance(load, (int, float)):
        raise ValueError(f"is {json.dumps(load)[:60]}")
    free = 1 - load / 100 if reads == "usage_percent" else load
    if not -ROUNDING <= free <= 1 + ROUNDING:
        raise ValueError(f"is {load}, which is out of range")
    return max(free, 0.0)


def main():
    cpu_req, reads = parameters()
    data_name = os.environ.get("ESTIMAND_INPUTS", "cpu").split(",")[0]
    judged, wrong = {}, 0
    for node, load in values_of(data_name).items():
        try:
            free = free_of(load, reads)
        except ValueError as error:
            print(f"{node}: the load {error}", file=sys.stderr)
            wrong += 1
            continue
        if free is not None:
            perf = 1.0 if free >= cpu_req else free / cpu_req
            judged[node] = {"value": perf, "spread": 0, "samples": 1}
    if wrong and not judged:
        sys.exit(f"no load of `{data_name}` makes sense")
    print(json.dumps(judged))


if __name__ == "__main__":
    main()

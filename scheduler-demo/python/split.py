#!/usr/bin/env python3
"""split.py [SERVER]: divides items among nodes by what these can do, as the paper's Algorithm 1 does; prints JSON."""
import json
import sys
from fractions import Fraction

import requests


def read(server, names=("data_distribution", "data_load", "node_capability")):
    answer = requests.get(f"{server}/api/data", {"dataName": ",".join(names)}, timeout=10)
    answer.raise_for_status()
    values = answer.json()
    return [{value["nodeName"]: value for value in values if value["dataName"] == name} for name in names]


def plain(value, key):
    return value["dataValue"][key] if isinstance(value["dataValue"], dict) else value["dataValue"]


def first_shares(nodes, held):
    """Step 1. An item belongs to the one of its holders with the fewest so far; items with few copies go first."""
    sets = {node: set(plain(held[node], "items")) for node in sorted(held)}
    holders = {item: [node for node in sets if item in sets[node]] for item in set().union(*sets.values())}
    has = dict.fromkeys(nodes, 0)
    for item in sorted(holders, key=lambda item: (len(holders[item]), item)):
        has[min(holders[item], key=has.get)] += 1
    return has


def weigh(nodes, lost, capability):
    """Steps 2 and 3. What is not known counts as 0. If all that count are 0, those that are not lost are equals."""
    known = {node: Fraction(plain(capability[node], "value")) for node in capability if node not in lost}
    return {node: known.get(node, Fraction()) if any(known.values()) else Fraction(node not in lost) for node in nodes}


def targets(has, weights):
    """Step 4, by largest remainders. Of equal ones the node that has the item already comes first, then by name."""
    total, unit = sum(has.values()), sum(has.values()) / sum(weights.values())
    does = {node: int(weights[node] * unit) for node in has}
    order = sorted(has, key=lambda node: (does[node] - weights[node] * unit, has[node] <= does[node], node))
    return {node: does[node] + (node in order[: total - sum(does.values())]) for node in has}


def transfers(has, does):
    """Steps 5 to 8: from the first that has too much to the first that has too little, until none has."""
    while high := next((node for node in has if has[node] > does[node]), None):
        low = next(node for node in has if has[node] < does[node])
        count = min(has[high] - does[high], does[low] - has[low])
        has = {**has, high: has[high] - count, low: has[low] + count}
        yield {"from": high, "to": low, "count": count}


held, load, capability = read(*sys.argv[1:] or ["http://127.0.0.1:7070"])
nodes = sorted({*held, *load, *capability})
lost = {node for known in (held, capability) for node in known if known[node]["state"] == "node-lost"}
has = first_shares(nodes, held)
does = targets(has, weigh(nodes, lost, capability)) if {*nodes} - lost else sys.exit("there is no node to do anything")
plan = [{"node": node, "has": has[node], "does": does[node]} for node in nodes]
print(json.dumps({"nodes": plan, "transfers": list(transfers(has, does))}, indent=2))

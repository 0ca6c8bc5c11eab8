"""Images a second of onnxruntime on one thread, and with --worker of estimand-worker beside it.

The same model, the same images, batch 1: JPEG to pixels (Pillow), the shorter edge to 256, the middle 224 x 224,
normalised, inferred. Both run in one run on the same core, a round each in turn, so that whatever else the
machine does hits both; the ratio is that of each pair of rounds.

    python -m venv v && v/bin/pip install onnxruntime numpy pillow
    v/bin/python compare/onnxruntime_fps.py --model alexnet.onnx --images DIR --worker estimand-worker
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32).reshape(3, 1, 1)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32).reshape(3, 1, 1)


def decode(jpeg):
    return Image.open(io.BytesIO(jpeg)).convert("RGB")


def tensor(image):
    # Only the part that is wanted is computed, as the worker does.
    box = []
    for edge in image.size:
        resized = 256 * edge // min(image.size)
        cut, scale = round((resized - 224) / 2), edge / resized
        box.append((cut * scale, min((cut + 224) * scale, edge)))
    box = tuple(at for side in (0, 1) for at in (box[0][side], box[1][side]))
    pixels = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, box=box), dtype=np.float32)
    return (pixels.transpose(2, 0, 1) / 255.0 - MEAN) / DEVIATION


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def one_round(network, files):
    """Seconds of decoding, resizing, inference, all of it."""
    name, parts, began = network.get_inputs()[0].name, [0.0] * 3, time.perf_counter()
    for jpeg in files:
        times = [time.perf_counter()]
        image = decode(jpeg)
        times.append(time.perf_counter())
        image = tensor(image)
        times.append(time.perf_counter())
        network.run(None, {name: image[np.newaxis]})
        times.append(time.perf_counter())
        parts = [part + after - before for part, before, after in zip(parts, times, times[1:])]
    return [*parts, time.perf_counter() - began]


def worker_round(process):
    process.stdin.write("\n")
    process.stdin.flush()
    line = json.loads(process.stdout.readline())
    return [line[key] for key in ("decodeSeconds", "resizeSeconds", "inferenceSeconds", "seconds")]


def spread(figures, digits=1):
    low, _, high = statistics.quantiles(figures, n=4, method="inclusive")
    return f"{statistics.median(figures):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", required=True, type=Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--worker", help="the program estimand-worker, to be compared with")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = parser.parse_args()
    os.sched_setaffinity(0, {args.core})
    files = [path.read_bytes() for path in sorted(args.images.glob("*.jpg"))[: args.count]]
    network = session(args.model)
    sides = {"onnxruntime": lambda: one_round(network, files)}
    if args.worker:
        command = [args.worker, "bench", "--model", args.model, "--images", str(args.images)]
        command += ["--count", str(args.count), "--batch", "1", "--on-demand"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        sides["worker"] = lambda: worker_round(process)
    rounds = {side: [] for side in sides}
    for at in range(args.rounds + 1):
        # Each side is first in every other round; the very first rounds warm up and don't count.
        for side in sorted(sides, reverse=at % 2 == 1):
            seconds = sides[side]()
            if at > 0:
                rounds[side].append([len(files) / part for part in seconds])
    print(f"onnxruntime {onnxruntime.__version__}, images/s of one thread, batch 1, {len(files)} images:")
    print(f"median (first to third quarter) of {args.rounds} rounds, interleaved on core {args.core}")
    for at, part in enumerate(("decode", "resize", "inference", "total")):
        line = "  ".join(f"{side} {spread([row[at] for row in rows])}" for side, rows in rounds.items())
        if args.worker:
            pairs = zip(rounds["worker"], rounds["onnxruntime"])
            line += f"  ratio {spread([ours[at] / theirs[at] for ours, theirs in pairs], 2)}"
        print(f"{part:>9}  {line}")
    if args.worker:
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()

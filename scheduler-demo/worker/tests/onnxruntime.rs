//! The same numbers as others: tensors against Pillow's, scores against onnxruntime's. Both come from PyPI into a
//! folder of the test's own; if they can't be had, this fails, because then nothing was compared.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use estimand_worker::decode::decode;
use estimand_worker::model::{self, alexnet::Width};
use estimand_worker::network::Network;
use estimand_worker::tensor::{self, IMAGE_LEN};
use estimand_worker::{pictures, random::Random};

const IMAGES: usize = 6;

/// Reads JPEG files and gives for each the tensor and the scores, as bytes of floats.
const REFERENCE: &str = r#"
import sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import onnxruntime_fps as reference
folder = Path(sys.argv[2])
files = sorted(folder.glob("*.jpg"))
tensors = [reference.tensor(reference.decode(path.read_bytes())) for path in files]
np.stack(tensors).astype("<f4").tofile(folder / "tensors")
for model in ("small", "usual"):
    network = reference.session(str(folder / f"{model}.onnx"))
    # The worker's own tensors, so that only the networks are compared.
    inputs = np.fromfile(folder / "inputs", dtype="<f4").reshape(-1, 3, 224, 224)
    network.run(None, {"image": inputs})[0].astype("<f4").tofile(folder / f"{model}.scores")
"#;

#[test]
fn tensors_and_scores_are_those_of_pillow_and_onnxruntime() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut inputs = vec![0.0; IMAGES * IMAGE_LEN];
    let mut random = Random::new(3);
    for (index, input) in inputs.chunks_exact_mut(IMAGE_LEN).enumerate() {
        let jpeg = pictures::jpeg(random.next(), index).unwrap();
        tensor::fill(&decode(&jpeg).unwrap(), input);
        fs::write(at(&pictures::name(index)), jpeg).unwrap();
    }
    write_floats(&at("inputs"), &inputs);
    for (name, width) in [("small", Width::SMALL), ("usual", Width::USUAL)] {
        model::write(width, 5, &mut File::create(at(&format!("{name}.onnx"))).unwrap()).unwrap();
    }
    let compare = Path::new(env!("CARGO_MANIFEST_DIR")).join("compare");
    let script = at("reference.py");
    fs::write(&script, REFERENCE).unwrap();
    let python = install(&at("venv"));
    run(Command::new(&python).arg(&script).arg(&compare).arg(folder.path()), "the reference failed");

    // Pillow rounds to whole steps of 1/255 twice, and decodes by other arithmetic.
    compare_floats("tensors", &inputs, &read_floats(&at("tensors")), 0.06, 0.008);
    for name in ["small", "usual"] {
        let network = Network::load(&at(&format!("{name}.onnx")), 1).unwrap();
        let ours: Vec<f32> =
            inputs.chunks_exact(IMAGE_LEN).flat_map(|input| network.scores(input).unwrap()).collect();
        compare_floats(name, &ours, &read_floats(&at(&format!("{name}.scores"))), 2e-4, 2e-5);
    }
}

/// In shares of how far the expected figures spread.
fn compare_floats(what: &str, got: &[f32], expected: &[f32], most: f32, mean: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let count = expected.len() as f32;
    let centre = expected.iter().sum::<f32>() / count;
    let spread = (expected.iter().map(|x| (x - centre).powi(2)).sum::<f32>() / count).sqrt();
    assert!(spread > 0.0, "{what}: all the same");
    let off = got.iter().zip(expected).map(|(got, expected)| (got - expected).abs() / spread);
    let (worst, sum) = off.fold((0f32, 0f32), |(worst, sum), off| (worst.max(off), sum + off));
    println!("{what}: off by {worst} of the spread at most, {} in the mean", sum / count);
    assert!(
        worst <= most && sum / count <= mean,
        "{what}: off by {worst} at most, {} in the mean",
        sum / count
    );
}

fn write_floats(path: &Path, floats: &[f32]) {
    let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    fs::write(path, bytes).unwrap();
}

fn read_floats(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// The Python that has the packages.
fn install(folder: &Path) -> PathBuf {
    run(
        Command::new("python3").args(["-m", "venv"]).arg(folder),
        "this test needs python3 with its module venv (Debian: python3-venv)",
    );
    let python = folder.join("bin/python");
    run(
        Command::new(&python).args(["-m", "pip", "install", "--quiet", "onnxruntime", "numpy", "pillow"]),
        "this test needs onnxruntime, numpy and pillow from PyPI, and pip could not install them",
    );
    python
}

fn run(command: &mut Command, otherwise: &str) {
    let output: std::io::Result<Output> = command.output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{otherwise}:\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("{otherwise}: {error}"),
    }
}

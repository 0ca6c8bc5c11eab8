//! Labels and scores of made pictures by the small network, to the digit: any change of decoding, resizing,
//! normalisation or inference shows here.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::fs::File;

use estimand_worker::classify::Classifier;
use estimand_worker::model::{self, alexnet::Width};
use estimand_worker::network::{Network, NetworkError};
use estimand_worker::pictures;

/// Label and score of pictures 0, 1, … of seed 7.
const GOLDEN: [(usize, f32); 6] =
    [(232, 0.8528), (822, 0.0981), (559, 0.2396), (620, 0.0336), (720, 0.0971), (772, 0.1409)];
const TOLERANCE: f32 = 2e-3;

fn small_model(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let path = folder.path().join("small.onnx");
    model::write(Width::SMALL, 1, &mut File::create(&path).unwrap()).unwrap();
    path
}

#[test]
fn labels_and_scores_are_what_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut classifier = Classifier::load(&small_model(&folder)).unwrap();
    let mut got = Vec::new();
    for index in 0..GOLDEN.len() {
        let verdict = classifier.classify(&pictures::jpeg(7, index).unwrap()).unwrap();
        got.push((verdict.label, verdict.score));
    }
    for ((label, score), (expected, expected_score)) in got.iter().zip(GOLDEN) {
        let is_near = *label == expected && (score - expected_score).abs() < TOLERANCE;
        assert!(is_near, "{got:?} instead of {GOLDEN:?}");
    }
}

#[test]
fn different_images_get_different_labels() {
    let folder = tempfile::tempdir().unwrap();
    let mut classifier = Classifier::load(&small_model(&folder)).unwrap();
    let label = |index| classifier.classify(&pictures::jpeg(7, index).unwrap()).unwrap().label;
    let labels: HashSet<usize> = (0..20).map(label).collect();
    assert!(labels.len() >= 8, "{labels:?}");
}

#[test]
fn the_model_file_is_the_same_for_a_seed() {
    let make = |seed| {
        let mut bytes = Vec::new();
        model::write(Width::SMALL, seed, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(make(1), make(1));
    assert_ne!(make(1), make(2));
}

#[test]
fn a_file_that_is_no_network_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.onnx");
    std::fs::write(&path, b"no protobuf").unwrap();
    for path in [path, folder.path().join("missing.onnx")] {
        let Err(error) = Network::load(&path, 1) else { panic!("{} was taken", path.display()) };
        assert!(matches!(error, NetworkError::Unreadable { .. }), "{error}");
        assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
    }
}

//! The surrogate of LCBench: what training a network with given parameters up to an epoch would have yielded.
//!
//! `model.onnx` is read and computed here: four fields of its protobuf, six layers. The constants between the layers are
//! those of its graph; `check` holds it against points of another implementation.

use std::collections::BTreeMap;

const INPUTS: usize = 32;
const WIDTH: usize = 128;
const INNER: usize = 455;

/// Arrays of numbers by name.
pub struct Network {
    arrays: BTreeMap<String, Vec<f32>>,
}

/// A training at a point of its space.
#[derive(Debug, Clone, Copy)]
pub struct Training {
    pub batch_size: f32,
    pub learning_rate: f32,
    pub momentum: f32,
    pub weight_decay: f32,
    pub num_layers: f32,
    pub max_units: f32,
    pub max_dropout: f32,
}

/// The surrogate's answer.
#[derive(Debug, Clone, Copy)]
pub struct Forecast {
    pub seconds: f64,
    /// Per cent.
    pub accuracy: f64,
}

/// The number of an instance in the embedding.
pub fn instance(name: &str) -> usize {
    match name {
        "167168" => 10,
        "189873" => 28,
        "189906" => 30,
        other => panic!("instance {other} is not one to develop on"),
    }
}

impl Network {
    pub fn read(bytes: &[u8]) -> Network {
        let graph = fields(bytes).into_iter().find(|(field, _)| *field == 7).expect("a graph").1;
        let tensors = fields(graph).into_iter().filter(|(field, _)| *field == 5);
        let arrays = tensors.map(|(_, tensor)| {
            let parts = fields(tensor);
            let part = |wanted| parts.iter().find(|(field, _)| *field == wanted).expect("a field").1;
            let numbers =
                part(9).chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four")));
            (String::from_utf8_lossy(part(8)).into_owned(), numbers.collect())
        });
        Network { arrays: arrays.collect() }
    }

    pub fn forecast(&self, instance: usize, epoch: u64, at: &Training) -> Forecast {
        let mut input = self.arrays["embds_fct.0.weight"][instance * 24..(instance + 1) * 24].to_vec();
        input.extend([
            (epoch as f32 + 1e-12).ln() / 3.951_243_6,
            (at.batch_size - 16.0) / 495.0,
            ((at.learning_rate + 1e-12).ln() + 9.209_311_5) / 6.896_975,
            (at.momentum - 0.100_003_86) / 0.882_251_44,
            ((at.weight_decay + 1e-12).ln() + 9.916_456) / 7.613_846,
            (at.num_layers - 1.0) / 3.0,
            (at.max_units - 64.0) / 960.0,
            (at.max_dropout - 0.000_535_75) / 0.999_412_06,
        ]);
        assert_eq!(input.len(), INPUTS);
        let mut state = self.layer("first_layer", &input);
        for layer in ["layers.0", "layers.1", "layers.2"] {
            let wide =
                self.layer(&format!("{layer}.linear0"), &self.normalized(&format!("{layer}.norm"), &state));
            let gated: Vec<f32> = (0..INNER).map(|at| wide[at] * wide[at + INNER].max(0.0)).collect();
            let step = self.layer(&format!("{layer}.linear1"), &gated);
            state.iter_mut().zip(step).for_each(|(sum, one)| *sum += one);
        }
        let mut last = self.normalized("last_normalization", &state);
        last.iter_mut().for_each(|one| *one = one.max(0.0));
        let output = self.layer("head", &last);
        let sigmoid = |at: usize| 1.0 / (1.0 + (-output[at]).exp());
        Forecast {
            seconds: f64::from(sigmoid(0) * 46_790.668 + 0.000_142_1),
            accuracy: f64::from((sigmoid(1) * 32.233_85 - 27.631_021).exp() - 1e-12),
        }
    }

    fn layer(&self, name: &str, input: &[f32]) -> Vec<f32> {
        let weights = &self.arrays[&format!("{name}.weight")];
        let bias = &self.arrays[&format!("{name}.bias")];
        weights.chunks_exact(input.len()).zip(bias).map(|(row, bias)| dot(row, input) + bias).collect()
    }

    fn normalized(&self, name: &str, input: &[f32]) -> Vec<f32> {
        let part = |part: &str| &self.arrays[&format!("{name}.{part}")];
        let mean = part("running_mean");
        let variance = part("running_var");
        let weight = part("weight");
        let bias = part("bias");
        let one = |at: usize| (input[at] - mean[at]) / (variance[at] + 1e-5).sqrt() * weight[at] + bias[at];
        (0..WIDTH).map(one).collect()
    }

    /// Points that onnxruntime 1.31 computed.
    pub fn check(&self) {
        let middle = Training {
            batch_size: 91.0,
            learning_rate: 0.003_162_277_7,
            momentum: 0.545,
            weight_decay: 0.050_005,
            num_layers: 3.0,
            max_units: 256.0,
            max_dropout: 0.5,
        };
        for (name, seconds, accuracy) in
            [("167168", 96.654, 45.568), ("189873", 2_047.896, 0.510), ("189906", 104.836, 55.346)]
        {
            let told = self.forecast(instance(name), 52, &middle);
            assert!((told.seconds - seconds).abs() < 0.013, "{name}: {told:?}");
            assert!((told.accuracy - accuracy).abs() < 0.001, "{name}: {told:?}");
        }
    }
}

fn dot(one: &[f32], two: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let first = one.chunks_exact(16);
    let second = two.chunks_exact(16);
    let rest: f32 = first.remainder().iter().zip(second.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in first.zip(second) {
        for place in 0..16 {
            sums[place] += a[place] * b[place];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// The fields of a protobuf message that have a length: number and bytes. Others are passed over.
fn fields(message: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let key = number(message, &mut at);
        match key & 7 {
            0 => {
                number(message, &mut at);
            }
            1 => at += 8,
            2 => {
                let length = number(message, &mut at) as usize;
                found.push((key >> 3, &message[at..at + length]));
                at += length;
            }
            5 => at += 4,
            other => panic!("wire type {other}"),
        }
    }
    found
}

fn number(message: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = message[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

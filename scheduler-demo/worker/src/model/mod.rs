//! Makes an ONNX file of AlexNet with weights from a seed, for where no trained one can be downloaded.
//!
//! Its labels mean nothing, but it computes what a trained one computes, at the same cost, and different images get
//! different labels. The file is the same, byte for byte, wherever it is made from the same seed. Weights are
//! written as they are made: 244 MB are never in memory.

use std::io::{self, Write};

use crate::random::Random;

pub mod alexnet;
mod protobuf;

use alexnet::{CLASSES, EDGE, Layer, Width, layers};
use protobuf::Message;

/// Numbers of fields and of constants in ONNX's description, `onnx.proto`.
mod number {
    pub const MODEL_IR_VERSION: u32 = 1;
    pub const MODEL_PRODUCER: u32 = 2;
    pub const MODEL_GRAPH: u32 = 7;
    pub const MODEL_OPERATORS: u32 = 8;
    pub const OPERATORS_VERSION: u32 = 2;
    pub const GRAPH_NODE: u32 = 1;
    pub const GRAPH_NAME: u32 = 2;
    pub const GRAPH_WEIGHTS: u32 = 5;
    pub const GRAPH_INPUT: u32 = 11;
    pub const GRAPH_OUTPUT: u32 = 12;
    pub const NODE_INPUT: u32 = 1;
    pub const NODE_OUTPUT: u32 = 2;
    pub const NODE_NAME: u32 = 3;
    pub const NODE_OPERATOR: u32 = 4;
    pub const NODE_ATTRIBUTE: u32 = 5;
    pub const ATTRIBUTE_NAME: u32 = 1;
    pub const ATTRIBUTE_INT: u32 = 3;
    pub const ATTRIBUTE_INTS: u32 = 8;
    pub const ATTRIBUTE_KIND: u32 = 20;
    pub const KIND_INT: u64 = 2;
    pub const KIND_INTS: u64 = 7;
    pub const TENSOR_DIMS: u32 = 1;
    pub const TENSOR_TYPE: u32 = 2;
    pub const TENSOR_NAME: u32 = 8;
    pub const TENSOR_RAW: u32 = 9;
    pub const VALUE_NAME: u32 = 1;
    pub const VALUE_TYPE: u32 = 2;
    pub const TYPE_TENSOR: u32 = 1;
    pub const TENSOR_TYPE_ELEMENT: u32 = 1;
    pub const TENSOR_TYPE_SHAPE: u32 = 2;
    pub const SHAPE_DIM: u32 = 1;
    pub const DIM_VALUE: u32 = 1;
    pub const DIM_NAME: u32 = 2;
    pub const FLOAT: u64 = 1;
}

/// Versions that every recent runtime reads.
const IR_VERSION: u64 = 8;
const OPERATOR_VERSION: u64 = 13;

/// How much stronger than what went in what leaves a layer is. Stronger, and the likeliest class becomes certain;
/// weaker, and all are alike.
const GAIN: f32 = 1.2;
const BIAS: f32 = 0.05;

/// Writes the file's bytes, in small pieces: `out` should have a buffer.
pub fn write(width: Width, seed: u64, out: &mut impl Write) -> io::Result<()> {
    let layers = layers(width);
    let weights: Vec<Weights> =
        layers.iter().enumerate().flat_map(|(at, layer)| weights(at, *layer)).collect();
    let description = describe(&layers);
    let heads: Vec<Message> = weights.iter().map(Weights::head).collect();
    let weight_bytes: u64 = weights.iter().zip(&heads).map(|(w, head)| head.len() as u64 + w.bytes()).sum();
    let operators = Message::new().number(number::OPERATORS_VERSION, OPERATOR_VERSION);
    let model = Message::new()
        .number(number::MODEL_IR_VERSION, IR_VERSION)
        .text(number::MODEL_PRODUCER, "estimand")
        .message(number::MODEL_OPERATORS, &operators)
        .head(number::MODEL_GRAPH, description.len() as u64 + weight_bytes);
    out.write_all(model.bytes())?;
    out.write_all(description.bytes())?;
    for (part, (weights, head)) in weights.iter().zip(&heads).enumerate() {
        out.write_all(head.bytes())?;
        weights.write(Random::of_part(seed, part as u64), out)?;
    }
    Ok(())
}

/// A tensor that belongs to the file.
struct Weights {
    name: String,
    shape: Vec<usize>,
    /// How far from 0 they are at most, about.
    scale: f32,
    /// True: the weights of one output add up to 0.
    balanced: bool,
}

/// After a rectifier all inputs are positive. Were weights not balanced then, what all images have in common would
/// grow from layer to layer, and they would all get the same label.
fn weights(at: usize, layer: Layer) -> Vec<Weights> {
    let Some(shape) = layer.weights() else { return Vec::new() };
    let inputs: usize = shape[1..].iter().product();
    let scale = GAIN * (6.0 / inputs as f32).sqrt();
    let bias = Weights { name: format!("bias_{at}"), shape: vec![shape[0]], scale: BIAS, balanced: false };
    vec![Weights { name: format!("weight_{at}"), shape, scale, balanced: at > 0 }, bias]
}

impl Weights {
    fn count(&self) -> usize {
        self.shape.iter().product()
    }

    fn bytes(&self) -> u64 {
        4 * self.count() as u64
    }

    /// All of the tensor's message but its numbers, and the head of the field that it is in the graph.
    fn head(&self) -> Message {
        let dims: Vec<u64> = self.shape.iter().map(|dim| *dim as u64).collect();
        let tensor = Message::new()
            .numbers(number::TENSOR_DIMS, &dims)
            .number(number::TENSOR_TYPE, number::FLOAT)
            .text(number::TENSOR_NAME, &self.name)
            .head(number::TENSOR_RAW, self.bytes());
        let mut head = Message::new().head(number::GRAPH_WEIGHTS, tensor.len() as u64 + self.bytes());
        head.append(&tensor);
        head
    }

    fn write(&self, mut random: Random, out: &mut impl Write) -> io::Result<()> {
        let (rows, columns) = match self.shape[..] {
            [count] => (1, count),
            [outputs, ..] => (outputs, self.count() / outputs),
            [] => (0, 0),
        };
        let mut row = vec![0.0; columns];
        let mut bytes = Vec::with_capacity(4 * columns);
        for _ in 0..rows {
            random.fill(&mut row, self.scale);
            let mean = if self.balanced { row.iter().sum::<f32>() / columns as f32 } else { 0.0 };
            bytes.clear();
            bytes.extend(row.iter().flat_map(|weight| (weight - mean).to_le_bytes()));
            out.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// The graph without its weights: one after the other, what each layer does, from `image` to `scores`.
fn describe(layers: &[Layer]) -> Message {
    let batch = Message::new().text(number::DIM_NAME, "batch");
    let dim = |value: usize| Message::new().number(number::DIM_VALUE, value as u64);
    let mut graph = Message::new()
        .text(number::GRAPH_NAME, "alexnet")
        .message(number::GRAPH_INPUT, &value_info("image", &[batch.clone(), dim(3), dim(EDGE), dim(EDGE)]));
    let mut from = "image".to_owned();
    let mut steps = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        steps.extend(steps_of(at, *layer));
    }
    let last = steps.len() - 1;
    for (at, step) in steps.into_iter().enumerate() {
        let to = if at == last { "scores".to_owned() } else { format!("step_{at}") };
        graph = graph.message(number::GRAPH_NODE, &step.message(at, &from, &to));
        from = to;
    }
    graph.message(number::GRAPH_OUTPUT, &value_info("scores", &[batch, dim(CLASSES)]))
}

fn value_info(name: &str, dims: &[Message]) -> Message {
    let shape = dims.iter().fold(Message::new(), |shape, dim| shape.message(number::SHAPE_DIM, dim));
    let tensor = Message::new()
        .number(number::TENSOR_TYPE_ELEMENT, number::FLOAT)
        .message(number::TENSOR_TYPE_SHAPE, &shape);
    Message::new()
        .text(number::VALUE_NAME, name)
        .message(number::VALUE_TYPE, &Message::new().message(number::TYPE_TENSOR, &tensor))
}

/// One operator, whose first input is what the one before gives.
struct Step {
    operator: &'static str,
    weights: Vec<String>,
    attributes: Vec<Message>,
}

fn steps_of(at: usize, layer: Layer) -> Vec<Step> {
    let weights = vec![format!("weight_{at}"), format!("bias_{at}")];
    let plain = |operator| Step { operator, weights: Vec::new(), attributes: Vec::new() };
    match layer {
        Layer::Convolution { kernel, stride, padding, .. } => {
            let attributes = vec![
                ints("kernel_shape", &[kernel; 2]),
                ints("strides", &[stride; 2]),
                ints("pads", &[padding; 4]),
            ];
            vec![Step { operator: "Conv", weights, attributes }, plain("Relu")]
        }
        Layer::Pooling => {
            let attributes = vec![ints("kernel_shape", &[3; 2]), ints("strides", &[2; 2])];
            vec![Step { attributes, ..plain("MaxPool") }]
        }
        Layer::Flatten => vec![plain("Flatten")],
        Layer::Full { rectified, .. } => {
            let full = Step { operator: "Gemm", weights, attributes: vec![int("transB", 1)] };
            let mut steps = vec![full];
            steps.extend(rectified.then(|| plain("Relu")));
            steps
        }
    }
}

impl Step {
    fn message(&self, at: usize, from: &str, to: &str) -> Message {
        let weights: Vec<&str> = self.weights.iter().map(String::as_str).collect();
        let node = Message::new()
            .text(number::NODE_INPUT, from)
            .texts(number::NODE_INPUT, &weights)
            .text(number::NODE_OUTPUT, to)
            .text(number::NODE_NAME, &format!("{}_{at}", self.operator))
            .text(number::NODE_OPERATOR, self.operator);
        self.attributes.iter().fold(node, |node, attribute| node.message(number::NODE_ATTRIBUTE, attribute))
    }
}

fn int(name: &str, value: u64) -> Message {
    let attribute = Message::new().text(number::ATTRIBUTE_NAME, name).number(number::ATTRIBUTE_INT, value);
    attribute.number(number::ATTRIBUTE_KIND, number::KIND_INT)
}

fn ints(name: &str, values: &[usize]) -> Message {
    let values: Vec<u64> = values.iter().map(|value| *value as u64).collect();
    let attribute =
        Message::new().text(number::ATTRIBUTE_NAME, name).numbers(number::ATTRIBUTE_INTS, &values);
    attribute.number(number::ATTRIBUTE_KIND, number::KIND_INTS)
}

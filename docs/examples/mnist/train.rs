//! Trains a small network on images of digits, and says after each epoch how well it does.
//!
//! The images are as large as those of MNIST, and drawn here: strokes of seven segments that are moved, slanted, scaled and
//! blurred at random, under noise. So nothing is downloaded, and each run has the same numbers.
//!
//! `train [--epochs N] [--layers N] [--stop FILE]` ends after N epochs, or after the epoch in which FILE is there. The network
//! has one hidden layer, or N of them.

use std::path::PathBuf;
use std::process::ExitCode;

const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
const HIDDEN: usize = 32;
const DIGITS: usize = 10;
const TO_LEARN: usize = 6_000;
const TO_TEST: usize = 1_000;
const RATE: f32 = 0.0025;
const NOISE: f32 = 0.3;
const EPOCHS: u32 = 10;
const LAYERS: usize = 1;

/// The segments, from one end to the other, in a square from 0 to 1.
const SEGMENTS: [[f32; 4]; 7] = [
    [0.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 0.5],
    [1.0, 0.0, 1.0, 0.5],
    [0.0, 0.5, 1.0, 0.5],
    [0.0, 0.5, 0.0, 1.0],
    [1.0, 0.5, 1.0, 1.0],
    [0.0, 1.0, 1.0, 1.0],
];
/// The segments of each digit, the first of them in the highest of seven bits.
const STROKES: [u8; DIGITS] = [
    0b1110111, 0b0010010, 0b1011101, 0b1011011, 0b0111010, 0b1101011, 0b1101111, 0b1010010, 0b1111111,
    0b1111011,
];

struct Image {
    pixels: [f32; PIXELS],
    digit: usize,
}

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    /// From `low` to `high`.
    fn between(&mut self, low: f32, high: f32) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + (high - low) * ((self.0 >> 40) as f32 / (1 << 24) as f32)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.between(0.0, end as f32) as usize).min(end - 1)
    }
}

fn draw(random: &mut Random) -> Image {
    let digit = random.below(DIGITS);
    let (left, top) = (random.between(5.0, 12.0), random.between(3.0, 7.0));
    let (width, height) = (random.between(8.0, 12.0), random.between(14.0, 20.0));
    let (slant, thickness) = (random.between(-0.3, 0.3), random.between(0.8, 1.6));
    let place = |x: f32, y: f32| (left + x * width + slant * (0.5 - y) * height / 2.0, top + y * height);
    let strokes = (0..SEGMENTS.len()).filter(|at| STROKES[digit] & (0b1000000 >> at) != 0);
    let strokes: Vec<_> = strokes
        .map(|at| {
            let [from_x, from_y, to_x, to_y] = SEGMENTS[at];
            (place(from_x, from_y), place(to_x, to_y))
        })
        .collect();
    let mut pixels = [0.0; PIXELS];
    for (at, pixel) in pixels.iter_mut().enumerate() {
        let point = ((at % SIDE) as f32, (at / SIDE) as f32);
        let nearest = strokes.iter().map(|stroke| distance(point, *stroke)).fold(f32::MAX, f32::min);
        let ink = (-(nearest / thickness).powi(2)).exp();
        *pixel = ink + random.between(-NOISE, NOISE);
    }
    Image { pixels, digit }
}

/// Of a point from a line between two others.
fn distance((x, y): (f32, f32), ((ax, ay), (bx, by)): ((f32, f32), (f32, f32))) -> f32 {
    let (along_x, along_y) = (bx - ax, by - ay);
    let part = ((x - ax) * along_x + (y - ay) * along_y) / (along_x.powi(2) + along_y.powi(2));
    let part = part.clamp(0.0, 1.0);
    ((x - ax - part * along_x).powi(2) + (y - ay - part * along_y).powi(2)).sqrt()
}

/// Each unit is connected with all of the layer before it.
struct Layer {
    weights: Vec<Vec<f32>>,
    biases: Vec<f32>,
}

impl Layer {
    fn new(inputs: usize, units: usize, random: &mut Random) -> Layer {
        let most = (6.0 / (inputs + units) as f32).sqrt();
        let mut unit = || (0..inputs).map(|_| random.between(-most, most)).collect();
        Layer { weights: (0..units).map(|_| unit()).collect(), biases: vec![0.0; units] }
    }

    fn outputs(&self, inputs: &[f32]) -> Vec<f32> {
        let sum = |weights: &Vec<f32>| {
            weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f32>()
        };
        self.weights.iter().zip(&self.biases).map(|(weights, bias)| sum(weights) + bias).collect()
    }

    /// The errors of the units that gave the inputs. A unit that gave nothing has none.
    fn errors_before(&self, inputs: &[f32], errors: &[f32]) -> Vec<f32> {
        let through =
            |unit: usize| self.weights.iter().zip(errors).map(|(weights, error)| weights[unit] * error).sum();
        let error = |unit: usize| if inputs[unit] > 0.0 { through(unit) } else { 0.0 };
        (0..inputs.len()).map(error).collect()
    }

    fn learn(&mut self, inputs: &[f32], errors: &[f32], rate: f32) {
        for ((weights, bias), error) in self.weights.iter_mut().zip(&mut self.biases).zip(errors) {
            let step = rate * error;
            *bias -= step;
            weights.iter_mut().zip(inputs).for_each(|(weight, input)| *weight -= step * input);
        }
    }
}

struct Network {
    /// The hidden ones, then the one with a unit for each digit.
    layers: Vec<Layer>,
}

impl Network {
    fn new(hidden: usize, random: &mut Random) -> Network {
        let mut units = vec![PIXELS];
        units.resize(1 + hidden, HIDDEN);
        units.push(DIGITS);
        let layers = units.windows(2).map(|pair| Layer::new(pair[0], pair[1], random)).collect();
        Network { layers }
    }

    /// The inputs of each layer, and how likely each digit is.
    fn look(&self, image: &Image) -> (Vec<Vec<f32>>, Vec<f32>) {
        let mut inputs = Vec::new();
        let mut digits = image.pixels.to_vec();
        for layer in &self.layers {
            if !inputs.is_empty() {
                digits.iter_mut().for_each(|value| *value = value.max(0.0));
            }
            let outputs = layer.outputs(&digits);
            inputs.push(std::mem::replace(&mut digits, outputs));
        }
        let most = digits.iter().copied().fold(f32::MIN, f32::max);
        digits.iter_mut().for_each(|value| *value = (*value - most).exp());
        let sum: f32 = digits.iter().sum();
        digits.iter_mut().for_each(|value| *value /= sum);
        (inputs, digits)
    }

    /// Learns from an image; how wrong it was.
    fn learn(&mut self, image: &Image, rate: f32) -> f32 {
        let (inputs, mut errors) = self.look(image);
        let loss = -errors[image.digit].max(f32::MIN_POSITIVE).ln();
        errors[image.digit] -= 1.0;
        for (at, (layer, inputs)) in self.layers.iter_mut().zip(&inputs).enumerate().rev() {
            // No layer is before the first one.
            let before = if at > 0 { layer.errors_before(inputs, &errors) } else { Vec::new() };
            layer.learn(inputs, &errors, rate);
            errors = before;
        }
        loss
    }

    /// The part of images whose digit it finds.
    fn accuracy(&self, images: &[Image]) -> f32 {
        let finds = |image: &&Image| {
            let (_, digits) = self.look(image);
            (0..DIGITS).all(|digit| digits[digit] <= digits[image.digit])
        };
        images.iter().filter(finds).count() as f32 / images.len() as f32
    }
}

fn train(epochs: u32, layers: usize, stop: Option<PathBuf>) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut drawn = |count: usize| (0..count).map(|_| draw(&mut random)).collect::<Vec<Image>>();
    let (to_learn, to_test) = (drawn(TO_LEARN), drawn(TO_TEST));
    let mut network = Network::new(layers, &mut random);
    println!("{TO_LEARN} images to learn from, {TO_TEST} to test with");
    for epoch in 1..=epochs {
        let loss: f32 = to_learn.iter().map(|image| network.learn(image, RATE)).sum();
        let (loss, accuracy) = (loss / TO_LEARN as f32, network.accuracy(&to_test));
        println!("epoch {epoch}: loss {loss:.4}, accuracy {accuracy:.3}");
        if stop.as_ref().is_some_and(|file| file.exists()) {
            break;
        }
    }
    println!("final accuracy {:.3}", network.accuracy(&to_test));
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let mut epochs = EPOCHS;
    let mut layers = LAYERS;
    let mut stop = None;
    while let Some(word) = words.next() {
        let value = words.next();
        let number = value.as_ref().and_then(|value| value.parse::<u32>().ok());
        match (word.as_str(), number, value) {
            ("--epochs", Some(given), _) => epochs = given,
            ("--layers", Some(given), _) => layers = given as usize,
            ("--stop", _, Some(file)) => stop = Some(PathBuf::from(file)),
            _ => {
                eprintln!("`{word}` is not known: train [--epochs N] [--layers N] [--stop FILE]");
                return ExitCode::from(2);
            }
        }
    }
    train(epochs, layers, stop);
    ExitCode::SUCCESS
}

//! Studies on the surrogate of LCBench: the best accuracy after so many trials, and the time until a target.
//!
//! `cargo run --release -p estimand-tuning --example lcbench -- trials SAMPLER [SEEDS [TRIALS [WORKERS [INSTANCE]]]]` prints
//! the median and the quartiles for each instance. `clock KIND [SEEDS]` prints the simulated seconds until a full training
//! reaches the top 0.5 %, with 4 workers: KIND is `random`, `asha`, or a sampler, with which ASHA begins its new trials.
//! `speed` prints the time of a proposal.

#![allow(clippy::unwrap_used)]

mod clock;
mod network;

use std::time::Instant;

use estimand_tuning::pruners::Ladder;
use estimand_tuning::samplers::Sampler;
use estimand_tuning::space::{Parameters, Scalar, Space, parse};
use estimand_tuning::{Direction, History, Measure, Outcome, Study, TrialResult};
use network::{Network, Training, instance};

const INSTANCES: [&str; 3] = ["167168", "189873", "189906"];

const SPACE: &str = r#"{"parameters": [
    {"name": "batch_size", "type": "integer", "low": 16, "high": 512, "log": true},
    {"name": "learning_rate", "type": "float", "low": 1e-4, "high": 0.1, "log": true},
    {"name": "momentum", "type": "float", "low": 0.1, "high": 0.99},
    {"name": "weight_decay", "type": "float", "low": 1e-5, "high": 0.1},
    {"name": "num_layers", "type": "integer", "low": 1, "high": 5},
    {"name": "max_units", "type": "integer", "low": 64, "high": 1024, "log": true},
    {"name": "max_dropout", "type": "float", "low": 0, "high": 1}
]}"#;

fn training(parameters: &Parameters) -> Training {
    let of = |name: &str| parameters.get(name).and_then(Scalar::number).unwrap() as f32;
    Training {
        batch_size: of("batch_size"),
        learning_rate: of("learning_rate"),
        momentum: of("momentum"),
        weight_decay: of("weight_decay"),
        num_layers: of("num_layers"),
        max_units: of("max_units"),
        max_dropout: of("max_dropout"),
    }
}

fn sampler(name: &str) -> Sampler {
    match name {
        "grid" => Sampler::Grid { levels: 2 },
        "random" => Sampler::Random,
        "evolution" => Sampler::Evolution,
        "auto" => Sampler::Auto,
        "sobol" => Sampler::Sobol,
        "process" => Sampler::Process,
        "tree" => Sampler::Tree,
        other => panic!("unknown sampler {other}"),
    }
}

/// The quartiles of some numbers.
fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|part| {
        let place = part * (numbers.len() - 1) as f64;
        let below = numbers[place.floor() as usize];
        below + (numbers[place.ceil() as usize] - below) * place.fract()
    })
}

/// The best accuracy of a study in which so many workers each take the next trial as soon as they are free.
fn best(network: &Network, code: usize, study: &Study, trials: u64, workers: usize) -> f64 {
    let mut history = History::default();
    let mut running: Vec<(f64, u64, f64, Parameters)> = Vec::new();
    let mut proposed = 0;
    let mut now = 0.0;
    let mut best = f64::NEG_INFINITY;
    loop {
        while running.len() < workers && proposed < trials {
            history.pending =
                running.iter().map(|(_, number, _, values)| (*number, values.clone())).collect();
            let Some(parameters) = study.propose(proposed, &history) else { break };
            let told = network.forecast(code, 52, &training(&parameters));
            running.push((now + told.seconds, proposed, told.accuracy, parameters));
            proposed += 1;
        }
        let Some(next) = (0..running.len()).min_by(|a, b| running[*a].0.total_cmp(&running[*b].0)) else {
            break;
        };
        let (end, number, accuracy, parameters) = running.remove(next);
        now = end;
        best = best.max(accuracy);
        let outcome = Outcome::Complete(Measure::new(accuracy).unwrap());
        history.results.push(TrialResult { number, parameters, outcome });
    }
    best
}

fn trials(network: &Network, space: &Space, arguments: &[String]) {
    let number =
        |place: usize, default: u64| arguments.get(place).map_or(default, |text| text.parse().unwrap());
    let seeds = number(1, 30);
    let trials = number(2, 100);
    let workers = number(3, 1);
    println!("{trials} trials, {workers} workers, {seeds} seeds: median (quartiles) of the best accuracy");
    for name in INSTANCES.into_iter().filter(|name| arguments.get(4).is_none_or(|only| only == name)) {
        let begun = Instant::now();
        let run = |seed| {
            let study = study(space, sampler(&arguments[0]), seed);
            best(network, instance(name), &study, trials, workers as usize)
        };
        let [low, median, high] = quartiles((0..seeds).map(run).collect());
        let seconds = begun.elapsed().as_secs_f64() / seeds as f64;
        println!("{:8} {name}: {median:.2} ({low:.2} to {high:.2}), {seconds:.2} s a study", arguments[0]);
    }
}

fn study(space: &Space, sampler: Sampler, seed: u64) -> Study {
    Study { space: space.clone(), direction: Direction::Maximize, seed, sampler, enqueued: Vec::new() }
}

fn clock(network: &Network, space: &Space, arguments: &[String]) {
    let kind = arguments[0].as_str();
    let seeds = arguments.get(1).map_or(30, |text| text.parse().unwrap());
    let rungs = if kind == "random" { vec![52] } else { vec![2, 6, 18, 52] };
    let ladder = Ladder::new(3, rungs).unwrap();
    let sampler = if kind == "asha" { Sampler::Random } else { sampler(kind) };
    println!("4 workers, {seeds} seeds: median (quartiles) of the seconds until the target");
    for name in INSTANCES {
        let run = |seed| clock::seconds(network, name, &study(space, sampler, seed), &ladder);
        let [low, median, high] = quartiles((0..seeds).map(run).collect());
        println!("{kind:8} {name}: {median:.0} ({low:.0} to {high:.0})");
    }
}

fn speed(network: &Network, space: &Space) {
    for name in ["random", "sobol", "tree", "process", "evolution"] {
        for count in [100, 1_000] {
            let of_random = study(space, Sampler::Random, 1);
            let mut history = History::default();
            for number in 0..count {
                let parameters = of_random.propose(number, &history).unwrap();
                let accuracy = network.forecast(instance("167168"), 52, &training(&parameters)).accuracy;
                let outcome = Outcome::Complete(Measure::new(accuracy).unwrap());
                history.results.push(TrialResult { number, parameters, outcome });
            }
            let asked = study(space, sampler(name), 1);
            let begun = Instant::now();
            for number in count..count + 5 {
                asked.propose(number, &history).unwrap();
            }
            println!(
                "{name:9} {count:5} results: {:8.2} ms a proposal",
                begun.elapsed().as_secs_f64() * 200.0
            );
        }
    }
}

fn main() {
    let network = Network::read(include_bytes!("model.onnx"));
    network.check();
    let (space, _) = parse(SPACE).unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("trials") => trials(&network, &space, &arguments[1..]),
        Some("clock") => clock(&network, &space, &arguments[1..]),
        Some("speed") => speed(&network, &space),
        other => panic!("unknown part {other:?}: trials, clock or speed"),
    }
}

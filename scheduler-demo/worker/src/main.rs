//! The worker's commands. Here the command line is parsed and what went wrong becomes a message and an exit code.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use estimand_worker::classify::Classifier;
use estimand_worker::model::alexnet::Width;
use estimand_worker::network::Network;
use estimand_worker::{bench, images, model, pictures, work};
use serde_json::json;

/// Classifies images with a network in ONNX form
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make an ONNX file of AlexNet with weights from a seed (244 MB)
    MakeModel(MakeModel),
    /// Make JPEG files of the sizes that ImageNet's have
    MakeImages(MakeImages),
    /// Classify files: a line of JSON each
    Classify(Classify),
    /// Measure how many images a second one core classifies
    Bench(Bench),
    /// Do a node's part of a job; an agent starts this, with what it is to do in the environment
    Work,
}

#[derive(Args)]
struct MakeModel {
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Other weights for another seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The same layers, but narrow (1 MB): for tests
    #[arg(long)]
    small: bool,
}

#[derive(Args)]
struct MakeImages {
    /// The folder to write them to, or hdfs://namenode:port/folder
    #[arg(long, value_name = "DIR")]
    out: String,
    #[arg(long, default_value_t = 400)]
    count: usize,
    /// How many DataNodes of an HDFS get each; by default what the HDFS takes for usual
    #[arg(long, value_name = "COUNT")]
    copies: Option<u32>,
    /// Other pictures for another seed
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

#[derive(Args)]
struct Classify {
    /// The network: it takes 1 x 3 x 224 x 224 floats, normalised as ImageNet's images are
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// JPEG files
    #[arg(required = true, value_name = "IMAGE")]
    files: Vec<PathBuf>,
}

#[derive(Args)]
struct Bench {
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// A folder of JPEG files
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// How many of them to take
    #[arg(long, default_value_t = 40)]
    count: usize,
    /// How many images to infer at a time; several are compared
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u16).range(1..=256))]
    batch: Vec<u16>,
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Run a round of the first batch size for each line on stdin, and print its figures as a line of JSON
    #[arg(long)]
    on_demand: bool,
}

fn main() -> ExitCode {
    // The HTTP client is built without a provider for TLS. This fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let done = match Cli::parse().command {
        Command::MakeModel(args) => make_model(&args),
        Command::MakeImages(args) => make_images(&args),
        Command::Classify(args) => classify(&args),
        Command::Bench(args) => measure(&args),
        Command::Work => work::main().map_err(anyhow::Error::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("estimand-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn make_model(args: &MakeModel) -> anyhow::Result<()> {
    let width = if args.small { Width::SMALL } else { Width::USUAL };
    let path = args.out.display();
    let write = || {
        let mut file = BufWriter::new(File::create(&args.out)?);
        model::write(width, args.seed, &mut file)?;
        file.flush()
    };
    write().with_context(|| path.to_string())
}

fn make_images(args: &MakeImages) -> anyhow::Result<()> {
    let place = images::Images::make(&args.out)?;
    pictures::write(&place, args.count, args.seed, args.copies).with_context(|| args.out.clone())
}

fn classify(args: &Classify) -> anyhow::Result<()> {
    let mut classifier = Classifier::load(&args.model)?;
    let mut out = io::stdout().lock();
    let mut failed = 0;
    for file in &args.files {
        let image = file.display().to_string();
        let answer = images::read_file(file).map_err(|error| error.to_string());
        let answer = answer.and_then(|bytes| classifier.classify(&bytes).map_err(|error| error.to_string()));
        let line = match answer {
            Ok(verdict) => json!({ "image": image, "label": verdict.label, "score": verdict.score }),
            Err(error) => {
                failed += 1;
                json!({ "image": image, "error": error })
            }
        };
        writeln!(out, "{line}")?;
    }
    match failed {
        0 => Ok(()),
        _ => anyhow::bail!("{failed} of {} images have no label", args.files.len()),
    }
}

fn measure(args: &Bench) -> anyhow::Result<()> {
    let files = bench::load(&args.images, args.count)?;
    let batches: Vec<usize> = args.batch.iter().map(|batch| usize::from(*batch)).collect();
    if args.on_demand {
        let network = Network::load(&args.model, batches[0])?;
        return Ok(bench::serve(&network, &files, io::stdin().lock(), io::stdout().lock())?);
    }
    Ok(bench::table(&args.model, &files, &batches, usize::from(args.rounds), io::stdout().lock())?)
}

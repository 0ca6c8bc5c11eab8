//! The command line of the show.

use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};
use estimand_show::Act;

/// Where the project has the script that runs an HDFS.
const HDFS_COMMAND: &str = "tests/testkit/hdfs/serve";

const EXAMPLES: &str = "\
Emulates four nodes of different speeds on this machine, each with an agent and a worker that classifies
images with a neural network, and divides the images among them again and again: by the nodes' processors,
by their load, and by how fast they were. Only a binding changes in between. Then a node becomes three
times slower under way. It takes some two minutes; nothing is left but the report.

Examples:
  ./run-demo
  ./run-demo --act figure8 --images 200 --out /tmp/report
  ./run-demo --model trained.onnx --json > report.json";

/// Show a scheduler at work on this machine: four emulated nodes, three estimators, a report
#[derive(Debug, Parser)]
#[command(name = "estimand-show", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct ShowArgs {
    /// What to show: the three estimates of the paper's figure 8, what helps when a node changes, or both
    #[arg(long, value_name = "ACT", default_value = "all")]
    act: Shown,
    /// How many images to classify
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u16).range(8..=8000))]
    images: u16,
    /// The network, in ONNX form [default: AlexNet with weights from a seed]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    model: Option<PathBuf>,
    /// The `estimand` binary [default: estimand beside this program, else on PATH]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    /// The program that classifies [default: estimand-worker beside this one, on PATH, or where it is built]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    worker: Option<PathBuf>,
    /// Where report.html, report.json and figure8.svg go
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// A new folder for all that the show makes, which stays: logs, results, databases
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep: Option<PathBuf>,
    /// Slow nodes down by letting their workers pause, also where control groups could do it
    #[arg(long)]
    no_cgroups: bool,
    /// Keep the images in a real HDFS with a DataNode for each node
    #[arg(long)]
    hdfs: bool,
    /// What runs that HDFS
    #[arg(long, value_name = "PATH", default_value = HDFS_COMMAND, requires = "hdfs", value_hint = ValueHint::FilePath)]
    hdfs_command: PathBuf,
    /// Print the report as JSON, and all else on standard error
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shown {
    Figure8,
    Change,
    All,
}

impl ShowArgs {
    pub fn options(self, program: PathBuf, terminal: Option<usize>) -> estimand_show::Options {
        estimand_show::Options {
            program,
            worker: self.worker,
            model: self.model,
            images: usize::from(self.images),
            keep: self.keep,
            out: self.out,
            act: match self.act {
                Shown::Figure8 => Act::Figure8,
                Shown::Change => Act::Change,
                Shown::All => Act::All,
            },
            groups: !self.no_cgroups,
            hdfs: self.hdfs.then_some(self.hdfs_command),
            json: self.json,
            terminal,
        }
    }
}

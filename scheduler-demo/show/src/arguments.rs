//! The command line of the show.

use std::path::PathBuf;

use clap::{Parser, ValueHint};
use estimand_show::{Act, Options};

/// The project's script that runs an HDFS.
const HDFS_COMMAND: &str = "tests/testkit/hdfs/serve";

const EXAMPLES: &str = "\
Emulates four nodes of different speeds on this machine, each with an agent and a worker that classifies
images with a neural network, and divides the images among them again and again: by the nodes' processors,
by their load, and by their measured speed. Only a binding changes in between. Then a node becomes three
times slower under way. It takes some two minutes; only the report is left.

Examples:
  ./run-demo
  ./run-demo --act figure8 --images 200 --out /tmp/report
  ./run-demo --model trained.onnx --json > report.json";

/// Show a scheduler at work on this machine: four emulated nodes, three estimators, a report
#[derive(Debug, Parser)]
#[command(name = "estimand-show", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct ShowArgs {
    /// The act to show: the three estimates of the paper's figure 8, a node that changes, or both
    #[arg(long, value_name = "ACT", default_value = "all")]
    act: Act,
    /// How many images to classify
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u16).range(8..=8000))]
    images: u16,
    /// The network, in ONNX form [default: AlexNet with weights from a seed]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    model: Option<PathBuf>,
    /// The `estimand` binary [default: estimand beside this program, else on PATH]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    program: Option<PathBuf>,
    /// The program that classifies [default: estimand-worker beside `estimand`, on PATH, or where it is built]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    worker: Option<PathBuf>,
    /// Where report.html, report.json and figure8.svg go; it is made if it is missing
    #[arg(long, value_name = "DIR", default_value = "demo-report", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// Keep all files of the show in this new folder: logs, results, databases
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep: Option<PathBuf>,
    /// Slow nodes down by pauses of their workers, even if control groups are available
    #[arg(long)]
    no_cgroups: bool,
    /// Keep the images in a real HDFS with a DataNode for each node
    #[arg(long)]
    hdfs: bool,
    /// The command that runs that HDFS
    #[arg(long, value_name = "PATH", default_value = HDFS_COMMAND, requires = "hdfs", value_hint = ValueHint::FilePath)]
    hdfs_command: PathBuf,
    /// Print the report as JSON, and everything else on standard error
    #[arg(long)]
    json: bool,
}

impl ShowArgs {
    pub fn options(self, terminal: Option<usize>) -> Options {
        Options {
            program: self.program,
            worker: self.worker,
            model: self.model,
            images: usize::from(self.images),
            keep: self.keep,
            out: self.out,
            act: self.act,
            groups: !self.no_cgroups,
            hdfs: self.hdfs.then_some(self.hdfs_command),
            json: self.json,
            terminal,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        show: ShowArgs,
    }

    /// `./run-demo` runs in the checkout.
    #[test]
    fn the_report_goes_where_git_ignores_it() {
        let out = Program::parse_from(["estimand-show"]).show.out;
        let checkout = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ignored = std::fs::read_to_string(checkout.join(".gitignore")).unwrap();
        assert!(
            ignored.lines().any(|line| line == format!("/{}", out.display())),
            "{} is not ignored",
            out.display()
        );
    }
}

//! The commands about studies of tuning and their trials.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde_json::{Map, Value};

use super::{Remote, Remotely, parse};

const TUNE_EXAMPLES: &str = "\
A study proposes parameters, is told what came of them, and proposes better ones. A trial is one set of parameters; whoever
asks for it tries it, anywhere and in any language.

Examples:
  estimand tune create digits --maximize --float lr=1e-4..0.1:log --integer layers=1..5 --trials 50 --pruner median
  estimand tune ask digits
  estimand tune report digits 0 1 0.91          # `stop` or `go on`
  estimand tune tell digits 0 0.93
  estimand tune best digits
  estimand tune trials digits --state COMPLETE";

const CREATE_EXAMPLES: &str = "\
A range is LOW..HIGH, with `:log` for a scale of powers or `:STEP` for steps. What a file has, options replace.

Examples:
  estimand tune create digits --maximize --float lr=1e-4..0.1:log --choice optimizer=sgd,adam --trials 100
  estimand tune create digits --file study.json --seed 7
  estimand tune create noise --minimize --integer width=8..256:8 --sampler random --time 2h
  estimand tune create digits --maximize --float lr=1e-4..0.1:log --parallel 4 --objective accuracy -- python3 train.py --lr={lr}";

const ASK_EXAMPLES: &str = "\
Each trial is a line: its number, and its parameters as options. It fails with exit code 3 once the study has no more, so a worker
in a shell is:
  while trial=$(estimand tune ask digits); do
    set -- $trial; number=$1; shift
    estimand tune tell digits \"$number\" \"$(./train \"$@\")\"
  done";

#[derive(Debug, Args)]
#[command(after_help = TUNE_EXAMPLES)]
pub struct TuneArgs {
    #[command(subcommand)]
    pub action: Option<TuneAction>,
}

#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Make a study; with the same id and document it is the same study
    Create(Box<Remotely<CreateStudyArgs>>),
    /// List studies, the newest first
    List(Remotely<ListStudiesArgs>),
    /// Show all about a study
    Show(Remotely<StudyArgs>),
    /// List the trials of a study
    Trials(Remotely<TrialsArgs>),
    /// Show the best trial of a study
    Best(Remotely<StudyArgs>),
    /// Say how much each parameter matters
    Importance(Remotely<StudyArgs>),
    /// Ask for trials to try
    Ask(Remotely<AskArgs>),
    /// Report a value of a trial on its way, and hear whether it should stop
    Report(Remotely<ReportArgs>),
    /// Tell what came of a trial
    Tell(Remotely<TellArgs>),
    /// Let studies propose nothing until they are resumed
    Pause(Remotely<SomeStudiesArgs>),
    /// Let paused studies go on
    Resume(Remotely<SomeStudiesArgs>),
    /// End studies; their trials stay
    Stop(Remotely<SomeStudiesArgs>),
    /// Forget studies, with all their trials
    Delete(Remotely<SomeStudiesArgs>),
}

#[derive(Debug, Default, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct CreateStudyArgs {
    /// The id of the study
    #[arg(value_name = "STUDY", required_unless_present = "file")]
    pub study: Option<String>,
    /// Its document, a JSON file (`-`: standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Smaller values are better
    #[arg(long, conflicts_with = "maximize")]
    pub minimize: bool,
    /// Larger values are better
    #[arg(long)]
    pub maximize: bool,
    /// A parameter that is a number; may be repeated
    #[arg(long = "float", id = "floats", value_name = "NAME=LOW..HIGH[:log]", value_parser = parse::float_parameter)]
    pub floats: Vec<Map<String, Value>>,
    /// A parameter that is a whole number; may be repeated
    #[arg(long = "integer", id = "integers", value_name = "NAME=LOW..HIGH[:log]", value_parser = parse::integer_parameter)]
    pub integers: Vec<Map<String, Value>>,
    /// A parameter that is one of some values; may be repeated
    #[arg(long = "choice", id = "choices", value_name = "NAME=A,B,…", value_parser = parse::choice_parameter)]
    pub choices: Vec<Map<String, Value>>,
    /// Who proposes: auto, tpe, gp, cmaes, sobol, random or grid [default: auto]
    #[arg(long, value_name = "NAME")]
    pub sampler: Option<String>,
    /// Who ends trials that lead nowhere: median or plateau [default: nobody]
    #[arg(long, value_name = "NAME")]
    pub pruner: Option<String>,
    /// The seed of all proposals: the same seed and results give the same trials [default: drawn]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// A point to try first, as a JSON object; may be repeated
    #[arg(long = "enqueue", id = "enqueued", value_name = "JSON", value_parser = parse::json)]
    pub enqueued: Vec<Value>,
    /// It is over after so many results
    #[arg(long, value_name = "N")]
    pub trials: Option<u64>,
    /// It is over once a value is as good as this
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub target: Option<f64>,
    /// It is over after so many results without a better one
    #[arg(long, value_name = "N")]
    pub plateau: Option<u64>,
    /// It is over after this time
    #[arg(long, value_name = "DURATION")]
    pub time: Option<String>,
    /// A trial of which nothing is heard for so long has failed [default: never]
    #[arg(long, value_name = "DURATION")]
    pub silence: Option<String>,
    /// How long `ask` waits for a proposal that knows of all results [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub patience: Option<String>,
    /// Whose study it is; operators only [default: nobody's]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The document of the task that runs each trial, a JSON file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub task: Option<PathBuf>,
    /// How many trials run as tasks at the same time [default: 1]
    #[arg(long, value_name = "N")]
    pub parallel: Option<u64>,
    /// Which of the values that the tasks say is the trial's [default: value]
    #[arg(long, value_name = "NAME")]
    pub objective: Option<String>,
    /// The command of that task, with `{name}` for the value of a parameter; no shell is started
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ListStudiesArgs {
    /// Only those in these states, such as RUNNING,PAUSED
    #[arg(long, value_name = "STATES", default_value = "", hide_default_value = true)]
    pub state: String,
    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct StudyArgs {
    pub study: String,
}

#[derive(Debug, Args)]
pub struct SomeStudiesArgs {
    #[arg(required = true, value_name = "STUDY")]
    pub studies: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TrialsArgs {
    pub study: String,
    /// Only those in these states, such as COMPLETE,PRUNED
    #[arg(long, value_name = "STATES", default_value = "", hide_default_value = true)]
    pub state: String,
    /// Only those with higher numbers
    #[arg(long, value_name = "NUMBER")]
    pub after: Option<u64>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
}

#[derive(Debug, Args)]
#[command(after_help = ASK_EXAMPLES)]
pub struct AskArgs {
    pub study: String,
    /// How many trials
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub count: u64,
    /// A key of your own: asked again with it, they are the same trials [default: a new one each time]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    pub study: String,
    #[arg(value_name = "TRIAL")]
    pub trial: u64,
    /// A whole number that grows from report to report, such as the epoch
    pub step: u64,
    #[arg(allow_hyphen_values = true)]
    pub value: f64,
}

#[derive(Debug, Args)]
pub struct TellArgs {
    pub study: String,
    #[arg(value_name = "TRIAL")]
    pub trial: u64,
    /// The value that it reached
    #[arg(allow_hyphen_values = true, required_unless_present_any = ["pruned", "failed"])]
    pub value: Option<f64>,
    /// It ended early, as its study said
    #[arg(long, conflicts_with_all = ["value", "failed"])]
    pub pruned: bool,
    /// It has no value, for this reason
    #[arg(long, value_name = "REASON", conflicts_with = "value")]
    pub failed: Option<String>,
}

impl TuneArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            TuneAction::Create(args) => &args.remote,
            TuneAction::List(args) => &args.remote,
            TuneAction::Show(args) | TuneAction::Best(args) | TuneAction::Importance(args) => &args.remote,
            TuneAction::Trials(args) => &args.remote,
            TuneAction::Ask(args) => &args.remote,
            TuneAction::Report(args) => &args.remote,
            TuneAction::Tell(args) => &args.remote,
            TuneAction::Pause(args)
            | TuneAction::Resume(args)
            | TuneAction::Stop(args)
            | TuneAction::Delete(args) => &args.remote,
        })
    }
}

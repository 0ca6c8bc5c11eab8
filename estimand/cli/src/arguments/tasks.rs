//! The commands about tasks.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use estimand_api::selector::Selector;
use estimand_api::task_log::LogStream;

use super::{Remote, Remotely, parse};

const TASKS_EXAMPLES: &str = "\
Examples:
  estimand tasks
  estimand tasks submit --cpu 0.5 --memory 256MiB -- /usr/bin/python3 train.py
  estimand tasks list --state QUEUED,RUNNING
  estimand tasks show t17
  estimand tasks logs t17 --follow
  estimand tasks logs t17 --since 10m --grep error --tail 20
  estimand tasks wait t17
  estimand tasks outputs t17
  estimand tasks forward t17 8888
  estimand tasks watch --state FAILED,LOST
  estimand tasks events --json > trace.jsonl
  estimand tasks cancel t17";

const SUBMIT_EXAMPLES: &str = "\
A file has the whole document as JSON; options given beside it go before what it says.

Examples:
  estimand tasks submit -- /bin/sh -c 'echo hello'
  estimand tasks submit --id train-1 --cpu 2 --nodes 'zone=a' --retries 3 -- /opt/train --epochs 10
  estimand tasks submit --id sweep --count 100 -- /bin/sh -c 'echo $ESTIMAND_TASK_INDEX'
  estimand tasks submit --after sweep -- /opt/summary
  estimand tasks submit --input data/train.csv --output model.bin -- /opt/train
  estimand tasks submit --port 0 -- /bin/sh -c 'exec jupyter lab --port $ESTIMAND_TASK_PORT'
  estimand tasks submit --file task.json";

const RUN_TASK_EXAMPLES: &str = "\
The output of the command comes out here as it is written, standard error too, and the exit code is its own.
Ctrl-C cancels it and waits for its end; a second one waits no longer. If it never ran: 125. If it took
longer than its timeout: 124. If a signal ended it: 128 and its number.

Examples:
  estimand run-task -- /bin/hostname
  estimand run-task --cpu 4 --nodes gpu -- /opt/train --epochs 10";

#[derive(Debug, Args)]
#[command(after_help = TASKS_EXAMPLES)]
pub struct TasksArgs {
    #[command(subcommand)]
    pub action: Option<TasksAction>,
}

#[derive(Debug, Subcommand)]
pub enum TasksAction {
    /// Submit a task: a command that is run once, on the node that suits best; or an array of them
    Submit(Box<Remotely<SubmitArgs>>),
    /// List tasks, the newest first
    List(Remotely<ListTasksArgs>),
    /// Show all about a task: how far it is, why it waits or is where it is, what happened to it
    Show(Remotely<TaskArgs>),
    /// Show what a task wrote
    Logs(Remotely<TaskLogsArgs>),
    /// Show which files were kept of a task that has ended
    Outputs(Remotely<TaskArgs>),
    /// Lead a port of this machine to the port of a task, such as that of a notebook, until Ctrl-C
    Forward(Remotely<ForwardArgs>),
    /// Cancel tasks: those that wait do not begin, those that run end
    Cancel(Remotely<SomeTasksArgs>),
    /// Wait until tasks are over; the exit code is 1 unless all succeeded
    Wait(Remotely<SomeTasksArgs>),
    /// Show what happened to tasks, the oldest first
    Events(Remotely<TaskEventsArgs>),
    /// Show what happens to tasks, until Ctrl-C; of one task all that happened, until it is over
    Watch(Remotely<TaskEventsArgs>),
    /// Forget tasks that are over, with their logs
    Delete(Remotely<SomeTasksArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = SUBMIT_EXAMPLES)]
pub struct SubmitArgs {
    /// Read the task's document as JSON from a file (`-`: standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// A key of your own: the same submission sent twice with it is one task [default: a new one each time]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Make an array of so many tasks, ID.0 and so on, each with its ESTIMAND_TASK_INDEX
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    #[command(flatten)]
    pub document: DocumentOptions,
    /// The command: one word is split like a shell splits words, several are taken as they are; no shell is started
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_TASK_EXAMPLES)]
pub struct RunTaskArgs {
    #[command(flatten)]
    pub document: DocumentOptions,
    /// The command: one word is split like a shell splits words, several are taken as they are; no shell is started
    #[arg(last = true, value_name = "CMD", required_unless_present = "image", value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,
}

// The fields of a task's document.
#[derive(Debug, Default, Args)]
pub struct DocumentOptions {
    /// Its name [default: one is made]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The processors that it needs, such as 2 or 0.5
    #[arg(long, value_name = "N")]
    pub cpu: Option<f64>,
    /// The memory that it needs, in bytes or such as 256MiB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// How many GPUs it needs
    #[arg(long, value_name = "N")]
    pub gpu: Option<u64>,
    /// How much it needs of anything else that nodes have as a countable label; may be repeated
    #[arg(long = "resource", id = "resources", value_name = "NAME=N", value_parser = parse::pair)]
    pub resources: Vec<(String, String)>,
    /// The nodes on which it may run, by their labels, such as zone=a,gpu
    #[arg(long, value_name = "SELECTOR")]
    pub nodes: Option<Selector>,
    /// How its node is chosen: estimated, least-pressure, queue, random, two-choices, pack or spread
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// More goes first; a minute of waiting is worth 1
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// The time after which a run of it is ended, such as 1h
    #[arg(long, value_name = "SPAN")]
    pub timeout: Option<String>,
    /// How often it is run again after a failure
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Its fate when its node is lost: restart, fail or wait
    #[arg(long, value_name = "WORD")]
    pub on_loss: Option<String>,
    /// A variable of its environment; may be repeated
    #[arg(long = "env", id = "env", value_name = "KEY=VALUE", value_parser = parse::pair)]
    pub env: Vec<(String, String)>,
    /// A variable whose value is shown to nobody, from a file (`-`: standard input); may be repeated
    #[arg(long = "secret-file", id = "secret_files", value_name = "KEY=FILE", value_parser = parse::pair)]
    pub secret_files: Vec<(String, String)>,
    /// The folder in which it is started [default: one of its own]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<String>,
    /// A folder of the node that it finds at another place, SOURCE:TARGET or SOURCE:TARGET:ro; may be repeated
    #[arg(long = "volume", id = "volumes", value_name = "VOLUME")]
    pub volumes: Vec<String>,
    /// The image of its container; without, it is a process
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// A file of its user's that lies in its folder when it starts, there under its own path or this one; may be repeated
    #[arg(long = "input", id = "inputs", value_name = "FILE[:AS]")]
    pub inputs: Vec<String>,
    /// A file or folder there that is kept when it has ended, such as 'logs/*'; may be repeated
    #[arg(long = "output", id = "outputs", value_name = "PATH")]
    pub outputs: Vec<String>,
    /// The port at which it listens, as $ESTIMAND_TASK_PORT says; 0: one that is free on its node
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// A label of its own, to find it by; may be repeated
    #[arg(long = "label", id = "labels", value_name = "KEY=VALUE", value_parser = parse::label)]
    pub labels: Vec<(String, String)>,
    /// Whose task it is
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Run it on the capacity of this promise, in its time
    #[arg(long, value_name = "ID")]
    pub promise: Option<String>,
    /// Run it after the success of this task, or of all tasks of this array; may be repeated
    #[arg(long = "after", id = "after", value_name = "ID")]
    pub after: Vec<String>,
    /// Run it after the end of this task or array, however that ends; may be repeated
    #[arg(long = "after-end", id = "after_end", value_name = "ID")]
    pub after_end: Vec<String>,
}

#[derive(Debug, Default, Args)]
pub struct ListTasksArgs {
    /// Only those in these states, with commas between several
    #[arg(long, value_name = "STATES", default_value = "", hide_default_value = true)]
    pub state: String,
    /// Only those with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub labels: String,
    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Only those of this array
    #[arg(long, value_name = "ID")]
    pub array: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct TaskArgs {
    /// The task or array
    pub id: String,
}

#[derive(Debug, Args)]
pub struct ForwardArgs {
    /// The task
    pub id: String,
    /// The port here [default: one that is free]
    #[arg(value_name = "LOCALPORT")]
    pub local_port: Option<u16>,
}

#[derive(Debug, Args)]
pub struct SomeTasksArgs {
    /// The tasks or arrays
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TaskLogsArgs {
    /// The task, or an array: then the logs of its tasks, one after the other
    pub id: String,
    /// Go on with what it writes until it is over, or until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Begin with the line of this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Only what it wrote there, stdout or stderr; raw: both as one, byte for byte
    #[arg(long, value_name = "STREAM")]
    pub stream: Option<LogStream>,
    /// Only what this attempt wrote
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Only what was written since then: how long ago, such as 10m, or an instant
    #[arg(long, value_name = "WHEN", value_parser = parse::moment)]
    pub since: Option<String>,
    /// Only what was written before
    #[arg(long, value_name = "WHEN", value_parser = parse::moment)]
    pub until: Option<String>,
    /// Only lines with this text in them
    #[arg(long, value_name = "TEXT")]
    pub grep: Option<String>,
    /// Begin with so many of the last lines, at most 500
    #[arg(long, value_name = "N", conflicts_with = "from")]
    pub tail: Option<u32>,
}

#[derive(Debug, Args)]
pub struct TaskEventsArgs {
    /// Only those of this task, or with `*` at its end of those whose ids begin so
    pub id: Option<String>,
    /// Only those after this revision [default: all that are kept; to watch, those to come]
    #[arg(long, value_name = "REVISION")]
    pub after: Option<u64>,
    /// Only those that lead to these states, with commas between several
    #[arg(long, value_name = "STATES", default_value = "", hide_default_value = true)]
    pub state: String,
    /// Only those of tasks with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub labels: String,
    /// Only those of this user's tasks
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

impl TasksArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            TasksAction::Submit(args) => &args.remote,
            TasksAction::List(args) => &args.remote,
            TasksAction::Show(args) | TasksAction::Outputs(args) => &args.remote,
            TasksAction::Logs(args) => &args.remote,
            TasksAction::Forward(args) => &args.remote,
            TasksAction::Events(args) => &args.remote,
            TasksAction::Watch(args) => &args.remote,
            TasksAction::Cancel(args) | TasksAction::Wait(args) | TasksAction::Delete(args) => &args.remote,
        })
    }
}

//! The commands about tasks.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use estimand_api::duration::Span;
use estimand_api::task_log::LogStream;

use super::field_options::{SingleTaskFields, TaskFields};
use super::{Remote, Remotely, parse};

const TASKS_EXAMPLES: &str = "\
Examples:
  estimand tasks
  estimand tasks submit --cpu 0.5 --memory 256MiB -- /usr/bin/python3 train.py
  estimand tasks list --state QUEUED,RUNNING
  estimand tasks show t17
  estimand tasks logs t17 --follow
  estimand tasks logs t17 --since 10m --grep error --tail 20
  estimand tasks progress t17 --follow
  estimand tasks wait t17
  estimand tasks outputs t17
  estimand tasks forward t17 8888
  estimand tasks watch --state FAILED,LOST
  estimand tasks events --json > trace.jsonl
  estimand tasks usage --by label:study
  estimand tasks cancel t17
  estimand tasks cancel t17 --grace 30s --checkpoint
  estimand tasks yield t17";

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
    /// Show how far tasks said they are, by lines `estimand-progress {"step": 3, "of": 90}`
    Progress(Remotely<TaskProgressArgs>),
    /// Show which files were kept of a task that has ended
    Outputs(Remotely<TaskArgs>),
    /// Lead a port of this machine to the port of a task, such as that of a notebook, until Ctrl-C
    Forward(Remotely<ForwardArgs>),
    /// Cancel tasks: those that wait do not begin, those that run end
    Cancel(Remotely<CancelTasksArgs>),
    /// Send tasks back to the queue: those that run save their work, end and wait again
    Yield(Remotely<YieldTasksArgs>),
    /// Wait until tasks are over; the exit code is 1 unless all succeeded
    Wait(Remotely<SomeTasksArgs>),
    /// Show what happened to tasks, the oldest first
    Events(Remotely<TaskEventsArgs>),
    /// Show what happens to tasks, until Ctrl-C; of one task all that happened, until it is over
    Watch(Remotely<TaskEventsArgs>),
    /// Show what tasks used beside what they asked for, added up
    Usage(Remotely<UsageArgs>),
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
    #[command(flatten)]
    pub fields: TaskFields,
    #[command(flatten)]
    pub secrets: SecretOptions,
    /// The command: one word is split like a shell splits words, several are taken as they are; no shell is started
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_TASK_EXAMPLES)]
pub struct RunTaskArgs {
    #[command(flatten)]
    pub fields: SingleTaskFields,
    #[command(flatten)]
    pub secrets: SecretOptions,
    /// The command: one word is split like a shell splits words, several are taken as they are; no shell is started
    #[arg(last = true, value_name = "CMD", required_unless_present = "image", value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,
}

// The variables that come from files of this machine.
#[derive(Debug, Default, Args)]
pub struct SecretOptions {
    /// A variable whose value is shown to nobody, from a file (`-`: standard input); may be repeated
    #[arg(long = "secret-file", id = "secret_files", value_name = "KEY=FILE", help_heading = "Its work", value_parser = parse::pair)]
    pub secret_files: Vec<(String, String)>,
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
pub struct UsageArgs {
    /// Added up by user, by array, or by the values of a label (label:NAME)
    #[arg(long, value_name = "WHAT", default_value = "user")]
    pub by: String,
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
pub struct CancelTasksArgs {
    #[command(flatten)]
    pub tasks: SomeTasksArgs,
    /// How long each has to end until it is killed, such as 30s; 0 kills at once. By default 10s; with
    /// --checkpoint its own `checkpointGrace`, or 20s
    #[arg(long, value_name = "SPAN")]
    pub grace: Option<Span>,
    /// Ask each to save its work first, by SIGUSR1
    #[arg(long)]
    pub checkpoint: bool,
}

#[derive(Debug, Args)]
pub struct YieldTasksArgs {
    #[command(flatten)]
    pub tasks: SomeTasksArgs,
    /// How long each has to save its work and end until it is killed, such as 30s; 0 kills at once. By default its
    /// own `checkpointGrace`, or 20s
    #[arg(long, value_name = "SPAN")]
    pub grace: Option<Span>,
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

#[derive(Debug, Args)]
pub struct TaskProgressArgs {
    /// Only that of this task, or with `*` at its end of those whose ids begin so
    pub id: Option<String>,
    /// Only that after this revision [default: all that is kept]
    #[arg(long, value_name = "REVISION")]
    pub after: Option<u64>,
    /// Only that of tasks with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub labels: String,
    /// Only that of this user's tasks
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Go on with what comes; of one task until it is over
    #[arg(long, short)]
    pub follow: bool,
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
            TasksAction::Usage(args) => &args.remote,
            TasksAction::Events(args) => &args.remote,
            TasksAction::Progress(args) => &args.remote,
            TasksAction::Watch(args) => &args.remote,
            TasksAction::Cancel(args) => &args.remote,
            TasksAction::Yield(args) => &args.remote,
            TasksAction::Wait(args) | TasksAction::Delete(args) => &args.remote,
        })
    }
}

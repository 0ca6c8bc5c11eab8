//! The names that a shell completes: data names, nodes and tasks, asked of the services within half a second.
//!
//! Which argument takes which names follows from its type. A service that is away, or that says no, is silent: then
//! there are no candidates.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, Command, value_parser};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use estimand_api::names::{DataName, NamePattern, NodeName};
use estimand_cli::{Failure, Remote, Session};
use estimand_client::TaskQuery;

use crate::cli::groups;

/// The variable with which a shell asks: the shell's name is in it.
pub const VARIABLE: &str = "ESTIMAND_COMPLETE";
/// For all requests together; the shell waits.
const WITHIN: Duration = Duration::from_millis(400);
/// How many tasks are offered, the newest first.
const MAX_TASKS: u32 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Data,
    Nodes,
    Tasks,
}

/// Answers a shell that asks for completions, and ends the process; does nothing else.
pub fn answer_shell() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(|| with_candidates(groups::command(), false)).var(VARIABLE).complete();
    }
}

fn with_candidates(command: Command, of_tasks: bool) -> Command {
    let of_tasks = of_tasks || command.get_name() == "tasks";
    let command = command.mut_args(|arg| match names_of(&arg, of_tasks) {
        Some(names) => arg.add(ArgValueCandidates::new(move || candidates(names))),
        None => arg,
    });
    command.mut_subcommands(|inner| with_candidates(inner, of_tasks))
}

fn names_of(arg: &Arg, of_tasks: bool) -> Option<Names> {
    let kind = arg.get_value_parser().type_id();
    let is_name = kind == ValueParser::from(value_parser!(DataName)).type_id()
        || kind == ValueParser::from(value_parser!(NamePattern)).type_id();
    let is_new = arg.get_id() == "new_name";
    match () {
        () if is_name && !is_new => Some(Names::Data),
        () if kind == ValueParser::from(value_parser!(NodeName)).type_id() => Some(Names::Nodes),
        () if of_tasks && ["id", "ids"].contains(&arg.get_id().as_str()) => Some(Names::Tasks),
        () => None,
    }
}

fn candidates(names: Names) -> Vec<CompletionCandidate> {
    let asked = remote(std::env::args_os());
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let found = runtime.block_on(async { tokio::time::timeout(WITHIN, ask(&asked, names)).await });
    // A thread that waits for a name server is not waited for.
    runtime.shutdown_background();
    let mut found = found.ok().and_then(Result::ok).unwrap_or_default();
    found.sort();
    found.dedup();
    found.into_iter().map(CompletionCandidate::new).collect()
}

async fn ask(remote: &Remote, names: Names) -> Result<Vec<String>, Failure> {
    let client = Session::quiet(remote)?.client;
    Ok(match names {
        Names::Data => {
            let (registrations, bindings) = tokio::join!(client.registrations(), client.bindings());
            let registered =
                registrations.unwrap_or_default().into_iter().map(|one| one.registration.data_name);
            let bound = bindings.unwrap_or_default().into_iter().map(|one| one.data_name);
            registered.chain(bound).map(|name| name.to_string()).collect()
        }
        Names::Nodes => client.nodes().await?.into_iter().map(|node| node.node_name.to_string()).collect(),
        Names::Tasks => {
            let query = TaskQuery { limit: Some(MAX_TASKS), ..TaskQuery::default() };
            client.tasks(&query).await?.tasks.into_iter().map(|task| task.id).collect()
        }
    })
}

/// The services that the half-written command line names.
fn remote(words: impl Iterator<Item = OsString>) -> Remote {
    let words: Vec<OsString> = words.collect();
    let after = |name: &str| {
        let beside = words.iter().position(|word| word == OsStr::new(name)).and_then(|at| words.get(at + 1));
        let joined = words.iter().find_map(|word| word.to_str()?.strip_prefix(name)?.strip_prefix('='));
        beside.and_then(|word| word.to_str()).or(joined)
    };
    let server = after("--server").into_iter().flat_map(|list| list.split(',')).map(str::to_owned);
    Remote {
        server: server.collect(),
        authority: after("--authority").map(Into::into),
        certificate: after("--certificate").map(Into::into),
        json: false,
    }
}

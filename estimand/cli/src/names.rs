//! The names that the services know, and the arguments of the command line that take them.
//!
//! Shells complete these names, and an error about an unknown one says the nearest of them. The names that an argument
//! takes follow from its type, its command and its own name; a test lists them all.

use std::any::TypeId;

use clap::Arg;
use estimand_api::names::{DataName, NamePattern, NodeName};
use estimand_client::{Client, Error, Query, TaskQuery};

/// How many tasks are read, the newest ones.
const MAX_TASKS: u32 = 200;
/// How many values are read for their names, which nobody has registered.
const MAX_VALUES: u32 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Everything that can be read: registered, bound, or written without either.
    Data,
    Registrations,
    Bindings,
    Nodes,
    Tasks,
}

/// The names that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentNames {
    /// Such a name must be there already.
    Known(Names),
    /// A name that is there may be given, and a new one as well.
    Any(Names),
    /// The name is made by the command, or is no name of these.
    New,
}

/// The names that an argument takes, by the words of its command; none: it takes no names.
pub fn of_argument(command: &[&str], arg: &Arg) -> Option<ArgumentNames> {
    let (kind, id) = (arg.get_value_parser().type_id(), arg.get_id().as_str());
    if kind == TypeId::of::<NodeName>() {
        return Some(of_node(command));
    }
    if kind == TypeId::of::<DataName>() || kind == TypeId::of::<NamePattern>() {
        return Some(of_data(command, id));
    }
    of_task(command, id)
}

fn of_node(command: &[&str]) -> ArgumentNames {
    match command {
        // The node is this one, or one to come.
        ["up" | "agent" | "token", ..] => ArgumentNames::New,
        ["put"] => ArgumentNames::Any(Names::Nodes),
        _ => ArgumentNames::Known(Names::Nodes),
    }
}

fn of_data(command: &[&str], id: &str) -> ArgumentNames {
    match (command, id) {
        (["rename"], "to") | (["apply"], "set") | (["token", ..], _) => ArgumentNames::New,
        (["register"], "name") => ArgumentNames::Any(Names::Registrations),
        (["bind"], "name") => ArgumentNames::Any(Names::Bindings),
        (["put"], _) => ArgumentNames::Any(Names::Data),
        (["unbind" | "bindings"], _) => ArgumentNames::Known(Names::Bindings),
        (["edit" | "pause" | "resume" | "rename" | "unregister" | "list" | "changes"], _)
        | (["run" | "logs" | "instances"], "name") => ArgumentNames::Known(Names::Registrations),
        _ => ArgumentNames::Known(Names::Data),
    }
}

fn of_task(command: &[&str], id: &str) -> Option<ArgumentNames> {
    match (command, id) {
        (["tasks", "submit"] | ["run-task"], "after" | "after-end")
        | (["tasks", "list"], "array")
        | (["tasks", _], "ids") => Some(ArgumentNames::Known(Names::Tasks)),
        (["tasks", "submit"] | ["run-task"], "id") => Some(ArgumentNames::New),
        (["tasks", _], "id") => Some(ArgumentNames::Known(Names::Tasks)),
        _ => None,
    }
}

/// Those that the services know, sorted, each once. Of names that are neither registered nor bound, those that begin so:
/// their values have to be read.
pub async fn known(client: &Client, names: Names, beginning: &str) -> Result<Vec<String>, Error> {
    let mut known: Vec<String> = match names {
        Names::Data => data(client, beginning).await?,
        Names::Registrations => registered(client).await?,
        Names::Bindings => bound(client).await?,
        Names::Nodes => client.nodes().await?.into_iter().map(|node| node.node_name.to_string()).collect(),
        Names::Tasks => {
            let query = TaskQuery { limit: Some(MAX_TASKS), ..TaskQuery::default() };
            client.tasks(&query).await?.tasks.into_iter().map(|task| task.id).collect()
        }
    };
    known.sort_unstable();
    known.dedup();
    Ok(known)
}

/// Each service may be away without the others.
async fn data(client: &Client, beginning: &str) -> Result<Vec<String>, Error> {
    let (registered, bound, written) =
        tokio::join!(registered(client), bound(client), written(client, beginning));
    match (registered, bound, written) {
        (Err(error), Err(_), Err(_)) => Err(error),
        (registered, bound, written) => {
            Ok([registered, bound, written].into_iter().filter_map(Result::ok).flatten().collect())
        }
    }
}

async fn registered(client: &Client) -> Result<Vec<String>, Error> {
    let all = client.registrations().await?;
    Ok(all.into_iter().map(|one| one.registration.data_name.to_string()).collect())
}

async fn bound(client: &Client) -> Result<Vec<String>, Error> {
    Ok(client.bindings().await?.into_iter().map(|binding| binding.data_name.to_string()).collect())
}

async fn written(client: &Client, beginning: &str) -> Result<Vec<String>, Error> {
    let Ok(pattern) = NamePattern::parse(&format!("{beginning}*")) else { return Ok(Vec::new()) };
    let query = Query { patterns: vec![pattern], limit: Some(MAX_VALUES), ..Query::default() };
    Ok(client.values(&query).await?.0.into_iter().map(|value| value.data_name.to_string()).collect())
}

//! The commands about who may do what.

use clap::{Args, Subcommand};
use estimand_api::access::{Grant, NewToken};
use estimand_api::duration::Span;
use estimand_api::names::{DataName, NodeName, UserName};

use super::{Remote, Remotely, parse};

const TOKEN_EXAMPLES: &str = "\
A request that starts a command, or changes what runs, needs a token with the role operate. `estimand up` makes the first
one and keeps it in the file `token` of its data folder, where these commands find it; ESTIMAND_TOKEN goes before
that. A token is shown once, when it is made.

Examples:
  estimand token create dashboard --role read --valid-for 90d
  estimand token create alice --role user             # tasks and files of her own
  estimand token create laptop --role user --user alice --valid-for 30d
  estimand token create agent-7 --role node --node node-7
  estimand token create rack-2 --role join            # for `estimand agent --join`
  estimand token create databases --role join --label role=db
  estimand token list
  estimand token revoke dashboard";

#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub struct TokenArgs {
    #[command(subcommand)]
    pub what: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token, and print it
    Create(Remotely<CreateArgs>),
    /// List all tokens that ever were, without what they say
    List(Remotely<ListTokensArgs>),
    /// Revoke a token
    Revoke(Remotely<RevokeArgs>),
}

impl TokenArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> &Remote {
        match &self.what {
            TokenCommand::Create(args) => &args.remote,
            TokenCommand::List(args) => &args.remote,
            TokenCommand::Revoke(args) => &args.remote,
        }
    }
}

#[derive(Debug, Args)]
pub struct ListTokensArgs {}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The name of the token
    pub name: DataName,
    /// Its role: join (with which an agent gets a certificate, once); read; write (values, too); user (tasks and files
    /// of one user); node (what the agent of a node does); operate (everything)
    #[arg(long, value_name = "ROLE")]
    pub role: Grant,
    /// The node that it speaks for, with the role node; with the role join, the only one that it is for
    #[arg(long, value_name = "NODE", required_if_eq("role", "node"))]
    pub node: Option<NodeName>,
    /// The user whose tasks and files it is for, with the role user [default: the name of the token]
    #[arg(long, value_name = "NAME")]
    pub user: Option<UserName>,
    /// A label that the node has by it, whatever its agent says, with the roles join and node; may be repeated
    #[arg(long = "label", id = "labels", value_name = "KEY=VALUE", value_parser = parse::label_of_node)]
    pub labels: Vec<(String, String)>,
    /// Its lifetime, e.g. 30d [default: until it is revoked; 1h with the role join]
    #[arg(long, value_name = "DURATION")]
    pub valid_for: Option<Span>,
}

impl CreateArgs {
    pub fn asked(&self) -> NewToken {
        let CreateArgs { name, role, node, user, labels, valid_for } = self;
        let labels = labels.iter().cloned().collect();
        let (name, node, user) = (name.clone(), node.clone(), user.clone());
        NewToken { name, role: *role, node, user, valid_for: *valid_for, labels }
    }
}

#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Its name or its id
    #[arg(value_name = "TOKEN", required_unless_present = "of_certificate")]
    pub which: Option<String>,
    /// All certificates with the key of this one, instead
    #[arg(long, value_name = "FILE", conflicts_with = "which", value_hint = clap::ValueHint::FilePath)]
    pub of_certificate: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// At most so many changes, the newest ones
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Only what happened before that time, e.g. 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub before: Option<String>,
}

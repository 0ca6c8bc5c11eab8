//! The commands about users and their shares.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use estimand_api::names::UserName;
use estimand_api::share::{KINDS, LimitChanges, ShareDeclaration, ShareUnit};
use serde_json::Value;

use super::capacity::NoArgs;
use super::{Remote, Remotely};

const USERS_EXAMPLES: &str = "\
A user is whoever has a token of the role user (`estimand token create alice --role user`). Each has a share of
everything that is bounded, so that nobody's takes another's; it is an eighth of what the service has, unless an operator sets
it. A user sees their own, an operator those of all.

Examples:
  estimand users                                      # those who are nearest to a limit come first
  estimand users show alice
  estimand users set alice --tasks 1000 --memory 64MiB
  estimand users set alice --priority 10              # her tasks may go before others that far
  estimand users set alice --tasks default
  estimand users reset alice";

#[derive(Debug, Args)]
#[command(after_help = USERS_EXAMPLES)]
pub struct UsersArgs {
    #[command(subcommand)]
    pub action: Option<UsersAction>,
}

#[derive(Debug, Subcommand)]
pub enum UsersAction {
    /// List the users with what they have of their shares
    List(Remotely<NoArgs>),
    /// Show all shares of one user
    Show(Remotely<UserArgs>),
    /// Set limits of a user, or let the defaults count again
    Set(Box<Remotely<SetArgs>>),
    /// Let the defaults count for all that a user has
    Reset(Remotely<UserArgs>),
}

#[derive(Debug, Args)]
pub struct UserArgs {
    /// The user
    pub user: UserName,
}

#[derive(Debug, Args)]
pub struct SetArgs {
    /// The user
    pub user: UserName,
    #[command(flatten)]
    pub limits: LimitOptions,
}

/// An option for each kind of share.
#[derive(Debug, Default)]
pub struct LimitOptions(pub LimitChanges);

impl UsersArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            UsersAction::List(args) => &args.remote,
            UsersAction::Show(args) | UsersAction::Reset(args) => &args.remote,
            UsersAction::Set(args) => &args.remote,
        })
    }
}

impl Args for LimitOptions {
    fn augment_args(command: Command) -> Command {
        KINDS.iter().fold(command, |command, declared| command.arg(option(declared)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LimitOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut changes = LimitChanges::default();
        for declared in &KINDS {
            if let Some(limit) = matches.get_one::<Limit>(declared.name) {
                changes.set(declared.kind, limit.0);
            }
        }
        Ok(LimitOptions(changes))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// None: the default.
#[derive(Debug, Clone)]
struct Limit(Option<u64>);

fn option(declared: &'static ShareDeclaration) -> Arg {
    let (value, help) = match declared.unit {
        ShareUnit::Bytes => ("SIZE", format!("The most bytes of {}", declared.counts)),
        ShareUnit::Number => ("N", format!("The most {}", declared.counts)),
        ShareUnit::Highest => ("N", format!("The highest {}", declared.counts)),
    };
    let read = |text: &str| {
        if text == "default" {
            return Ok(Limit(None));
        }
        let given = text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from);
        let read = declared.kind.read(&given).map(|limit| Limit(Some(limit)));
        read.map_err(|message| format!("{message}; expected {}, or `default`", declared.kind.expected()))
    };
    Arg::new(declared.name).long(declared.flag).value_name(value).help(help).value_parser(read)
}

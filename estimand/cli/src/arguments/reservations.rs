//! The commands about reservations, prices and credits.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde_json::Value;

use super::{Remote, Remotely, parse};

const RESERVE_EXAMPLES: &str = "\
The value is the most that you would pay. The price does not depend on it: of all starts in the window the
cheapest is taken, and you pay its price. With a command behind `--`, it runs as a task in that time; with --celery, a
worker of Celery gets the message for it then.
A list is a JSON array of requests, as `POST /api/reservations` takes them without `value`: all are reserved, or none.

Examples:
  estimand reserve --cpu 4 --for 2h --by 18:00 --value 30
  estimand reserve --gpu 1 --width 2..8 --work 16h --by 12h --value 80
  estimand reserve --list stages.json --value 50
  estimand reserve --cpu 1 --memory 4GiB --width 8 --for 30m --value 12.5 -- /opt/train --epochs 10
  estimand reserve --cpu 4 --for 2h --value 30 --celery app.train --celery-args '[10]'
  estimand reserve --cpu 4 --for 2h --by 18:00 --dry-run";

const PRICE_EXAMPLES: &str = "\
Examples:
  estimand price --cpu 4 --for 2h --by 18:00
  estimand price --gpu 1 --for 30m --from 1h --by 2026-01-31T18:00:00Z --table";

const RESERVATIONS_EXAMPLES: &str = "\
Examples:
  estimand reservations
  estimand reservations list --state PROMISED,ACTIVE
  estimand reservations show r7
  estimand reservations change r7 --by 20:00 --width 4 --dry-run
  estimand reservations bid r7 40
  estimand reservations cancel r7";

const CREDITS_EXAMPLES: &str = "\
Examples:
  estimand credits
  estimand credits grant ada 100
  estimand credits journal --user ada";

// The capacity and the time that are asked for.
#[derive(Debug, Default, Args)]
pub struct WantedOptions {
    /// The processors that each unit needs, such as 2 or 0.5
    #[arg(long, value_name = "N")]
    pub cpu: Option<f64>,
    /// The memory that each unit needs, in bytes or such as 256MiB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// How many GPUs each unit needs
    #[arg(long, value_name = "N")]
    pub gpu: Option<u64>,
    /// How much each unit needs of anything else that nodes have as a countable label; may be repeated
    #[arg(long = "resource", id = "resources", value_name = "NAME=N", value_parser = parse::pair)]
    pub resources: Vec<(String, String)>,
    /// How many units, all at the same time; with --work also 2..8, of which the cheapest is taken [default: 1]
    #[arg(long, value_name = "N")]
    pub width: Option<String>,
    /// Only nodes with this label `class` [default: those without one]
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// How long it takes
    #[arg(long = "for", id = "duration", value_name = "DURATION")]
    pub duration: Option<String>,
    /// In place of --for: how long one unit alone would take; more of them take less
    #[arg(long, value_name = "DURATION", conflicts_with = "duration")]
    pub work: Option<String>,
    /// It starts then or later: 18:00 here, an instant, or a duration from now [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse::time_to_come)]
    pub from: Option<String>,
    /// It is over then or sooner: 18:00 here, an instant, or a duration from now [default: as late as there are prices]
    #[arg(long, value_name = "TIME", value_parser = parse::time_to_come)]
    pub by: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = RESERVE_EXAMPLES)]
pub struct ReserveArgs {
    #[command(flatten)]
    pub wanted: WantedOptions,
    /// Reserve all requests of this list, a JSON file (`-`: standard input), or none
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["cpu", "memory", "gpu", "resources", "width", "class", "duration", "work", "from", "by", "cmd"])]
    pub list: Option<PathBuf>,
    /// The most that it is worth, in credits
    #[arg(long, value_name = "CREDITS", required_unless_present = "dry_run")]
    pub value: Option<String>,
    /// The account that pays [default: yours]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Only say what it would cost
    #[arg(long)]
    pub dry_run: bool,
    /// A key of your own: the same request sent twice with it is one reservation [default: a new one each time]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The name of a task that a worker of Celery runs in that time
    #[arg(long, value_name = "TASK", conflicts_with = "cmd")]
    pub celery: Option<String>,
    /// Its arguments, as a JSON array
    #[arg(long, value_name = "JSON", requires = "celery", value_parser = parse::json)]
    pub celery_args: Option<Value>,
    /// Its named arguments, as a JSON object
    #[arg(long, value_name = "JSON", requires = "celery", value_parser = parse::json)]
    pub celery_kwargs: Option<Value>,
    /// The queue that its workers read [default: celery]
    #[arg(long, value_name = "QUEUE", requires = "celery")]
    pub celery_queue: Option<String>,
    /// The command of a task that runs in that time: one word is split like a shell splits words; no shell is started
    #[arg(last = true, value_name = "CMD")]
    pub cmd: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = PRICE_EXAMPLES)]
pub struct PriceArgs {
    #[command(flatten)]
    pub wanted: WantedOptions,
    /// List every start with its price
    #[arg(long)]
    pub table: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RESERVATIONS_EXAMPLES)]
pub struct ReservationsArgs {
    #[command(subcommand)]
    pub action: Option<ReservationsAction>,
}

#[derive(Debug, Subcommand)]
pub enum ReservationsAction {
    /// List reservations, the newest first
    List(Remotely<ListReservationsArgs>),
    /// Show all about a reservation: its price and time, what was promised and what was delivered
    Show(Remotely<ReservationArgs>),
    /// Give a reservation another window, width or length before its time; if that is refused it stays as it was
    Change(Remotely<ChangeReservationArgs>),
    /// Say that a reservation is worth more or less than before; its price stays
    Bid(Remotely<BidArgs>),
    /// Give reservations up: the price of the time that is left is given back but for a twentieth
    Cancel(Remotely<SomeReservationsArgs>),
}

#[derive(Debug, Args)]
pub struct ListReservationsArgs {
    /// Only those in these states, such as PROMISED,ACTIVE
    #[arg(long, value_name = "STATES", default_value = "", hide_default_value = true)]
    pub state: String,
    /// Only those that this user pays
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct ReservationArgs {
    pub id: String,
}

#[derive(Debug, Args)]
pub struct ChangeReservationArgs {
    pub id: String,
    /// How many units, all at the same time; with --work also 2..8
    #[arg(long, value_name = "N")]
    pub width: Option<String>,
    /// How long it takes
    #[arg(long = "for", id = "duration", value_name = "DURATION")]
    pub duration: Option<String>,
    /// In place of --for: how long one unit alone would take
    #[arg(long, value_name = "DURATION", conflicts_with = "duration")]
    pub work: Option<String>,
    /// It starts then or later: 18:00 here, an instant, or a duration from now
    #[arg(long, value_name = "TIME", value_parser = parse::time_to_come)]
    pub from: Option<String>,
    /// It is over then or sooner: 18:00 here, an instant, or a duration from now
    #[arg(long, value_name = "TIME", value_parser = parse::time_to_come)]
    pub by: Option<String>,
    /// The most that it is worth then, in credits
    #[arg(long, value_name = "CREDITS")]
    pub value: Option<String>,
    /// Only say what it would cost
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct BidArgs {
    pub id: String,
    /// The new value, in credits
    #[arg(value_name = "CREDITS")]
    pub value: String,
}

#[derive(Debug, Args)]
pub struct SomeReservationsArgs {
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = CREDITS_EXAMPLES)]
pub struct CreditsArgs {
    #[command(subcommand)]
    pub action: Option<CreditsAction>,
}

#[derive(Debug, Subcommand)]
pub enum CreditsAction {
    /// List the accounts
    List(Remotely<UserArgs>),
    /// List the movements of credits, the newest first
    Journal(Remotely<JournalArgs>),
    /// Give a user new credits
    Grant(Remotely<GrantArgs>),
}

#[derive(Debug, Default, Args)]
pub struct UserArgs {
    /// Only the account of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

#[derive(Debug, Args)]
pub struct JournalArgs {
    /// Only what this user paid or got
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct GrantArgs {
    #[arg(value_name = "USER")]
    pub user: String,
    /// How many, such as 100 or 2.5
    #[arg(value_name = "CREDITS")]
    pub amount: String,
}

impl ReservationsArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            ReservationsAction::List(args) => &args.remote,
            ReservationsAction::Show(args) => &args.remote,
            ReservationsAction::Change(args) => &args.remote,
            ReservationsAction::Bid(args) => &args.remote,
            ReservationsAction::Cancel(args) => &args.remote,
        })
    }
}

impl CreditsArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            CreditsAction::List(args) => &args.remote,
            CreditsAction::Journal(args) => &args.remote,
            CreditsAction::Grant(args) => &args.remote,
        })
    }
}

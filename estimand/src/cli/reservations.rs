//! The command that starts the reservation service, and the terms of sale, however it is started.

use std::net::SocketAddr;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, ValueHint};
use estimand_api::duration::Span;
use estimand_cli::arguments::parse;
use estimand_reservation_bridges::CeleryBroker;
use estimand_reservation_service::{CeleryTerms, EarlyEnd, Money, Settings};

use super::Cli;
use super::services::ServiceArgs;
use crate::options::{Options, Parts, Sale};

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;
/// The most slots for which there are prices.
const MAX_SLOTS: u64 = 100_000;

#[derive(Debug, Args)]
pub struct ReservationServiceArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// The task service, whose ledger has the capacity
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    task_service: String,
    /// The data service, where the name `reservation_predictor` says which demand prices count on [default: the choice stays]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    data_service: Option<String>,
    #[command(flatten)]
    sale: SaleArgs,
}

// The terms under which time is sold.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reservations")]
pub struct SaleArgs {
    /// The least price of an hour of a processor, of a GiB of memory, or of one of anything else, such as cpu=1.5; may be
    /// repeated [default: cpu=1, memory=0.01, gpu=10]
    #[arg(long = "price", id = "prices", value_name = "RESOURCE=CREDITS", value_parser = price)]
    prices: Vec<(String, Money)>,
    /// The length of a slot: time is sold in whole ones, of whole seconds
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    price_slot: Span,
    /// How far ahead there are prices
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    price_horizon: Span,
    /// The price of the time that is left when a task ends early, or is cancelled after its start: given back but for a twentieth, or kept
    #[arg(long, value_name = "RULE", value_enum, default_value_t)]
    price_early_end: EarlyEndRule,
    /// Take reservations over plain TCP at this address, too: a JSON document a line. Tokens are not encrypted on the way, so
    /// unless --insecure is given it is one of this machine alone
    #[arg(long, value_name = "ADDRESS", value_parser = parse::socket_address)]
    reservations_lines: Option<SocketAddr>,
    /// The broker that workers of Celery read, for reservations with a task of theirs: amqp://USER:PASSWORD@HOST[:PORT][/VHOST],
    /// amqps://…, redis://[USER:PASSWORD@]HOST[:PORT][/DB] or rediss://…; better given in the environment or in a settings file
    #[arg(long, value_name = "URL", env = "ESTIMAND_CELERY_BROKER", hide_env_values = true)]
    celery_broker: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum EarlyEndRule {
    #[default]
    Refund,
    Keep,
}

impl From<EarlyEndRule> for EarlyEnd {
    fn from(rule: EarlyEndRule) -> EarlyEnd {
        match rule {
            EarlyEndRule::Refund => EarlyEnd::Refund,
            EarlyEndRule::Keep => EarlyEnd::Keep,
        }
    }
}

fn price(text: &str) -> Result<(String, Money), String> {
    let (name, amount) = text.split_once('=').ok_or("expected such as cpu=1.5")?;
    let amount = amount.parse::<Money>().map_err(|error| error.to_string())?;
    Ok((name.trim().to_owned(), amount))
}

impl SaleArgs {
    pub fn sale(self) -> Result<Sale, clap::Error> {
        let wrong = |message: &str| Cli::command().error(ErrorKind::ValueValidation, message);
        let (slot, horizon) = (self.price_slot.as_micros(), self.price_horizon.as_micros());
        if slot == 0 || !slot.is_multiple_of(SECOND) {
            return Err(wrong("--price-slot is not a whole number of seconds, such as 30s or 1m"));
        }
        let slots = horizon / slot;
        if !(1..=MAX_SLOTS).contains(&slots) {
            return Err(wrong("--price-horizon is not 1 to 100,000 slots of --price-slot long"));
        }
        let mut settings = Settings { slot: slot / SECOND, horizon: slots, ..Settings::default() };
        settings.floors.extend(self.prices);
        settings.early_end = self.price_early_end.into();
        for (resource, price) in &settings.floors {
            let most = settings.most(resource);
            if *price > most {
                let text =
                    format!("--price {resource}={price} is too much to be counted: it can be at most {most}");
                return Err(wrong(&text));
            }
        }
        let broker = self.celery_broker.filter(|url| !url.is_empty());
        let broker = broker.map(|url| url.parse::<CeleryBroker>()).transpose();
        let celery = broker.map_err(|error| wrong(&error.to_string()))?;
        settings.celery = celery.as_ref().map(|broker| CeleryTerms { tells_unread: broker.tells_unread() });
        Ok(Sale { settings, lines: self.reservations_lines, celery })
    }
}

impl ReservationServiceArgs {
    pub fn options(self) -> Result<Options, clap::Error> {
        let ReservationServiceArgs { service, task_service, data_service, sale } = self;
        let parts = Parts::Reservations { task_service, data_service, sale: sale.sale()? };
        Ok(service.options(parts))
    }
}

//! The reservation service in the binary.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, ValueHint};
use estimand_access::Access;
use estimand_api::duration::Span;
use estimand_cli::arguments::parse;
use estimand_reservation_bridges::{CeleryBroker, Connect, publish_starts, serve_lines};
use estimand_reservation_service::{
    CeleryTerms, EarlyEnd, Money, ReservationService, ReservationServiceOptions, Settings,
};
use estimand_runtime::SystemClock;
use estimand_web::ServedPart;

use super::{Host, Introduction, Owner, ServiceHandle, ServiceKind, ServiceOptions};
use crate::cli::Cli;

pub static KIND: ServiceKind = ServiceKind {
    command: "reservation-service",
    about: "Start the reservation service alone: it sells time to come, and keeps credits",
    examples: None,
    owner: Some(Owner { name: "reservations", service: "reservation service" }),
    makes_tokens: false,
    keeps_files: false,
    on_platform: false,
    peers: ReservationPeers::augment_args,
    terms: SaleArgs::augment_args,
    options: |matches, alone| {
        let peers = alone.then(|| ReservationPeers::from_arg_matches(matches)).transpose()?;
        let sale = SaleArgs::from_arg_matches(matches)?;
        let (lines, celery) = (sale.reservations_lines, sale.broker()?);
        let settings = sale.settings(celery.as_ref())?;
        Ok(Box::new(ReservationsStart { peers, settings, lines, celery }))
    },
};

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;
/// The most slots for which there are prices.
const MAX_SLOTS: u64 = 100_000;

// The services that it speaks to.
#[derive(Debug, Clone, Args)]
struct ReservationPeers {
    /// The task service, whose ledger has the capacity
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    task_service: String,
    /// The data service, where the name `reservation_predictor` says which demand prices count on [default: the choice stays]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    data_service: Option<String>,
}

// The terms under which time is sold.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reservations")]
struct SaleArgs {
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

fn wrong(message: &str) -> clap::Error {
    Cli::command().error(ErrorKind::ValueValidation, message)
}

impl SaleArgs {
    fn broker(&self) -> Result<Option<CeleryBroker>, clap::Error> {
        let url = self.celery_broker.as_ref().filter(|url| !url.is_empty());
        let broker = url.map(|url| url.parse::<CeleryBroker>()).transpose();
        broker.map_err(|error| wrong(&error.to_string()))
    }

    fn settings(self, celery: Option<&CeleryBroker>) -> Result<Settings, clap::Error> {
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
        settings.celery = celery.map(|broker| CeleryTerms { tells_unread: broker.tells_unread() });
        Ok(settings)
    }
}

struct ReservationsStart {
    /// None: they are in this process.
    peers: Option<ReservationPeers>,
    settings: Settings,
    /// Reservations are made over plain TCP here, too.
    lines: Option<SocketAddr>,
    /// The broker that workers of Celery read, if there is one.
    celery: Option<CeleryBroker>,
}

impl ServiceOptions for ReservationsStart {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn speaks_to_others(&self) -> bool {
        self.peers.is_some()
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        let lines = self.lines.map(|address| listen(address, host.options.insecure)).transpose()?;
        let options = ReservationServiceOptions {
            store: host.store.clone(),
            clock: Arc::new(SystemClock),
            settings: self.settings.clone(),
            on_fatal: host.on_fatal(),
        };
        let service = ReservationService::start(options, &host.tasks, &host.readiness);
        if let Some(broker) = &self.celery {
            publish_starts(service.starts(), broker, &host.tasks);
        }
        Ok(Box::new(ReservationsHandle { service, peers: self.peers.clone(), lines }))
    }
}

/// The listener for reservations over plain TCP.
fn listen(address: SocketAddr, insecure: bool) -> anyhow::Result<TcpListener> {
    if !insecure && !address.ip().to_canonical().is_loopback() {
        bail!(
            "--reservations-lines {address} can be reached by other machines, and tokens would go there unencrypted: give an \
             address of this machine such as 127.0.0.1:{}, or --insecure",
            address.port()
        );
    }
    TcpListener::bind(address).with_context(|| format!("cannot take reservations at {address}"))
}

struct ReservationsHandle {
    service: ReservationService,
    peers: Option<ReservationPeers>,
    lines: Option<TcpListener>,
}

impl ServiceHandle for ReservationsHandle {
    fn parts(&self, _: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.service.clone())]
    }

    fn introduce(&mut self, introduction: &Introduction<'_>) -> anyhow::Result<()> {
        let own = || introduction.own.to_owned();
        let here = || ReservationPeers { task_service: own(), data_service: Some(own()) };
        let peers = self.peers.clone().unwrap_or_else(here);
        self.service.set_task_service(introduction.client(&peers.task_service, "the task service")?);
        if let Some(address) = peers.data_service {
            self.service.set_data_service(introduction.client(&address, "the data service")?);
        }
        let Some(lines) = self.lines.take() else { return Ok(()) };
        tracing::info!(address = %lines.local_addr()?, "reservations are taken over TCP");
        let (guard, address) = (Arc::clone(introduction.guard), own());
        let connect: Connect = Arc::new(move |token| guard.client_of(&address, token));
        serve_lines(lines, connect, introduction.tasks).context("cannot take reservations over TCP")
    }
}

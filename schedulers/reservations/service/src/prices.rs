//! The prices of all classes of nodes, as they follow from the ledger's timeline. Pure: the timeline and the instant come in.
//!
//! Time is in slots here, numbered from 1970 on. A request costs what all of its units cost together; that each unit finds a
//! node of its own is up to the ledger.

mod exact;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::promise::{CapacityTimeline, ClassTimeline, DEFAULT_CLASS};
use estimand_api::resources::PLACES;
use estimand_capacity::{Amounts, Resource};
use estimand_client::TimelineQuery;
use estimand_reservations::{ElasticRequest, Money, Pricing, Quote, Refusal, Request, Terms, TermsError};

use crate::document::Document;
use crate::predictions::{Good, Goods, Predictions};
use crate::reservation::Offer;
use crate::settings::Settings;

use exact::ExactWindow;

/// The prices for one revision of the ledger.
#[derive(Clone)]
pub struct Prices {
    settings: Arc<Settings>,
    pub revision: u64,
    /// The first slot that has prices.
    first: u64,
    pub predictions: Arc<Predictions>,
    classes: BTreeMap<String, Pricing>,
    /// How many more promises the ledger makes; none: it does not say.
    left: Option<u64>,
}

/// Why there is no price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPrice {
    /// No node is of this class; these are there.
    Class {
        class: String,
        known: Vec<String>,
    },
    Resource(String),
    /// Its window begins before now, in seconds since 1970.
    Past {
        now: u64,
    },
    /// Its window is too short, in seconds. A deadline that would do is in seconds since 1970.
    Tight {
        needed: u64,
        window: u64,
        earliest: Option<u64>,
    },
    Refused(Refusal),
}

/// A request that would do, with its number of units.
type Form = (u64, Request);

/// A start with its price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    pub quote: Quote,
    pub offer: Offer,
}

/// The part of the timeline that prices are made of.
pub fn query(settings: &Settings, now: u64) -> TimelineQuery {
    let first = settings.slot_from(now);
    TimelineQuery {
        class: None,
        from: Some(settings.instant(first)),
        until: settings.instant(first.saturating_add(settings.horizon)),
        step: settings.slot,
    }
}

impl Prices {
    pub fn new(
        settings: &Arc<Settings>,
        timeline: &CapacityTimeline,
        predictions: &Arc<Predictions>,
    ) -> Result<Prices, TermsError> {
        let first = settings.slot_of(timeline.from);
        let classes = timeline
            .classes
            .iter()
            .map(|class| Ok((class.class.clone(), pricing(settings, first, class, predictions)?)));
        Ok(Prices {
            settings: Arc::clone(settings),
            revision: timeline.revision,
            first,
            predictions: Arc::clone(predictions),
            classes: classes.collect::<Result<_, TermsError>>()?,
            left: timeline.promises_left,
        })
    }

    /// A slot that has a price has begun since.
    pub fn is_past(&self, now: u64) -> bool {
        self.settings.slot_from(now) > self.first
    }

    /// The cheapest start at which there may be room, and the number of units. `without` are starts at which there is none for
    /// so many units.
    pub fn offer(
        &self,
        document: &Document,
        now: u64,
        without: &BTreeSet<(u64, u64)>,
    ) -> Result<Priced, NoPrice> {
        let (pricing, forms) = self.forms(document, now)?;
        let is_full = |width: u64, start: u64| !without.is_empty() && without.contains(&(width, start));
        match pricing.quote_forms(forms, is_full) {
            Ok((width, quote)) => Ok(self.priced(width, quote)),
            Err(Refusal::TooTight { earliest, .. }) => {
                let window = ExactWindow::new(self, pricing, document, now);
                let forms = window.forms(pricing.end())?;
                if forms.is_empty() {
                    return Err(window.too_tight(earliest));
                }
                let (width, quote) = pricing.quote_forms(forms, is_full).map_err(NoPrice::Refused)?;
                Ok(window.priced(width, quote))
            }
            Err(refusal) => Err(NoPrice::Refused(refusal)),
        }
    }

    /// The price of each start, in seconds since 1970; none where too little is free.
    pub fn curve(&self, document: &Document, now: u64) -> Result<Vec<(u64, Option<Money>)>, NoPrice> {
        let (pricing, forms) = self.forms(document, now)?;
        let (_, request) = &forms[0];
        match pricing.curve(request) {
            Ok(curve) => {
                Ok(curve.into_iter().map(|(start, cost)| (self.settings.instant(start), cost)).collect())
            }
            Err(Refusal::TooTight { earliest, .. }) => {
                let window = ExactWindow::new(self, pricing, document, now);
                let forms = window.forms(pricing.end())?;
                if forms.is_empty() {
                    return Err(window.too_tight(earliest));
                }
                let cost = |request: &Request| pricing.quote(request).ok().map(|quote| quote.cost);
                let point = |(_, request): &Form| (window.start(request.from), cost(request));
                Ok(forms.iter().map(point).collect())
            }
            Err(refusal) => Err(NoPrice::Refused(refusal)),
        }
    }

    /// The places of tasks of all nodes together.
    pub fn places(&self) -> u64 {
        let Ok(places) = Resource::parse(PLACES) else { return 0 };
        self.classes.values().map(|pricing| pricing.capacity(&places)).sum()
    }

    /// The ledger makes so many more promises.
    pub fn has_promises_left(&self, new: usize) -> bool {
        self.left.is_none_or(|left| new as u64 <= left)
    }

    /// Counts what was quoted as promised; false if it is not free any more.
    pub fn take(&mut self, document: &Document, priced: &Priced) -> bool {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.classes.get_mut(class(document)).is_some_and(|pricing| pricing.promise(&priced.quote))
    }

    /// Counts what was promised as free again.
    pub fn give_back(&mut self, document: &Document, offer: &Offer, width: u64) {
        self.left = self.left.map(|left| left.saturating_add(1));
        let start = self.settings.slot_of(offer.start);
        let end = self.settings.slot_from(offer.end);
        if let Some(pricing) = self.classes.get_mut(class(document)) {
            let Ok(amounts) = amounts(pricing, document, width) else { return };
            let request = Request { amounts, length: end - start, from: start, deadline: end };
            pricing.release(&Quote { request, start, cost: Money::ZERO });
        }
    }

    fn priced(&self, width: u64, quote: Quote) -> Priced {
        let (start, end) = (self.settings.instant(quote.start), self.settings.instant(quote.end()));
        Priced { offer: Offer { price: quote.cost, start, end, width }, quote }
    }

    /// The requests of which one will do, each with its number of units; there is at least one.
    fn forms(&self, document: &Document, now: u64) -> Result<(&Pricing, Vec<Form>), NoPrice> {
        let class = class(document);
        let unknown =
            || NoPrice::Class { class: class.to_owned(), known: self.classes.keys().cloned().collect() };
        let pricing = self.classes.get(class).ok_or_else(unknown)?;
        // A caller's clock may be behind by a little.
        if document.from.is_some_and(|from| from.saturating_add(self.settings.slot) < now) {
            return Err(NoPrice::Past { now });
        }
        let from = document.from.unwrap_or(now).max(now);
        let by = document.by.map_or(pricing.end(), |by| self.settings.slot_of(by));
        let (from, deadline) = (self.settings.slot_from(from).max(pricing.now()), by);
        let forms = match document.work {
            None => {
                let (amounts, length) = (amounts(pricing, document, document.width)?, document.duration);
                let length = self.settings.slot_from(length);
                vec![(document.width, Request { amounts, length, from, deadline })]
            }
            Some(work) => {
                let work = self.settings.slot_from(work);
                let workers = document.width..=document.widest.unwrap_or(document.width);
                let amounts = amounts(pricing, document, 1)?;
                let elastic = ElasticRequest { amounts, workers, work, from, deadline };
                elastic.requests().collect()
            }
        };
        Ok((pricing, forms))
    }
}

/// The amounts of so many units. Each has a place for a task, as the ledger counts it, where nodes have places.
fn amounts(pricing: &Pricing, document: &Document, width: u64) -> Result<Amounts, NoPrice> {
    let parse = |name: &str| Resource::parse(name).map_err(|error| NoPrice::Resource(error.to_string()));
    let mut amounts = BTreeMap::new();
    for (name, amount) in &document.resources {
        amounts.insert(parse(name)?, amount.div_ceil(Settings::unit(name)).saturating_mul(width));
    }
    let places = parse(PLACES)?;
    if pricing.sells(&places) {
        let all: &mut u64 = amounts.entry(places).or_default();
        *all = width.max(*all);
    }
    Ok(Amounts::from(amounts))
}

fn class(document: &Document) -> &str {
    document.class.as_deref().unwrap_or(DEFAULT_CLASS)
}

fn pricing(
    settings: &Settings,
    first: u64,
    timeline: &ClassTimeline,
    predictions: &Predictions,
) -> Result<Pricing, TermsError> {
    let mut pricing = Pricing::new(first, settings.horizon)?;
    for (name, capacity) in &timeline.capacity {
        let Ok(resource) = Resource::parse(name) else { continue };
        let unit = Settings::unit(name);
        let terms = terms(settings, name, *capacity);
        let predictor = predictions.of(&good(timeline, name), &terms);
        match name.as_str() {
            PLACES => pricing.add_place(resource.clone(), terms, predictor)?,
            _ => pricing.add(resource.clone(), terms, predictor)?,
        }
        let free = timeline.free.get(name).map(Vec::as_slice).unwrap_or_default();
        let used = free.iter().map(|free| terms.capacity.saturating_sub(free / unit));
        for (start, length, amount) in runs(used) {
            let request = Request {
                amounts: [(resource.clone(), amount)].into_iter().collect(),
                length,
                from: first + start,
                deadline: first + start + length,
            };
            pricing.promise(&Quote { request, start: first + start, cost: Money::ZERO });
        }
    }
    Ok(pricing)
}

/// All that a timeline has.
pub fn goods(settings: &Settings, timeline: &CapacityTimeline) -> Goods {
    let of_class = |class: &ClassTimeline| {
        let terms = |(name, capacity): (&String, &u64)| (good(class, name), terms(settings, name, *capacity));
        class.capacity.iter().map(terms).collect::<Vec<_>>()
    };
    timeline.classes.iter().flat_map(of_class).collect()
}

fn good(timeline: &ClassTimeline, resource: &str) -> Good {
    Good { class: timeline.class.clone(), resource: resource.to_owned() }
}

fn terms(settings: &Settings, resource: &str, capacity: u64) -> Terms {
    let floor = settings.floor(resource);
    Terms { capacity: capacity / Settings::unit(resource), floor, ceiling: Settings::ceiling(floor) }
}

/// Ticks in a row with the same amount that is not 0: their first one, their number, and the amount.
fn runs(amounts: impl Iterator<Item = u64>) -> Vec<(u64, u64, u64)> {
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    for (place, amount) in (0_u64..).zip(amounts) {
        match runs.last_mut() {
            Some((start, length, last)) if *last == amount && *start + *length == place => *length += 1,
            _ if amount > 0 => runs.push((place, 1, amount)),
            _ => {}
        }
    }
    runs
}

#[cfg(test)]
mod tests;

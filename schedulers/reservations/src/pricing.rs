//! The prices of what is asked for: Basic-Econ.
//!
//! For `W` units during `T` ticks in `[A, D)` the price of the i-th unit at tick t is the highest `p` with
//! `demand_t(p) + promised_t + i > capacity`. A start costs what all units cost during its ticks. The cheapest start of
//! all from `A` to `D - T`, both included, is quoted; of equals the earliest one. A start at which less is free than is
//! asked for has no cost at all. Where nobody has anything without a place, a request costs at least what the same part of
//! all resources does as its places are of all places.
//!
//! The value of a request is no input of this module, so no price can depend on it.
//!
//! Cost of a quote: O(ticks between `A` and `D`), whatever `W` and `T` are; a tick at which `W` units have more than one
//! price takes a search among the prices that are predicted there.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_capacity::{Resource, Tick};

use crate::market::Market;
use crate::money::Money;
use crate::predict::Predictor;
use crate::rate::{self, PARTS, Rate};
use crate::refusal::{MAX_WORKERS_OPEN, Refusal};
use crate::request::{ElasticRequest, Quote, Request};
use crate::starts::Costs;
use crate::terms::{MAX_HORIZON, MOST, Terms, TermsError};

/// All resources that have prices, from now to the horizon.
#[derive(Clone)]
pub struct Pricing {
    now: Tick,
    horizon: usize,
    /// Copies of the prices share those that are the same in all of them.
    markets: BTreeMap<Resource, Arc<Market>>,
    /// The resource without which nobody has anything of the others.
    place: Option<Resource>,
    /// The money that all resources could cost together, in parts of a [`Rate`].
    worst: u128,
}

impl Pricing {
    pub fn new(now: Tick, horizon: u64) -> Result<Pricing, TermsError> {
        let error = TermsError::Horizon(horizon);
        let length = usize::try_from(horizon).ok().filter(|_| (1..=MAX_HORIZON).contains(&horizon));
        Ok(Pricing { now, horizon: length.ok_or(error)?, markets: BTreeMap::new(), place: None, worst: 0 })
    }

    pub fn add(
        &mut self,
        resource: Resource,
        terms: Terms,
        predictor: Arc<dyn Predictor>,
    ) -> Result<(), TermsError> {
        let Terms { floor, ceiling, capacity } = terms;
        if self.markets.contains_key(&resource) {
            return Err(TermsError::Twice(resource));
        }
        if floor > ceiling {
            return Err(TermsError::FloorAboveCeiling { resource, floor, ceiling });
        }
        let left = MOST - self.worst;
        let horizon = self.horizon as u64;
        let worst = terms.worst(horizon);
        if worst > left {
            return Err(TermsError::TooMuchMoney { resource, most: most(left, capacity, horizon) });
        }
        self.worst += worst;
        let market = Market::new(self.now, self.horizon, terms, predictor);
        self.markets.insert(resource, Arc::new(market));
        Ok(())
    }

    /// Adds the resource without which nobody has anything of the others. A part of it costs at least the same part of all of
    /// them, and does not come on top of what a request costs otherwise.
    pub fn add_place(
        &mut self,
        resource: Resource,
        terms: Terms,
        predictor: Arc<dyn Predictor>,
    ) -> Result<(), TermsError> {
        self.add(resource.clone(), terms, predictor)?;
        self.place = Some(resource);
        Ok(())
    }

    /// The resource has prices.
    pub fn sells(&self, resource: &Resource) -> bool {
        self.markets.contains_key(resource)
    }

    pub fn capacity(&self, resource: &Resource) -> u64 {
        self.markets.get(resource).map_or(0, |market| market.terms().capacity)
    }

    pub fn now(&self) -> Tick {
        self.now
    }

    /// The first tick that has no prices.
    pub fn end(&self) -> Tick {
        self.now.saturating_add(self.horizon as u64)
    }

    /// Swaps the predictor of a resource. Promises stay.
    pub fn set_predictor(&mut self, resource: &Resource, predictor: Arc<dyn Predictor>) {
        let now = self.now;
        if let Some(market) = self.markets.get_mut(resource).map(Arc::make_mut) {
            market.set_predictor(now, predictor);
        }
    }

    /// Time has passed. A time that is over already changes nothing.
    pub fn advance(&mut self, now: Tick) {
        let passed = usize::try_from(now.saturating_sub(self.now)).unwrap_or(usize::MAX);
        if passed > 0 {
            self.now = now;
            let markets = self.markets.values_mut().map(Arc::make_mut);
            markets.for_each(|market| market.advance(now, passed));
        }
    }

    pub fn promised(&self, resource: &Resource, at: Tick) -> u64 {
        let market = self.markets.get(resource);
        market.zip(self.place(at)).map_or(0, |(market, place)| market.promised(place))
    }

    /// The cheapest start, of equals the earliest.
    pub fn quote(&self, request: &Request) -> Result<Quote, Refusal> {
        self.quote_without(request, |_| false)
    }

    /// The same among the starts that are not left out.
    fn quote_without(&self, request: &Request, is_left_out: impl Fn(Tick) -> bool) -> Result<Quote, Refusal> {
        self.check(request)?;
        let costs = self.costs(request, request.deadline);
        let is_out = |place: usize| is_left_out(request.from + place as u64);
        let Some((place, cost)) = costs.starts(size(request.length)).cheapest(is_out) else {
            let earliest = self.earliest_end(request, is_left_out);
            return Err(Refusal::Full { deadline: request.deadline, earliest });
        };
        let start = request.from + place as u64;
        Ok(Quote { request: request.clone(), start, cost: rate::money(cost) })
    }

    /// The cost of every start from `from` to `deadline - length`; None where too little is free.
    pub fn curve(&self, request: &Request) -> Result<Vec<(Tick, Option<Money>)>, Refusal> {
        self.check(request)?;
        let costs = self.costs(request, request.deadline);
        let curve = costs.starts(size(request.length)).enumerate();
        Ok(curve.map(|(place, cost)| (request.from + place as u64, cost.map(rate::money))).collect())
    }

    /// The cheapest start of any number of workers; of equals the earliest, then the one with the fewest workers.
    pub fn quote_elastic(&self, request: &ElasticRequest) -> Result<Quote, Refusal> {
        let (least, most) = (*request.workers.start(), *request.workers.end());
        if least == 0 || most < least {
            return Err(Refusal::NoWorkers { least, most });
        }
        if most - least >= MAX_WORKERS_OPEN {
            return Err(Refusal::TooManyWorkers { least, most });
        }
        if request.work == 0 {
            return Err(Refusal::NoWork);
        }
        self.quote_forms(request.requests(), |_, _| false).map(|(_, quote)| quote)
    }

    /// The cheapest of several forms of a request, each with its number of workers; of equals the earliest start, then the form
    /// that comes first. Starts of a number of workers can be left out.
    pub fn quote_forms(
        &self,
        forms: impl IntoIterator<Item = (u64, Request)>,
        is_left_out: impl Fn(u64, Tick) -> bool,
    ) -> Result<(u64, Quote), Refusal> {
        let mut cheapest: Option<(u64, Quote)> = None;
        let mut refusal = Refusal::NoWork;
        for (workers, request) in forms {
            match self.quote_without(&request, |start| is_left_out(workers, start)) {
                Ok(quote) => {
                    let is_better = cheapest
                        .as_ref()
                        .is_none_or(|(_, best)| (quote.cost, quote.start) < (best.cost, best.start));
                    cheapest = if is_better { Some((workers, quote)) } else { cheapest };
                }
                Err(reason) => refusal = reason,
            }
        }
        cheapest.ok_or(refusal)
    }

    /// Counts what was quoted as promised. False, and nothing is counted, if it is not free any more.
    pub fn promise(&mut self, quote: &Quote) -> bool {
        let request = &quote.request;
        if quote.start < self.now || quote.end() > self.end() || !self.has_free(quote) {
            return false;
        }
        let (first, length) = (self.offset(quote.start), size(request.length));
        for (resource, units) in request.amounts.iter() {
            if let Some(market) = self.markets.get_mut(resource).map(Arc::make_mut) {
                market.take(first, length, units);
            }
        }
        true
    }

    /// Gives back what was promised, as far as it is not over.
    pub fn release(&mut self, quote: &Quote) {
        let (start, end) = (quote.start.max(self.now), quote.end().min(self.end()));
        if start >= end {
            return;
        }
        let (first, length) = (self.offset(start), size(end - start));
        for (resource, units) in quote.request.amounts.iter() {
            if let Some(market) = self.markets.get_mut(resource).map(Arc::make_mut) {
                market.give_back(first, length, units);
            }
        }
    }

    /// Another capacity. Promises stay, and nothing is free where they are more than that.
    pub fn set_capacity(&mut self, resource: &Resource, capacity: u64) -> Result<(), TermsError> {
        let Some(market) = self.markets.get_mut(resource).map(Arc::make_mut) else { return Ok(()) };
        let (was, horizon) = (market.terms(), self.horizon as u64);
        let worst = self.worst - was.worst(horizon) + Terms { capacity, ..was }.worst(horizon);
        if worst > MOST {
            let most = most(MOST - (self.worst - was.worst(horizon)), capacity, horizon);
            return Err(TermsError::TooMuchMoney { resource: resource.clone(), most });
        }
        self.worst = worst;
        market.set_capacity(capacity);
        Ok(())
    }

    /// Refuses a request that has no price at all.
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let Request { amounts, length, from, deadline } = request;
        let (length, from, deadline, horizon) = (*length, *from, *deadline, self.horizon as u64);
        if amounts.is_empty() {
            return Err(Refusal::Nothing);
        }
        if length == 0 {
            return Err(Refusal::NoLength);
        }
        for (resource, amount) in amounts.iter() {
            let Some(market) = self.markets.get(resource) else {
                let known = self.markets.keys().cloned().collect();
                return Err(Refusal::UnknownResource { resource: resource.clone(), known });
            };
            let capacity = market.terms().capacity;
            if amount > capacity {
                return Err(Refusal::TooWide { resource: resource.clone(), amount, capacity });
            }
        }
        if length > horizon {
            return Err(Refusal::TooLong { length, horizon });
        }
        if from < self.now {
            return Err(Refusal::Past { from, now: self.now });
        }
        if deadline.checked_sub(length).is_none_or(|latest| latest < from) {
            let earliest = self.earliest_end(request, |_| false);
            return Err(Refusal::TooTight { from, length, deadline, earliest });
        }
        if deadline > self.end() {
            return Err(Refusal::BeyondHorizon { deadline, last: self.end() });
        }
        Ok(())
    }

    /// The end of the earliest start at which so much is free.
    fn earliest_end(&self, request: &Request, is_left_out: impl Fn(Tick) -> bool) -> Option<Tick> {
        if request.from >= self.end() {
            return None;
        }
        let costs = self.costs(request, self.end());
        let starts = (request.from..).zip(costs.starts(size(request.length)));
        let mut free = starts.filter(|(start, cost)| cost.is_some() && !is_left_out(*start));
        free.next().map(|(start, _)| start + request.length)
    }

    /// The cost of the request's amounts at each tick before `end`.
    fn costs(&self, request: &Request, end: Tick) -> Costs {
        let first = self.offset(request.from);
        let ticks = self.offset(end) - first;
        let mut costs = Costs::new(ticks);
        let mut place = None;
        for (resource, units) in request.amounts.iter() {
            let Some(market) = self.markets.get(resource) else { continue };
            if self.place.as_ref() != Some(resource) {
                market.add_costs(first, units, &mut costs);
                continue;
            }
            let mut own = Costs::new(ticks);
            let mut all = Costs::new(ticks);
            market.add_costs(first, units, &mut own);
            let others = self.markets.iter().filter(|(name, _)| *name != resource);
            others.for_each(|(_, market)| market.add_worth(first, &mut all));
            own.raise_to_part(&all, units, market.terms().capacity);
            place = Some(own);
        }
        if let Some(place) = place {
            costs.raise_to(&place);
        }
        costs
    }

    fn has_free(&self, quote: &Quote) -> bool {
        let (first, length) = (self.offset(quote.start), size(quote.request.length));
        quote.request.amounts.iter().all(|(resource, units)| {
            self.markets.get(resource).is_some_and(|market| market.has_free(first, length, units))
        })
    }

    /// The place of a tick among those that have prices; of one that has none, the nearest end.
    fn offset(&self, at: Tick) -> usize {
        size(at.saturating_sub(self.now)).min(self.horizon)
    }

    fn place(&self, at: Tick) -> Option<usize> {
        (at >= self.now && at < self.end()).then(|| self.offset(at))
    }
}

/// The highest price in whole microcredits at which all of a capacity over a horizon costs no more than this, in parts.
fn most(left: u128, capacity: u64, horizon: u64) -> Rate {
    let most = left / (u128::from(capacity.max(1)) * u128::from(horizon)) / u128::from(PARTS);
    Rate::microcredits(u64::try_from(most).unwrap_or(u64::MAX))
}

/// A number of ticks that is no more than a horizon has.
fn size(ticks: u64) -> usize {
    usize::try_from(ticks).unwrap_or(usize::MAX)
}

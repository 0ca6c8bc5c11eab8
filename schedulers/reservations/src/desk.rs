//! Quote and promise in one step: a bid is priced, and promised if it covers its price.

use crate::money::Money;
use crate::pricing::Pricing;
use crate::refusal::{MAX_LIST, Refusal};
use crate::request::{Bid, ElasticRequest, Quote, Request};

/// The answer to a bid that could be priced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Promised, at the price of the quote.
    Accepted(Quote),
    /// It costs more than it is worth. Nothing is promised.
    TooExpensive(Quote),
}

/// The answer to a list, of which all or none are promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListAnswer {
    Accepted(Vec<Quote>),
    TooExpensive(Vec<Quote>),
}

impl Pricing {
    pub fn reserve(&mut self, bid: &Bid) -> Result<Answer, Refusal> {
        let quote = self.quote(&bid.request)?;
        Ok(self.settle(quote, bid.value))
    }

    pub fn reserve_elastic(&mut self, request: &ElasticRequest, value: Money) -> Result<Answer, Refusal> {
        let quote = self.quote_elastic(request)?;
        Ok(self.settle(quote, value))
    }

    fn settle(&mut self, quote: Quote, value: Money) -> Answer {
        match value >= quote.cost && self.promise(&quote) {
            true => Answer::Accepted(quote),
            false => Answer::TooExpensive(quote),
        }
    }

    /// Prices the requests one after another, each with those before it promised, and promises all of them if `value`
    /// covers their sum. Else nothing is promised.
    pub fn reserve_all(&mut self, requests: &[Request], value: Money) -> Result<ListAnswer, Refusal> {
        let quotes = self.promise_all(requests)?;
        let sum = quotes.iter().try_fold(Money::ZERO, |sum, quote| sum.checked_add(quote.cost));
        if sum.is_some_and(|sum| sum <= value) {
            return Ok(ListAnswer::Accepted(quotes));
        }
        quotes.iter().for_each(|quote| self.release(quote));
        Ok(ListAnswer::TooExpensive(quotes))
    }

    /// The prices that `reserve_all` would find. Nothing is promised in the end.
    pub fn quote_all(&mut self, requests: &[Request]) -> Result<Vec<Quote>, Refusal> {
        let quotes = self.promise_all(requests)?;
        quotes.iter().for_each(|quote| self.release(quote));
        Ok(quotes)
    }

    fn promise_all(&mut self, requests: &[Request]) -> Result<Vec<Quote>, Refusal> {
        if requests.is_empty() || requests.len() > MAX_LIST {
            return Err(Refusal::ListLength(requests.len()));
        }
        let mut quotes: Vec<Quote> = Vec::with_capacity(requests.len());
        for (place, request) in requests.iter().enumerate() {
            match self.quote(request) {
                Ok(quote) => {
                    self.promise(&quote);
                    quotes.push(quote);
                }
                Err(reason) => {
                    quotes.iter().for_each(|quote| self.release(quote));
                    return Err(Refusal::InList { place: place + 1, reason: Box::new(reason) });
                }
            }
        }
        Ok(quotes)
    }
}

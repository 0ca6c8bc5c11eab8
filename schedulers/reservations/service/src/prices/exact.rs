//! Windows into which no whole slots fit, although what is asked for does: they get the time that they say, at the price of all slots
//! that it touches, since nobody else can have the rest of those.

use estimand_reservations::{Pricing, Quote, Request};

use super::{Form, NoPrice, Priced, Prices, amounts};
use crate::document::Document;
use crate::reservation::Offer;
use crate::settings::Settings;

pub struct ExactWindow<'p> {
    settings: &'p Settings,
    pricing: &'p Pricing,
    document: &'p Document,
    /// Seconds since 1970, of slots that have prices.
    from: u64,
    by: u64,
}

impl<'p> ExactWindow<'p> {
    pub fn new(prices: &'p Prices, pricing: &'p Pricing, document: &'p Document, now: u64) -> Self {
        let settings = &*prices.settings;
        let first = settings.instant(pricing.now());
        let from = document.from.unwrap_or(now).max(now);
        // A slot that has begun has no price any more.
        let from = if from < first { first } else { from };
        let by = document.by.unwrap_or_else(|| settings.instant(pricing.end()));
        ExactWindow { settings, pricing, document, from, by }
    }

    /// The slots that each number of units would touch, from the begin of the window or that of a slot in it on.
    pub fn forms(&self, end: u64) -> Result<Vec<Form>, NoPrice> {
        let mut forms = Vec::new();
        for width in self.document.width..=self.document.widest.unwrap_or(self.document.width) {
            let seconds = self.document.length(width);
            let latest = self.by.checked_sub(seconds).filter(|latest| *latest >= self.from);
            let Some(latest) = latest else { continue };
            let asked = amounts(self.pricing, self.document, width)?;
            for slot in self.settings.slot_of(self.from)..=self.settings.slot_of(latest) {
                let deadline = self.settings.slot_from(self.start(slot) + seconds);
                let request =
                    Request { amounts: asked.clone(), length: deadline - slot, from: slot, deadline };
                forms.extend((deadline <= end).then_some((width, request)));
            }
        }
        Ok(forms)
    }

    /// The instant at which the time begins whose first slot this is.
    pub fn start(&self, slot: u64) -> u64 {
        self.settings.instant(slot).max(self.from)
    }

    pub fn priced(&self, width: u64, quote: Quote) -> Priced {
        let start = self.start(quote.start);
        let end = start + self.document.length(width);
        Priced { offer: Offer { price: quote.cost, start, end, width }, quote }
    }

    /// The refusal of a window that is shorter than what is asked for takes. `earliest` is the deadline in slots that would do for
    /// whole ones.
    pub fn too_tight(&self, earliest: Option<u64>) -> NoPrice {
        let needed = self.document.length(self.document.widest.unwrap_or(self.document.width));
        let longer = ExactWindow { by: self.from + needed, ..*self };
        let forms = longer.forms(self.pricing.end()).unwrap_or_default();
        let is_free = forms.iter().any(|(_, request)| self.pricing.quote(request).is_ok());
        let earliest =
            if is_free { Some(longer.by) } else { earliest.map(|slot| self.settings.instant(slot)) };
        NoPrice::Tight { needed, window: self.by.saturating_sub(self.from), earliest }
    }
}

//! The origin of a value: its slot's order, and what says how it was made.
//!
//! A plain write has none, and takes no room for it. All values of one run have the same, which is kept once.

use std::fmt;

use estimand_api::write::Order;
use triomphe::ThinArc;

/// Clones are the same. The provenance is an object's JSON text, so an empty one is none.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin(ThinArc<Option<Order>, u8>);

impl Origin {
    /// None if there is nothing to be said.
    pub fn new(order: Option<Order>, provenance: Option<&str>) -> Option<Self> {
        let provenance = provenance.unwrap_or_default().as_bytes();
        (order.is_some() || !provenance.is_empty())
            .then(|| Origin(ThinArc::from_header_and_slice(order, provenance)))
    }

    pub fn order(&self) -> Option<Order> {
        self.0.header.header
    }

    pub fn provenance(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.0.slice).unwrap_or_default();
        (!text.is_empty()).then_some(text)
    }

    /// The memory that it takes.
    pub fn size(&self) -> usize {
        size_of::<[usize; 2]>() + size_of::<Option<Order>>() + self.0.slice.len()
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("order", &self.order())
            .field("provenance", &self.provenance())
            .finish()
    }
}

/// The origin that came last, which the next value may have as well.
#[derive(Debug, Default)]
pub struct LastOrigin(Option<Origin>);

impl LastOrigin {
    /// The origin of a value; if it is that of the one before, both share it.
    pub fn share(&mut self, order: Option<Order>, provenance: Option<&str>) -> Option<Origin> {
        if order.is_none() && provenance.is_none() {
            return None;
        }
        let is_same = |last: &Origin| last.order() == order && last.provenance() == provenance;
        if !self.0.as_ref().is_some_and(is_same) {
            self.0 = Origin::new(order, provenance);
        }
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_run_share_their_origin() {
        let order = |sequence| Some(Order { epoch: 1, sequence });
        let mut last = LastOrigin::default();
        let mut share = |order, provenance| last.share(order, provenance);
        let address = |origin: &Option<Origin>| origin.as_ref().map(|origin| origin.0.as_ptr());
        let (one, other) = (share(order(1), Some("{}")), share(order(1), Some("{}")));
        assert!(one.is_some());
        assert_eq!(address(&one), address(&other));
        for (order, provenance) in [(order(2), Some("{}")), (order(2), Some("{\"a\":1}")), (order(2), None)] {
            let another = share(order, provenance);
            assert_ne!(address(&one), address(&another));
            let another = another.as_ref();
            assert_eq!(another.and_then(Origin::order), order);
            assert_eq!(another.and_then(Origin::provenance), provenance);
        }
        assert_eq!((share(None, None), share(None, Some(""))), (None, None));
    }
}

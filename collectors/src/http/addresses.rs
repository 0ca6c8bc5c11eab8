//! The addresses of the next request: looked up and allowed before it, and the only ones that it can go to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

#[derive(Debug, Clone, Default)]
pub(super) struct FoundAddresses(Arc<Mutex<Vec<SocketAddr>>>);

impl FoundAddresses {
    pub(super) fn put(&self, addresses: Vec<SocketAddr>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }
}

impl Resolve for FoundAddresses {
    fn resolve(&self, _: Name) -> Resolving {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
    }
}

//! A client of a service whose address the manager says, and may change.

use std::sync::{Mutex, PoisonError};

use estimand_client::{Client, Options};

/// The client of the last address that was asked for.
pub struct ServiceClient {
    options: Options,
    known: Mutex<Option<(String, Client)>>,
}

impl ServiceClient {
    pub fn new(options: Options) -> Self {
        ServiceClient { options, known: Mutex::default() }
    }

    /// None if it is no address.
    pub fn at(&self, address: &str) -> Option<Client> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, client)) = &*known
            && last == address
        {
            return Some(client.clone());
        }
        match Client::with_options(address, self.options.clone()) {
            Ok(client) => {
                *known = Some((address.to_owned(), client.clone()));
                Some(client)
            }
            Err(error) => {
                tracing::warn!(%error, "the manager named a service that has no address");
                None
            }
        }
    }
}

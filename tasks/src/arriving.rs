//! The documents that arrive: from when they are read until it is decided on them. All of them together are bounded, and one
//! user's are a part of that, however many are sent at once and however slow the database is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estimand_api::problem::Problem;

/// All documents together,
const MAX_BYTES: usize = 64 << 20;
/// and those of one user.
const MAX_BYTES_OF_USER: usize = MAX_BYTES / 8;

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Arriving(Arc<Mutex<Sums>>);

#[derive(Debug, Default)]
struct Sums {
    all: usize,
    by_user: HashMap<String, usize>,
}

/// A document that arrives, until this is dropped.
#[derive(Debug)]
pub struct ArrivingDocument {
    arriving: Arriving,
    user: Option<String>,
    bytes: usize,
}

impl Arriving {
    /// Counts a document, unless too much arrives.
    pub fn take(&self, user: Option<&str>, bytes: usize) -> Result<ArrivingDocument, Problem> {
        let mut sums = self.sums();
        if sums.all + bytes > MAX_BYTES {
            return Err(Problem::unavailable(
                "more documents arrive than there is room for; nothing was done",
                1,
            ));
        }
        if let Some(user) = user {
            let own = sums.by_user.get(user).copied().unwrap_or(0) + bytes;
            if own > MAX_BYTES_OF_USER {
                let detail =
                    format!("more documents of `{user}` arrive than are taken at once; nothing was done");
                return Err(Problem::unavailable(detail, 1));
            }
            sums.by_user.insert(user.to_owned(), own);
        }
        sums.all += bytes;
        Ok(ArrivingDocument { arriving: self.clone(), user: user.map(str::to_owned), bytes })
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ArrivingDocument {
    fn drop(&mut self) {
        let mut sums = self.arriving.sums();
        sums.all -= self.bytes;
        let Some(user) = &self.user else { return };
        if let Some(own) = sums.by_user.get_mut(user) {
            *own -= self.bytes;
            if *own == 0 {
                sums.by_user.remove(user);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_a_part_and_gives_it_back() {
        let arriving = Arriving::default();
        let half = MAX_BYTES_OF_USER / 2;
        let held = [arriving.take(Some("alice"), half).unwrap(), arriving.take(Some("alice"), half).unwrap()];
        assert_eq!(arriving.take(Some("alice"), 1).unwrap_err().status, 503);
        assert!(arriving.take(Some("bob"), half).is_ok());
        let rest = arriving.take(None, MAX_BYTES - MAX_BYTES_OF_USER).unwrap();
        assert_eq!(arriving.take(Some("bob"), 1).unwrap_err().status, 503);
        drop((held, rest));
        assert!(arriving.sums().by_user.is_empty() && arriving.sums().all == 0);
    }
}

//! The registry's rejections over HTTP.

use estimand_api::problem::{Problem, kind};
use estimand_api::registration::no_secrets;

use crate::core::Rejection;

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        match rejection {
            Rejection::Unknown(_) => Problem::not_found(detail),
            Rejection::Unreadable(_) => {
                Problem::new(500, kind::UNREADABLE, "What is stored cannot be read", detail)
            }
            Rejection::NoSecret { of, names } => no_secrets(&of, names.iter().map(String::as_str)),
            Rejection::Taken { .. }
            | Rejection::Full
            | Rejection::Outdated { .. }
            | Rejection::Cycle(_)
            | Rejection::Needed { .. } => Problem::conflict(detail),
        }
    }
}

//! Data names of metrics: the prefix and the name of the metric, in which all but letters, digits and `_` is `_`.
//!
//! Names of metrics have dots and slashes. Those are no parts of names here that expressions could read.

use estimand_api::names::{DataName, MAX_DATA_NAME};
use estimand_api::problem::shorten;

/// The prefix of resources that name no service.
pub const PREFIX: &str = "otel_";

/// The prefix of what a service measures.
pub fn service_prefix(service: &str) -> Result<String, String> {
    let plain = plain(service, String::with_capacity(service.len() + 1));
    let first = if plain.starts_with(|first: char| first.is_ascii_digit()) { "_" } else { "" };
    match plain.len() < MAX_DATA_NAME {
        true => Ok(format!("{first}{plain}_")),
        false => Err(format!(
            "the name of the service `{}` is too long for a data name; expected a shorter one, or the header \
             `Estimand-Name-Prefix`",
            shorten(service)
        )),
    }
}

pub fn data_name(prefix: &str, metric: &str) -> Result<DataName, String> {
    let name = match metric {
        "" => return Err("a metric has no name; expected one".to_owned()),
        _ => plain(metric, prefix.to_owned()),
    };
    DataName::parse(&name).map_err(|error| format!("the metric `{}`: {error}", shorten(metric)))
}

fn plain(text: &str, mut begun: String) -> String {
    begun.extend(text.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }));
    begun
}

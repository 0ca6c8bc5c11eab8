//! The log of a process: its destination, its format and its content.
//!
//! Everything goes to standard error, one line an event, so that standard output stays the command's own. A
//! filter decides which events are written: the one given, else the one in `ESTIMAND_LOG`, else everything
//! from `info` on. A process has one log; setting it up again changes nothing.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// The environment variable with the filter, e.g. `debug` or `info,estimand::access=debug`.
pub const FILTER_VARIABLE: &str = "ESTIMAND_LOG";

/// The HTTP library announces every worker at `info`, which tells an operator nothing.
const DEFAULT_FILTER: &str = "info,actix_server=warn,actix_web=warn";

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Pretty,
    /// For programs: a JSON object a line.
    Json,
}

impl FromStr for Format {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "pretty" => Ok(Format::Pretty),
            "json" => Ok(Format::Json),
            other => Err(TelemetryError::Format(other.to_owned())),
        }
    }
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("unknown log format {0:?}; expected pretty or json")]
    Format(String),
    #[error("the log filter {filter:?} is not valid; expected e.g. info or info,estimand::access=debug")]
    Filter { filter: String, source: tracing_subscriber::filter::ParseError },
}

/// Sets up the log of this process, unless it has one.
pub fn init(format: Format, filter: Option<&str>) -> Result<(), TelemetryError> {
    let from_environment = std::env::var(FILTER_VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let text = filter.or(from_environment.as_deref()).unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::try_new(text)
        .map_err(|source| TelemetryError::Filter { filter: text.to_owned(), source })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // This fails only if there is a log already, which is all that was asked for.
    let _ = match format {
        Format::Pretty => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
        Format::Json => log.json().flatten_event(true).try_init(),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_set_up_is_accepted_and_a_wrong_filter_is_named() {
        assert!(init(Format::Pretty, Some("warn")).is_ok());
        assert!(init(Format::Json, Some("info")).is_ok());
        let error = init(Format::Pretty, Some("info,x=[loud")).expect_err("not a filter");
        assert!(error.to_string().contains("x=[loud"), "{error}");
    }
}

//! The log of a process: its destination, its format and its content.
//!
//! Everything goes to standard error, one line an event, so that standard output stays the command's own. A
//! filter decides which events are written: the one given, else the one in `ESTIMAND_LOG`, else everything
//! from `info` on. A process has one log; setting it up again changes nothing.

use std::io::IsTerminal;
use std::str::FromStr;
use std::sync::OnceLock;

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

/// The look of a log, and its filter if one is set.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub format: Format,
    pub filter: Option<String>,
}

/// Sets another filter for the log of this process.
type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send + Sync>;

/// There once the process has a log.
static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

/// Checks a filter that is given as an option.
pub fn filter(text: &str) -> Result<String, TelemetryError> {
    read_filter(Some(text)).map(|_| text.to_owned())
}

/// Sets up the log of this process, unless it has one.
pub fn init(log: &Log) -> Result<(), TelemetryError> {
    let filter = read_filter(log.filter.as_deref())?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // They would be written to standard error, too, and panic if nobody reads that any more.
    let builder = builder.log_internal_errors(false);
    // This fails only if there is a log already, which is all that was asked for.
    match log.format {
        Format::Pretty => {
            let builder = builder.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ =
                builder.try_init().map(|()| SET_FILTER.set(Box::new(move |filter| handle.reload(filter))));
        }
        Format::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ =
                builder.try_init().map(|()| SET_FILTER.set(Box::new(move |filter| handle.reload(filter))));
        }
    }
    Ok(())
}

/// Gives the log of this process another filter; none: the default one.
pub fn set_filter(text: Option<&str>) -> Result<(), TelemetryError> {
    let filter = read_filter(text)?;
    // It fails only if the log is gone, and then nobody misses the filter.
    let _ = SET_FILTER.get().map(|set| set(filter));
    Ok(())
}

/// The filter that is given, else the one of the environment, else the default one.
fn read_filter(given: Option<&str>) -> Result<EnvFilter, TelemetryError> {
    let from_environment = std::env::var(FILTER_VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let text = given.or(from_environment.as_deref()).unwrap_or(DEFAULT_FILTER);
    EnvFilter::try_new(text).map_err(|source| TelemetryError::Filter { filter: text.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_set_up_is_accepted_and_a_wrong_filter_is_named() {
        let log = |format, filter: &str| Log { format, filter: Some(filter.to_owned()) };
        assert!(init(&log(Format::Pretty, "warn")).is_ok());
        assert!(init(&log(Format::Json, "info")).is_ok());
        assert!(set_filter(Some("debug")).is_ok());
        let error = init(&log(Format::Pretty, "info,x=[loud")).expect_err("not a filter");
        assert!(error.to_string().contains("x=[loud"), "{error}");
    }
}

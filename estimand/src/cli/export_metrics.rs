//! The command that sends values to a receiver of OpenTelemetry.

use clap::Args;
use estimand_api::duration::Span;
use estimand_api::names::NamePattern;

use super::services::log_format;
use crate::telemetry;

const EXAMPLES: &str = "\
Sends every number of every value by OTLP/HTTP: the series that /metrics of the data service
shows, each with the time of its value. It goes on until it is ended, and sends again what a
receiver does not take now.

Examples:
  estimand export-metrics --to http://127.0.0.1:4318
  export OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20SECRET
  estimand export-metrics --to https://otlp.example.org --every 30s --names 'cpu*,memory'";

// Exports values as metrics.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportMetricsArgs {
    /// The receiver; `/v1/metrics` is added to its path
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true, value_hint = clap::ValueHint::Url)]
    pub to: String,
    /// How often all is sent
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub every: Span,
    /// Only these names; `*` stands for any text [default: all]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub names: Vec<NamePattern>,
    /// Send these headers, too, with `%20` for a blank; others may read a command line, but not the variable
    #[arg(
        long = "header",
        id = "headers",
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        env = "OTEL_EXPORTER_OTLP_HEADERS",
        hide_env_values = true
    )]
    pub headers: Vec<String>,
    /// How much is logged, e.g. debug [default: $ESTIMAND_LOG, else info]
    #[arg(long, value_name = "FILTER", value_parser = telemetry::filter)]
    pub log: Option<String>,
    /// How the log looks, which goes to standard error
    #[arg(long, value_name = "FORMAT", default_value = "pretty", value_parser = log_format())]
    pub log_format: telemetry::Format,
}

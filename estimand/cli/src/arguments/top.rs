//! The command that shows nodes and tasks while they change.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use estimand_api::names::DataName;
use estimand_api::pointer::Pointer;

const EXAMPLES: &str = "\
Keys: q ends it, s sorts by the next column, r reverses the order, the arrows and PgUp and PgDn move
through the nodes. Values come as they change; a yellow one is stale, a red one failed or lost.

Where standard output is no terminal, or with --once, one table is printed, with --json one document.

Examples:
  estimand top
  estimand top --values load/one,cpu/usageFraction,gpu/freeFraction
  estimand top --sort memory --once";

/// The values that are shown unless others are chosen.
const DEFAULT_VALUES: &str = "load/one,cpu/usageFraction,memory/usedFraction";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// The values to show, with commas between them: a data name, and after it the JSON pointer of a part
    #[arg(long, value_name = "NAME[/FIELD]", value_delimiter = ',', default_value = DEFAULT_VALUES)]
    pub values: Vec<Column>,
    /// Sort by this column: node, state, tasks or a data name that is shown
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
}

/// A chosen value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: DataName,
    /// Of each value this part; none: all of it.
    pub field: Option<Pointer>,
}

impl FromStr for Column {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, field) = match text.find('/') {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        };
        let name = name.parse().map_err(|error| format!("{error}"))?;
        let field = field.map(Pointer::parse).transpose().map_err(|error| error.to_string())?;
        Ok(Column { name, field })
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.field.as_ref().map_or("", Pointer::as_str))
    }
}

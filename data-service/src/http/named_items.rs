//! An object whose keys are names: what the manager or registry says of each data name or node.

use std::collections::BTreeMap;
use std::str::FromStr;

use estimand_api::json::parse_object;
use estimand_api::names::NameError;
use estimand_api::problem::{FieldError, Problem};
use serde_json::{Map, Value};

/// Reads such a body; the error names all that is wrong in it. `item` says what is wrong with one value.
pub fn read<N, T>(
    body: &[u8],
    item: impl Fn(&str, &Value) -> Result<T, Vec<FieldError>>,
) -> Result<BTreeMap<N, T>, Problem>
where
    N: FromStr<Err = NameError> + Ord,
{
    collect(&parse_object(body)?, item).map_err(Problem::invalid)
}

/// The same of an object that is a part of a body.
pub fn collect<N, T>(
    object: &Map<String, Value>,
    item: impl Fn(&str, &Value) -> Result<T, Vec<FieldError>>,
) -> Result<BTreeMap<N, T>, Vec<FieldError>>
where
    N: FromStr<Err = NameError> + Ord,
{
    let (mut items, mut errors) = (BTreeMap::new(), Vec::new());
    for (key, value) in object {
        match (key.parse::<N>(), item(key, value)) {
            (Ok(name), Ok(item)) => drop(items.insert(name, item)),
            (name, item) => {
                errors.extend(name.err().map(|error| error.at(key)));
                errors.extend(item.err().into_iter().flatten());
            }
        }
    }
    if errors.is_empty() { Ok(items) } else { Err(errors) }
}

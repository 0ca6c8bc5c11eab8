//! `collect`: a collector that ships in the box, run once in this process. No service is needed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use estimand_collectors::{
    self as collectors, CollectorKind, Failure as NotCollected, Reading, Surroundings,
};
use serde_json::{Value, json};

use crate::cli::collect::CollectArgs;
use estimand_cli::output::failure::Failure;

/// Measures, or lists what can be measured.
pub fn collect(args: &CollectArgs) -> Result<(), Failure> {
    let Some(name) = &args.name else { return list(args.json) };
    let Some(kind) = collectors::find(name) else {
        let known: Vec<&str> = collectors::ALL.iter().map(|kind| kind.name).collect();
        return Err(Failure::Missing(format!(
            "there is no collector `{name}`; there are {}",
            known.join(", ")
        )));
    };
    let params: BTreeMap<String, Value> =
        args.params.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    // A registration's command has a node in its environment; elsewhere there is none to be named.
    let node = std::env::var("ESTIMAND_NODE").ok();
    let around = Surroundings { node, ..Surroundings::default() };
    let mut collector = collectors::make(kind, &params, &around).map_err(Failure::Usage)?;
    let span = Duration::try_from_secs_f64(args.timeout).map_err(|e| Failure::Usage(e.to_string()))?;
    match collector.collect(Instant::now() + span) {
        Ok(Reading::Here(value)) => show(&value, args.json),
        Ok(Reading::PerNode(values)) => show(&json!(values), args.json),
        Err(NotCollected::NotHere(what)) => {
            Err(Failure::Missing(format!("`{name}` is not available here: {what}")))
        }
        Err(NotCollected::Failed(reason) | NotCollected::Refused(reason)) => {
            Err(Failure::NotMeasured(reason))
        }
    }
}

fn list(as_json: bool) -> Result<(), Failure> {
    if as_json {
        let one = |kind: &&CollectorKind| {
            let params: BTreeMap<&str, &str> =
                kind.params.iter().map(|param| (param.name, param.about)).collect();
            json!({ "name": kind.name, "about": kind.about, "params": params })
        };
        return show(&collectors::ALL.iter().map(one).collect(), true);
    }
    let width = collectors::ALL.iter().map(|kind| kind.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for kind in collectors::ALL {
        text.push_str(&format!("{:width$}  {}\n", kind.name, kind.about));
        for param in kind.params {
            let needed = if param.required { " (required)" } else { "" };
            text.push_str(&format!("{:width$}    {}: {}{needed}\n", "", param.name, param.about));
        }
    }
    print(&text)
}

/// For people each figure with its path on a line of its own.
fn show(value: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return print(&format!("{value}\n"));
    }
    let mut lines = Vec::new();
    flatten(String::new(), value, &mut lines);
    let width = lines.iter().map(|(path, _)| path.chars().count()).max().unwrap_or(0).min(48);
    print(&lines.iter().map(|(path, value)| format!("{path:width$}  {value}\n")).collect::<String>())
}

fn flatten(path: String, value: &Value, lines: &mut Vec<(String, String)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(name, value)| flatten(below(name), value, lines));
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(below(&at.to_string()), item, lines));
        }
        Value::String(text) => lines.push((path, text.clone())),
        other => lines.push((path, other.to_string())),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    estimand_cli::output::say(text);
    Ok(())
}

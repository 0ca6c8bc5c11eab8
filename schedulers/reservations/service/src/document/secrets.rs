//! The secrets of a task, which is kept as it was given until it is submitted, and shown without them.

use serde_json::{Map, Value};

/// Empties the variables of a task's environment that `secrets` names, in each form that it may have.
pub fn hide(task: &mut Map<String, Value>) {
    let names = task.get("secrets").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<String> = names.filter_map(Value::as_str).map(str::to_owned).collect();
    let is_secret = |name: &str| names.iter().any(|secret| secret == name.trim());
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}="),
        _ => pair.to_owned(),
    };
    match task.get_mut("environment") {
        Some(Value::Object(variables)) => {
            for (_, value) in variables.iter_mut().filter(|(name, _)| is_secret(name)) {
                *value = Value::from("");
            }
        }
        Some(Value::Array(pairs)) => {
            for pair in pairs {
                if let Value::String(text) = pair {
                    *text = hidden(text);
                }
            }
        }
        Some(Value::String(lines)) => {
            *lines = lines.lines().map(hidden).collect::<Vec<_>>().join("\n");
        }
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_form_of_an_environment_shows_a_secret() {
        for environment in [
            json!({ "KEY": "hush", "A": "1" }),
            json!(["KEY=hush", "A=1"]),
            json!("KEY=hush\nA=1"),
            json!(" KEY =hush\nA=1"),
        ] {
            let mut task = json!({ "command": "x", "environment": environment, "secrets": ["KEY"] });
            hide(task.as_object_mut().unwrap());
            let text = task.to_string();
            assert!(!text.contains("hush") && text.contains('1'), "{text}");
        }
    }
}

//! The page of the documentation about settings, rendered from the definition of the command line.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, CommandFactory as _};

use super::{commands, keys};
use crate::cli::Cli;

const HEAD: &str = "\
# Settings of services and agents

Rendered from the definition of the command line; a test holds the two together.
`RENEW=1 cargo test -p estimand settings_page` writes this page anew.

Each setting is an option (`--max-runs 8`) and a key of the YAML file that `--config` names (`max-runs: 8`). The command line
goes before the environment, and that before the file. A key that a command does not have is refused with its line.

```yaml
listen: 10.0.0.1:7070
tls: /etc/estimand/tls
data-dir: /var/lib/estimand
label: {zone: a, gpu: \"\"}
allow: [/opt/collectors]
log: info
```

A *list* is a list in the file, and an option that may be repeated; where its items are `KEY=VALUE` it may be a map in the
file. A *switch* is `true` or `false` in the file, and an option without a value. On SIGHUP the file is read again: `log` takes
effect, and a key that waits for a restart is named in the log. *Services* are all commands but `agent`.

| Key | Of | Value | Meaning |
| --- | --- | --- | --- |
";

/// The commands that have a key, by the key and what else stands in its row.
type Rows = BTreeMap<(String, String, String), Vec<&'static str>>;

/// The page, in Markdown.
fn settings_page() -> String {
    let mut cli = Cli::command();
    cli.build();
    let mut rows = Rows::new();
    for name in commands() {
        let command = cli.find_subcommand(name).into_iter();
        for (key, arg) in command.flat_map(keys).filter_map(|arg| Some((arg.get_long()?, arg))) {
            rows.entry((key.to_owned(), value(arg), meaning(arg))).or_default().push(name);
        }
    }
    let row = |((key, value, meaning), commands): (&(String, String, String), &Vec<&str>)| {
        format!("| `{key}` | {} | {value} | {} |\n", of(commands), plain(meaning))
    };
    rows.iter().map(row).fold(HEAD.to_owned(), |page, row| page + &row)
}

fn of(named: &[&str]) -> String {
    match named {
        all if all.len() == commands().count() => "all".to_owned(),
        services if services.len() + 1 == commands().count() && !services.contains(&"agent") => {
            "services".to_owned()
        }
        some => some.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let name = names.first().map_or_else(|| "VALUE".to_owned(), |name| name.to_string());
    match arg.get_action() {
        ArgAction::SetTrue => "switch".to_owned(),
        ArgAction::Append => format!("list of `{name}`"),
        _ => format!("`{name}`"),
    }
}

/// A text in which Markdown sees no emphasis and no end of a cell.
fn plain(text: &str) -> String {
    let escaped = |(place, part): (usize, &str)| match place % 2 {
        0 => part.replace('*', "\\*"),
        _ => part.to_owned(),
    };
    let parts: Vec<String> = text.replace('|', "\\|").split('`').enumerate().map(escaped).collect();
    parts.join("`")
}

/// The help of an option, with its default and its variable.
fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let default = defaults.collect::<Vec<_>>().join(" ");
    if !default.is_empty() && !matches!(arg.get_action(), ArgAction::SetTrue) {
        text += &format!(" [default: {default}]");
    }
    if let Some(variable) = arg.get_env() {
        text += &format!(" [environment: {}]", variable.to_string_lossy());
    }
    text
}

#[test]
#[allow(clippy::unwrap_used)]
fn the_settings_page_is_the_one_in_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/settings.md");
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(path, settings_page()).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert_eq!(committed, settings_page(), "RENEW=1 cargo test -p estimand settings_page renews it");
}

//! The first screen of help: the commands in groups, on a screen of 24 to 40 lines.
//!
//! A line is about one command, in that command's own words, or about a few that belong together. A test holds that each
//! command stands in exactly one line.

use clap::{Command, CommandFactory as _, FromArgMatches as _};

use super::{Cli, tips};
use crate::services::SERVICES;

/// The width of the screen.
const WIDTH: usize = 80;
/// The width before the sentences.
const NAMES_WIDTH: usize = 29;

pub const AFTER_COMMANDS: &str = "\
`estimand COMMAND --help` says more. Exit codes: 0 done, 1 failed, 2 usage,
3 no such thing, 4 conflict, 5 refused, 6 service unreachable or not ready";

struct Group {
    title: &'static str,
    lines: &'static [Line],
}

enum Line {
    /// A command with its own sentence.
    One(&'static str),
    /// Commands that share a sentence.
    Several(&'static [&'static str], &'static str),
    /// The commands of all services, which share a sentence.
    Services(&'static str),
}

use Line::{One, Services, Several};

const GROUPS: &[Group] = &[
    Group { title: "Start", lines: &[One("up"), One("agent"), Services("Start one service alone")] },
    Group {
        title: "See how it is",
        lines: &[
            One("doctor"),
            One("top"),
            Several(&["nodes", "instances"], "The machines; what runs on them, with its troubles"),
            Several(&["logs", "collect"], "What runs print on stderr; measure here, once"),
        ],
    },
    Group {
        title: "Values",
        lines: &[
            Several(&["get", "compare"], "Read the latest values; compare several names"),
            Several(&["watch", "history"], "Follow values as they change; read past ones"),
            Several(&["put", "delete"], "Write a value; delete values"),
            One("export-metrics"),
            Several(&["bind", "unbind", "bindings"], "Have a name serve another's values; list such"),
        ],
    },
    Group {
        title: "Registrations: what produces values",
        lines: &[
            Several(&["list", "show"], "All that is registered; all about one data name"),
            Several(&["register", "edit", "rename"], "Make or change one"),
            Several(&["pause", "resume", "unregister"], "Stop some for a while, or for good"),
            Several(&["apply", "export"], "Make registrations what files say; write such files"),
            One("run"),
            One("changes"),
        ],
    },
    Group {
        title: "Work on the nodes",
        lines: &[
            Several(&["run-task", "tasks"], "Run a command where it suits best; all about tasks"),
            Several(&["tune", "job"], "Look for good parameters; have data worked on"),
            Several(&["files", "images"], "Files of people and tasks; images that tasks name"),
            One("capacity"),
            Several(&["reserve", "reservations"], "Reserve a time to come; list and change such"),
            Several(&["price", "credits"], "What a time to come costs; who can pay how much"),
            Several(&["partition", "simulate"], "Plan a division of data; try policies, run nothing"),
        ],
    },
    Group {
        title: "Administration",
        lines: &[
            Several(&["token", "users", "pki"], "Tokens; users' shares; an authority"),
            One("audit"),
            Several(&["completions", "man"], "Complete words in your shell; manual pages"),
        ],
    },
];

/// The command line, whose own help is the first screen.
pub fn command() -> Command {
    let command = Cli::command();
    let screen = screen(&command);
    command.help_template(screen)
}

/// Reads a command line.
pub fn parse<W: Into<std::ffi::OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<Cli, clap::Error> {
    let mut command = command();
    let words: Vec<std::ffi::OsString> = words.into_iter().map(Into::into).collect();
    let matches = command.try_get_matches_from_mut(&words);
    let mut matches = matches.map_err(|error| {
        let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        tips::with_tip(error, &command, &words)
    })?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn screen(command: &Command) -> String {
    let mut text = "{about}\n{usage-heading} {usage}\n".to_owned();
    for Group { title, lines } in GROUPS {
        text.push_str(&format!("{title}\n"));
        lines.iter().for_each(|line| text.push_str(&shown(command, line)));
    }
    text.push_str(&format!("Options everywhere: {}\n{AFTER_COMMANDS}\n", options(command)));
    text
}

fn shown(command: &Command, line: &Line) -> String {
    let about = |name| command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
    let (names, sentence) = match line {
        One(name) => ((*name).to_owned(), about(name).unwrap_or_default()),
        Several(names, sentence) => (names.join(", "), (*sentence).to_owned()),
        Services(sentence) => (SERVICES.map(|kind| kind.command).join(", "), (*sentence).to_owned()),
    };
    let names = wrapped(&names);
    let last = names.rsplit('\n').next().unwrap_or_default().len();
    if last < NAMES_WIDTH {
        format!("{names}{:1$}{sentence}\n", "", NAMES_WIDTH - last)
    } else {
        format!("{names}\n{:NAMES_WIDTH$}{sentence}\n", "")
    }
}

/// Names with commas between them, in lines that are indented and not too long.
fn wrapped(names: &str) -> String {
    let mut lines = vec!["  ".to_owned()];
    for name in names.split_inclusive(", ") {
        if lines.last().is_some_and(|line| line.len() + name.trim_end().len() > WIDTH) {
            lines.push("  ".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(name);
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// The options that stand before any command; each command's help explains them.
fn options(command: &Command) -> String {
    let mut words = Vec::new();
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        let Some(long) = option.get_long() else { continue };
        let value = option.get_value_names().filter(|_| option.get_action().takes_values());
        words.push(match value {
            Some([name, ..]) => format!("--{long} {name}"),
            _ => format!("--{long}"),
        });
    }
    words.join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_command_stands_in_one_line_of_the_first_screen() {
        let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
        for line in GROUPS.iter().flat_map(|group| group.lines) {
            let names = match line {
                One(name) => vec![*name],
                Several(names, _) => names.to_vec(),
                Services(_) => SERVICES.map(|kind| kind.command).to_vec(),
            };
            names.into_iter().for_each(|name| *lines.entry(name).or_default() += 1);
        }
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let wanted: BTreeMap<&str, u32> = shown.map(|command| (command.get_name(), 1)).collect();
        assert_eq!(lines, wanted);
    }

    #[test]
    fn the_first_screen_fits_a_terminal() {
        for word in ["--help", "-h", "help"] {
            let text =
                command().term_width(80).try_get_matches_from(["estimand", word]).unwrap_err().to_string();
            assert!((24..=40).contains(&text.lines().count()), "{} lines\n{text}", text.lines().count());
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }
}

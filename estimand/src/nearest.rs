//! The nearest name that is known, as a hint after the failure of a command that named one which is not.
//!
//! The command line is read once more for it, and only after such a failure: its definition tells which of its words are
//! names of what.

use std::ffi::OsString;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _};
use estimand_api::fields;
use estimand_cli::names::{self, ArgumentNames, Names};
use estimand_cli::{Exit, Failure, Remote, Session};

use crate::cli::groups;

/// For all requests together. The service has just answered.
const WITHIN: Duration = Duration::from_secs(1);

/// The same failure, with the nearest names that are known if the command failed for want of something.
pub async fn hinted(failure: Failure, words: Vec<OsString>) -> Failure {
    if failure.exit() != Exit::Missing {
        return failure;
    }
    let mut command = groups::command();
    let Ok(matches) = command.try_get_matches_from_mut(words) else { return failure };
    let Ok(remote) = Remote::from_arg_matches(&matches) else { return failure };
    let mut line = Line { remote, named: Vec::new() };
    line.read(&command, &matches, &[]);
    match tokio::time::timeout(WITHIN, line.hint()).await {
        Ok(Some(hint)) => failure.hint(hint),
        Ok(None) | Err(_) => failure,
    }
}

/// The parts of a command line that matter here.
struct Line {
    remote: Remote,
    /// The names that must be known, in the order of the command's arguments.
    named: Vec<(Names, String)>,
}

impl Line {
    /// Reads a command and those below it; `above` are its words.
    fn read(&mut self, command: &Command, matches: &ArgMatches, above: &[&str]) {
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            // A default is nothing that was mistyped.
            if let Some(ArgumentNames::Known(names)) = names::of_argument(above, arg)
                && matches.value_source(id) == Some(ValueSource::CommandLine)
            {
                let given = matches.get_raw(id).into_iter().flatten().filter_map(|word| word.to_str());
                self.named.extend(given.map(|word| (names, word.to_owned())));
            }
        }
        let Some((name, below)) = matches.subcommand() else { return };
        let Some(inner) = command.find_subcommand(name) else { return };
        let has_remote = inner.get_arguments().any(|arg| arg.get_id() == "server");
        if has_remote && let Ok(remote) = Remote::from_arg_matches(below) {
            self.remote = remote.or(&self.remote);
        }
        self.read(inner, below, &[above, &[name]].concat());
    }

    async fn hint(&self) -> Option<String> {
        let client = Session::quiet(&self.remote).ok()?.client;
        let mut meant = Vec::new();
        for (names, given) in &self.named {
            let beginning: String = given.chars().take(1).collect();
            let known = names::known(&client, *names, &beginning).await.unwrap_or_default();
            if !known.contains(given)
                && let Some(near) = nearest(given, &known)
            {
                meant.push((given, near.to_owned()));
            }
        }
        match meant.as_slice() {
            [] => None,
            [(_, near)] => Some(format!("did you mean `{near}`?")),
            several => {
                let several = several.iter().map(|(given, near)| format!("`{near}` instead of `{given}`"));
                Some(format!("did you mean {}?", several.collect::<Vec<_>>().join(", ")))
            }
        }
    }
}

/// Names that are counted are told apart by their numbers: who asks for `node-7` hardly means `node-1`.
fn nearest<'n>(given: &str, known: &'n [String]) -> Option<&'n str> {
    let (text, numbers) = apart(given);
    let others = known.iter().map(String::as_str).filter(|name| {
        let (other_text, other_numbers) = apart(name);
        other_text != text || other_numbers == numbers
    });
    fields::nearest(given, others)
}

/// The text of a name around its numbers, and these without leading zeros.
fn apart(name: &str) -> (Vec<&str>, Vec<&str>) {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let text = name.split(is_digit).filter(|part| !part.is_empty()).collect();
    let numbers = name.split(|letter| !is_digit(letter)).filter(|part| !part.is_empty());
    (text, numbers.map(|number| number.trim_start_matches('0')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: Option<&str>) {
        let known = ["cpu_usage", "load", "node-1", "node-12", "t17"].map(str::to_owned);
        assert_eq!(nearest(given, &known), expected, "{given}");
    }

    #[test]
    fn a_slip_is_told_from_another_number() {
        check("cpu_usgae", Some("cpu_usage"));
        check("CPU_usage", Some("cpu_usage"));
        check("nod-1", Some("node-1"));
        check("nodee-12", Some("node-12"));
        check("laod", Some("load"));
        check("node-01", Some("node-1"));
        check("node-7", None);
        check("node-13", None);
        check("t18", None);
        check("elephant", None);
        check("", None);
    }
}

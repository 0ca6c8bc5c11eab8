//! Tips after a command line that clap refused, where its own would lead astray.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options that users of other tools try, with the command that does it here.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[(
    "run-task",
    &["--detach", "-d", "--background", "--no-wait"],
    "`estimand tasks submit` takes the same options and returns at once; `estimand tasks logs --follow ID` shows what it writes",
)];

/// The refusal with a tip: where an unknown word or option belongs.
pub fn with_tip(mut error: clap::Error, command: &Command, words: &[String]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let given = given.clone();
    // Clap's tip is to hand the option on to the command, of which it takes it for a part.
    error.remove(ContextKind::Suggested);
    let (path, command) = command_of(command, words);
    if let Some(tip) = tip(&given, &path, command) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

fn tip(given: &str, path: &[&str], command: &Command) -> Option<String> {
    let name = path.last()?;
    let option = given.split('=').next().unwrap_or(given);
    let elsewhere = ELSEWHERE.iter().find(|(of, options, _)| of == name && options.contains(&option));
    if let Some((_, _, tip)) = elsewhere {
        return Some((*tip).to_owned());
    }
    let runs_something = command.get_positionals().any(clap::Arg::is_last_set);
    (runs_something && !given.starts_with('-'))
        .then(|| format!("the command stands behind `--`: estimand {} … -- {given} …", path.join(" ")))
}

/// The innermost command that the words name, and its own words.
fn command_of<'c, 'w>(mut command: &'c Command, words: &'w [String]) -> (Vec<&'w str>, &'c Command) {
    let mut path = Vec::new();
    for word in words.iter().skip(1).take_while(|word| *word != "--") {
        if let Some(inner) = command.find_subcommand(word) {
            path.push(word.as_str());
            command = inner;
        }
    }
    (path, command)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::groups;

    #[track_caller]
    fn check(line: &str, tip: Option<&str>) {
        let words = ["estimand"].into_iter().chain(line.split_whitespace());
        let text = groups::parse(words).unwrap_err().to_string();
        let told = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        assert_eq!(told, tip, "{text}");
    }

    #[test]
    fn a_command_without_dashes_before_it_is_told_where_they_belong() {
        check(
            "register load1 --every 2s sh -c x",
            Some("the command stands behind `--`: estimand register … -- sh …"),
        );
        check(
            "tasks submit echo hi",
            Some("the command stands behind `--`: estimand tasks submit … -- echo …"),
        );
        check("bindings a b", None);
    }

    #[test]
    fn an_option_of_other_tools_is_not_handed_on_to_the_command() {
        let submit = "`estimand tasks submit` takes the same options and returns at once; `estimand tasks logs \
                      --follow ID` shows what it writes";
        check("run-task --detach -- echo a", Some(submit));
        check("run-task --gppu 1 -- echo a", Some("a similar argument exists: '--gpu'"));
        check("run-task --something -- echo a", None);
    }
}

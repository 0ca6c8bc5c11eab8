//! The command of a slot, as the wire has it: one line that is split into words, or the words themselves.
//!
//! No shell is ever started. A line is split by the quoting rules of a shell and by nothing else of it, so a
//! pipe or a redirection in it is passed on as a word; [`Command::shell_hint`] tells its author so. A command from a
//! constructor can be run: it has a first word, holds no NUL byte, and is not too long.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::problem::shorten;
use crate::schema::{NO_NUL, text};

/// The longest command: the bytes of a line, or of all words with a separator after each.
pub const MAX_COMMAND_BYTES: usize = 4096;

/// Up to this length a hint repeats the whole line.
const MAX_HINT_LINE_BYTES: usize = 160;

/// A command.
///
/// The variants are open because a registration that starts no process keeps other text in the same field (the
/// name of a built-in collector, an expression); a command that is to be run comes from [`Command::line`],
/// [`Command::words`] or [`Command::from_json`], which check it.
///
/// ```
/// use estimand_api::command::Command;
///
/// let command = Command::line("df --output=pcent '/mnt/my disk'")?;
/// assert_eq!(command.argv(), ["df", "--output=pcent", "/mnt/my disk"]);
/// assert_eq!(command.shell_hint(), None);
///
/// let hint = Command::line("ps ax | wc -l")?.shell_hint();
/// assert!(hint.is_some_and(|hint| hint.ends_with(r#"["sh","-c","ps ax | wc -l"]"#)));
/// # Ok::<(), estimand_api::command::CommandError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// Split like a shell splits words.
    Line(String),
    /// Taken as it is.
    Argv(Vec<String>),
}

/// A line that can be split into words, the first of which is not empty: quotes are closed, and `#` where a
/// word would begin is the beginning of a comment, up to the end of its line.
pub(crate) const LINE_PATTERN: &str = concat!(
    r"^[ \t\n]*",
    r#"([^ \t\n'"\\#\x00]|\\[^\n\x00]|'[^'\x00]+'|"[^"\\\x00]+")"#,
    r#"([^ \t\n'"\\\x00]|\\[^\x00]|'[^'\x00]*'|"([^"\\\x00]|\\[^\x00])*")*"#,
    r#"([ \t\n]+(#[^\n\x00]*\n[ \t\n]*)*"#,
    r#"([^ \t\n'"\\#\x00]|\\[^\x00]|'[^'\x00]*'|"([^"\\\x00]|\\[^\x00])*")"#,
    r#"([^ \t\n'"\\\x00]|\\[^\x00]|'[^'\x00]*'|"([^"\\\x00]|\\[^\x00])*")*)*"#,
    r"([ \t\n]+(#[^\n\x00]*\n[ \t\n]*)*(#[^\n\x00]*)?)?$",
);

/// A command as any mode takes it: which one fits which mode is for the registration to say.
fn described() -> Value {
    let words = json!({
        "description": "The words themselves, together at most 4 KiB",
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_COMMAND_BYTES / 2,
        "prefixItems": [{ "type": "string", "pattern": r"^[^\x00]+$" }],
        "items": { "type": "string", "pattern": NO_NUL },
    });
    let mut line =
        text("A line that is split like a shell splits words", r"^[^\x00]*[^\s\x00][^\x00]*$", "df /");
    line["maxLength"] = MAX_COMMAND_BYTES.into();
    let what = "What is run. With the mode `builtin` the name of what is built in, with `expr` an expression";
    json!({ "description": what, "oneOf": [line, words] })
}

crate::described!(Command, [], described());

/// A command that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("the command is empty; expected a program and its arguments")]
    Empty,
    #[error("the first word of the command is empty; expected the program to run")]
    EmptyProgram,
    #[error("the command holds a NUL byte, which no argument of a process can")]
    Nul,
    #[error("the command has {0} bytes; at most {MAX_COMMAND_BYTES} are taken")]
    TooLong(usize),
    #[error("`{}` leaves a quote open or ends in a backslash; expected each quote closed, or an array of words", shorten(.0))]
    Unbalanced(String),
    #[error("the command is {0}; expected a string, or an array of strings")]
    WrongKind(&'static str),
    #[error("word {place} of the command is {kind}; expected a string")]
    WrongWord { place: usize, kind: &'static str },
}

impl Command {
    /// Checks a line.
    pub fn line(text: impl Into<String>) -> Result<Command, CommandError> {
        let text = text.into();
        if text.len() > MAX_COMMAND_BYTES {
            return Err(CommandError::TooLong(text.len()));
        }
        // Also where it is no part of a word: no database would take it.
        if text.contains('\0') {
            return Err(CommandError::Nul);
        }
        let Some(words) = shlex::split(&text) else {
            return Err(CommandError::Unbalanced(text));
        };
        check_words(&words)?;
        Ok(Command::Line(text))
    }

    /// Checks words.
    pub fn words(words: Vec<String>) -> Result<Command, CommandError> {
        check_words(&words)?;
        Ok(Command::Argv(words))
    }

    /// Checks a JSON value, which must be a string or an array of strings.
    pub fn from_json(value: &Value) -> Result<Command, CommandError> {
        let kind = crate::json::kind_of;
        match value {
            Value::String(text) => Command::line(text.as_str()),
            Value::Array(items) => {
                let words = items.iter().enumerate().map(|(index, item)| match item {
                    Value::String(word) => Ok(word.clone()),
                    other => Err(CommandError::WrongWord { place: index + 1, kind: kind(other) }),
                });
                Command::words(words.collect::<Result<_, _>>()?)
            }
            other => Err(CommandError::WrongKind(kind(other))),
        }
    }

    /// The text as it stands, of a registration that starts no process: a name, or an expression.
    pub fn text(&self) -> String {
        match self {
            Command::Line(text) => text.clone(),
            Command::Argv(words) => words.join(" "),
        }
    }

    /// The program and its arguments. A line that never was checked and cannot be split is one word.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Command::Line(text) => shlex::split(text).unwrap_or_else(|| vec![text.clone()]),
            Command::Argv(words) => words.clone(),
        }
    }

    /// A hint for a user whose line looks as if it were meant for a shell.
    pub fn shell_hint(&self) -> Option<String> {
        let Command::Line(text) = self else { return None };
        let syntax = shell_syntax(text)?;
        let line = if text.len() <= MAX_HINT_LINE_BYTES { text.as_str() } else { "…" };
        let instead = serde_json::to_string(&["sh", "-c", line]).unwrap_or_default();
        Some(format!(
            "no shell is started, so {syntax} has no special meaning; to have a shell, write {instead}"
        ))
    }
}

fn check_words(words: &[String]) -> Result<(), CommandError> {
    let bytes = words.iter().map(|word| word.len() + 1).sum::<usize>().saturating_sub(1);
    match words {
        _ if bytes > MAX_COMMAND_BYTES => Err(CommandError::TooLong(bytes)),
        _ if words.iter().any(|word| word.contains('\0')) => Err(CommandError::Nul),
        [] => Err(CommandError::Empty),
        [program, ..] if program.is_empty() => Err(CommandError::EmptyProgram),
        _ => Ok(()),
    }
}

/// The first thing in the line that only a shell would understand, in words.
fn shell_syntax(line: &str) -> Option<String> {
    let mut rest = line.trim();
    let (mut quote, mut word_start) = (None, true);
    while let Some(c) = rest.chars().next() {
        let found = match quote {
            Some('\'') => None,
            Some(_) => expansion(rest),
            None => expansion(rest).or_else(|| operator(rest, word_start)),
        };
        if found.is_some() {
            return found;
        }
        word_start = quote.is_none() && c.is_ascii_whitespace();
        let escapes = c == '\\' && quote != Some('\'');
        quote = match (quote, c) {
            (None, '\'' | '"') => Some(c),
            (Some(open), _) if open == c => None,
            (quote, _) => quote,
        };
        let skipped = if escapes { 2 } else { 1 };
        rest = rest.char_indices().nth(skipped).map_or("", |(next, _)| &rest[next..]);
    }
    None
}

/// The characters that a shell replaces, also between double quotes.
fn expansion(rest: &str) -> Option<String> {
    let after_dollar = rest.strip_prefix('$').and_then(|name| name.chars().next());
    match after_dollar {
        Some('(') => Some("`$(`".to_owned()),
        Some(c) if c == '{' || c == '_' || c.is_ascii_alphanumeric() => {
            let name =
                rest.find(|c: char| !"${}_".contains(c) && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            Some(format!("`{}`", shorten(&rest[..name])))
        }
        _ => rest.starts_with('`').then(|| "a backtick".to_owned()),
    }
}

/// The characters with which a shell parts commands, redirects them or matches files.
fn operator(rest: &str, word_start: bool) -> Option<String> {
    const OPERATORS: [&str; 14] =
        ["&&", "||", ">>", "<<", "2>", "|", "&", ";", "<", ">", "(", ")", "*", "\n"];
    let found = *OPERATORS.iter().find(|operator| rest.starts_with(**operator))?;
    match found {
        "\n" => Some("a line break".to_owned()),
        // Elsewhere in a word the digit is part of it.
        "2>" if !word_start => None,
        found => Some(format!("`{found}`")),
    }
}

impl FromStr for Command {
    type Err = CommandError;
    fn from_str(text: &str) -> Result<Command, CommandError> {
        Command::line(text)
    }
}

/// For people: a line as it was written, words as a shell would need them.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Line(text) => f.pad(text),
            Command::Argv(words) => match shlex::try_join(words.iter().map(String::as_str)) {
                Ok(text) => f.pad(&text),
                Err(_) => write!(f, "{words:?}"),
            },
        }
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Command::Line(text) => serializer.serialize_str(text),
            Command::Argv(words) => words.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CommandVisitor)
    }
}

struct CommandVisitor;

impl<'de> Visitor<'de> for CommandVisitor {
    type Value = Command;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a command: a string, or an array of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Command, E> {
        Command::line(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Command, A::Error> {
        let (mut words, mut bytes) = (Vec::new(), 0);
        while let Some(word) = items.next_element::<String>()? {
            bytes += word.len() + 1;
            words.push(word);
            // Words that cannot be taken anyway are not gathered.
            if bytes > MAX_COMMAND_BYTES + 1 {
                break;
            }
        }
        Command::words(words).map_err(de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_split_and_words_are_not() {
        let check =
            |value: Value, argv: &[&str]| assert_eq!(Command::from_json(&value).unwrap().argv(), argv);
        check(json!("cat /proc/loadavg"), &["cat", "/proc/loadavg"]);
        check(json!("  a 'b c' \"d \\\" e\" f\\ g ''"), &["a", "b c", "d \" e", "f g", ""]);
        check(json!("ps | wc"), &["ps", "|", "wc"]);
        check(json!(["a", "b c", "'d"]), &["a", "b c", "'d"]);
    }

    proptest::proptest! {
        #[test]
        fn lines_of_the_pattern_are_read(line in &LINE_PATTERN[1..LINE_PATTERN.len() - 1]) {
            let read = Command::line(line.as_str());
            proptest::prop_assert!(matches!(read, Ok(_) | Err(CommandError::TooLong(_))), "{line}: {read:?}");
        }
    }

    #[test]
    fn a_command_that_cannot_be_run_is_rejected() {
        let check = |value: Value, error: CommandError| {
            assert_eq!(Command::from_json(&value), Err(error.clone()), "{value}");
            assert!(serde_json::from_value::<Command>(value.clone()).is_err(), "{value}");
        };
        check(json!(""), CommandError::Empty);
        check(json!(" \n"), CommandError::Empty);
        check(json!("# only a comment"), CommandError::Empty);
        check(json!([]), CommandError::Empty);
        check(json!("'' a"), CommandError::EmptyProgram);
        check(json!([""]), CommandError::EmptyProgram);
        check(json!("a\0b"), CommandError::Nul);
        check(json!(["a", "\0"]), CommandError::Nul);
        check(json!("a 'b"), CommandError::Unbalanced("a 'b".to_owned()));
        check(json!("a \\"), CommandError::Unbalanced("a \\".to_owned()));
        check(json!(7), CommandError::WrongKind("a number"));
        check(json!(["a", 7]), CommandError::WrongWord { place: 2, kind: "a number" });
        check(json!("a".repeat(4097)), CommandError::TooLong(4097));
        check(json!(vec!["a"; 2049]), CommandError::TooLong(4097));
        assert!(Command::from_json(&json!("a".repeat(4096))).is_ok());
        assert!(Command::from_json(&json!(vec!["aaa"; 1024])).is_ok());
    }

    #[test]
    fn shell_syntax_is_noticed_and_quoted_text_is_left_alone() {
        let check =
            |line: &str, found: Option<&str>| assert_eq!(shell_syntax(line).as_deref(), found, "{line}");
        check("ps ax | wc -l", Some("`|`"));
        check("a>b", Some("`>`"));
        check("a 2>/dev/null", Some("`2>`"));
        check("a && b", Some("`&&`"));
        check("a; b", Some("`;`"));
        check("a\nb", Some("a line break"));
        check("ls *.txt", Some("`*`"));
        check("echo $(date)", Some("`$(`"));
        check("echo \"$(date)\"", Some("`$(`"));
        check("echo `date`", Some("a backtick"));
        check("echo $HOME/x", Some("`$HOME`"));
        check("echo \"${HOME}\"", Some("`${HOME}`"));
        check("grep 'a|b' \"c;d\" e\\|f", None);
        check("awk '{print $1}' /proc/loadavg", None);
        check("echo \\$HOME costs 5$", None);
        check("echo \"\\$HOME\" 'it'\\''s' 12", None);
    }

    #[test]
    fn the_hint_gives_the_words_to_use() {
        let hint = Command::line("echo \"a\" | wc").unwrap().shell_hint().unwrap();
        assert!(hint.ends_with(r#"write ["sh","-c","echo \"a\" | wc"]"#), "{hint}");
        assert_eq!(
            Command::words(vec!["sh".into(), "-c".into(), "a | b".into()]).unwrap().shell_hint(),
            None
        );
    }

    #[test]
    fn the_wire_keeps_the_form() {
        for json in [r#""a 'b c'""#, r#"["a","b c"]"#] {
            let command: Command = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&command).unwrap(), json);
            assert_eq!(command.to_string(), "a 'b c'");
        }
    }
}

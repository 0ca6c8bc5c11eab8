//! The answer to a shell that asks for completions: commands, options, and the names that the services know.
//!
//! The names are asked for within 0.4 seconds. A service that is away, or that refuses, offers nothing and is not
//! complained about.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Command;
use clap_complete::engine::{self, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use estimand_cli::names::{self, ArgumentNames, Names};
use estimand_cli::{Remote, Session};

use crate::cli::groups;

/// The variable with which a shell asks: the shell's name is in it.
pub const VARIABLE: &str = "ESTIMAND_COMPLETE";
/// For all requests together; the shell waits.
const WITHIN: Duration = Duration::from_millis(400);

/// The shells that can ask.
pub const SHELLS: Shells<'static> = Shells(&[&BashOfWholeWords, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell that asks for completions, and ends the process; does nothing else.
pub fn answer_shell() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(|| with_candidates(groups::command(), &[]))
            .var(VARIABLE)
            .shells(SHELLS)
            .complete();
    }
}

/// Has the arguments that take names ask for them; `above` are the words of the command that this one belongs to.
fn with_candidates(command: Command, above: &[&str]) -> Command {
    let command = command.mut_args(|arg| match names::of_argument(above, &arg) {
        Some(ArgumentNames::Known(names) | ArgumentNames::Any(names)) => {
            arg.add(ArgValueCompleter::new(move |begun: &OsStr| candidates(names, begun)))
        }
        Some(ArgumentNames::New) | None => arg,
    });
    command.mut_subcommands(|inner| {
        let name = inner.get_name().to_owned();
        with_candidates(inner, &[above, &[&name]].concat())
    })
}

fn candidates(names: Names, begun: &OsStr) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str().map(str::to_owned) else { return Vec::new() };
    let remote = remote(&typed(std::env::args_os()));
    let (sender, receiver) = mpsc::sync_channel(1);
    let beginning = begun.clone();
    // A name server or a file may keep this thread for longer. It ends with the process, which ends after its answer.
    let asking = thread::Builder::new().name("candidates".to_owned()).spawn(move || {
        let _ = sender.send(ask(&remote, names, &beginning));
    });
    let found = asking.ok().and_then(|_| receiver.recv_timeout(WITHIN).ok()).flatten().unwrap_or_default();
    found.into_iter().filter(|name| name.starts_with(&begun)).map(CompletionCandidate::new).collect()
}

fn ask(remote: &Remote, names: Names, beginning: &str) -> Option<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let client = Session::quiet(remote).ok()?.client;
    runtime.block_on(names::known(&client, names, beginning)).ok()
}

/// The half-written command line, as the shell gives it behind `--`; words for a command that is run are none of it.
fn typed(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    words.skip_while(|word| word != "--").skip(1).take_while(|word| word != "--").collect()
}

/// The services that a command line names, and the files for TLS.
fn remote(words: &[OsString]) -> Remote {
    let words = whole_words(words, words.len()).0;
    let after = |name: &str| {
        let beside = words.iter().position(|word| word == OsStr::new(name)).and_then(|at| words.get(at + 1));
        let joined = words.iter().find_map(|word| word.to_str()?.strip_prefix(name)?.strip_prefix('='));
        beside.and_then(|word| word.to_str()).or(joined)
    };
    let server = after("--server").into_iter().flat_map(|list| list.split(',')).map(str::to_owned);
    Remote {
        server: server.collect(),
        authority: after("--authority").map(Into::into),
        certificate: after("--certificate").map(Into::into),
        json: false,
    }
}

/// Bash, which takes `--node=n1` and `http://host` apart at each `=` and `:`. They are put together again, and a candidate
/// then is the part of a word that bash asks for.
struct BashOfWholeWords;

impl EnvCompleter for BashOfWholeWords {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> Result<(), io::Error> {
        Bash.write_registration(var, name, bin, completer, buf)
    }

    fn write_complete(
        &self,
        cmd: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<(), io::Error> {
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        let separator = std::env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
        let (words, index) = whole_words(&args, index.unwrap_or_default());
        let whole = words.get(index).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let before = whole.rfind(is_break).map_or("", |last| &whole[..=last]);
        let found = engine::complete(cmd, words, index, current_dir)?;
        let found = found.iter().map(|one| {
            let value = one.get_value().to_string_lossy();
            value.strip_prefix(before).unwrap_or(&value).to_owned()
        });
        buf.write_all(found.collect::<Vec<_>>().join(&separator).as_bytes())
    }
}

fn is_break(letter: char) -> bool {
    matches!(letter, '=' | ':')
}

/// Words without the breaks of bash, and the place that the word at `index` has among them.
fn whole_words(words: &[OsString], index: usize) -> (Vec<OsString>, usize) {
    let is_break =
        |word: &OsString| word.to_str().is_some_and(|word| !word.is_empty() && word.chars().all(is_break));
    let mut whole: Vec<OsString> = Vec::with_capacity(words.len());
    let mut place = index;
    for (at, word) in words.iter().enumerate() {
        let continues = at > 0 && (is_break(word) || is_break(&words[at - 1]));
        match whole.last_mut().filter(|_| continues) {
            Some(last) => last.push(word),
            None => whole.push(word.clone()),
        }
        if at == index {
            place = whole.len() - 1;
        }
    }
    (whole, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], index: usize, expected: (&[&str], usize)) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let expected = (expected.0.iter().map(OsString::from).collect::<Vec<_>>(), expected.1);
        assert_eq!(whole_words(&words, index), expected);
    }

    #[test]
    fn words_that_bash_took_apart_are_whole_again() {
        check(&["estimand", "get", "a"], 2, (&["estimand", "get", "a"], 2));
        check(&["estimand", "--node", "=", "no"], 3, (&["estimand", "--node=no"], 1));
        check(
            &["estimand", "--server", "http", ":", "//127.0.0.1", ":", "1", "get", "z"],
            8,
            (&["estimand", "--server", "http://127.0.0.1:1", "get", "z"], 4),
        );
        check(&["estimand", "get", ""], 2, (&["estimand", "get", ""], 2));
        // Bash replaces the break itself by the empty word behind it.
        check(&["estimand", "--node", ""], 2, (&["estimand", "--node", ""], 2));
    }

    #[test]
    fn the_services_are_those_of_the_line_that_is_typed() {
        let of = |line: &str| {
            let words = ["estimand", "--", "estimand"].into_iter().chain(line.split(' ')).map(OsString::from);
            remote(&typed(words)).server
        };
        assert_eq!(of("--server http://a,http://b get x"), ["http://a", "http://b"]);
        assert_eq!(of("get x --server=http://a"), ["http://a"]);
        assert_eq!(of("get x --server = http : //a : 70 y"), ["http://a:70"]);
        assert_eq!(of("register x -- prog --server http://a"), [""; 0]);
    }
}

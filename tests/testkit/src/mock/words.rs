//! The words that the mock knows, what they are read as, and the help that lists them.

use std::time::Duration;

use rustix::process::Signal;

use super::units;

/// One thing to do.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Alone(String),
    Args,
    BinaryJunk,
    ClosePipes,
    Count(String),
    Daemonize,
    EatMemory(Option<u64>),
    Env(String),
    EnvAll,
    Exit(u8),
    FloodStderr(Option<u64>),
    FloodStdout(Option<u64>),
    ForkBomb,
    GrandchildKeepsPipe,
    Hang,
    Help,
    IgnoreTerm,
    Late(Duration, String),
    Mark,
    Orphan,
    Pid,
    Print(Vec<u8>),
    SetSid,
    Signal(Signal),
    Sleep(Duration),
    Slow(String, Duration),
    Stderr(String),
    Stdin,
    Stream(Duration),
    StreamAsked,
    StreamDieAfter(u64, Duration),
    WorkingFolder,
}

/// Each word as it is written, and what it does. In the order of the help.
const WORDS: &[(&str, &str)] = &[
    ("print:TEXT", "prints TEXT and a newline"),
    ("stderr:TEXT", "the same on stderr"),
    ("slow:TEXT:PAUSE", "prints TEXT and a newline a byte at a time, with PAUSE after each"),
    ("late:PAUSE:TEXT", "prints TEXT after PAUSE"),
    ("sleep:PAUSE", "does nothing for PAUSE"),
    ("hang", "does nothing for ever"),
    ("exit:CODE", "ends with CODE"),
    ("signal:NAME", "sends itself a signal, SEGV or KILL for instance"),
    ("ignore-term", "ignores SIGTERM from here on, and so does all that it starts"),
    ("close-pipes", "closes stdout and stderr, and goes on"),
    ("flood-stdout[:SIZE]", "prints SIZE bytes, or without end"),
    ("flood-stderr[:SIZE]", "the same on stderr"),
    ("binary-junk", "prints 4 KiB of bytes that mean nothing"),
    ("nul", "prints a NUL byte between two letters"),
    ("invalid-utf8", "prints a word in Latin-1"),
    ("two-documents", "prints two JSON documents"),
    ("trailing-junk", "prints a JSON document and more after it"),
    ("grandchild-keeps-pipe", "leaves a child that keeps stdout and stderr open and hangs; goes on"),
    ("daemonize", "leaves a daemon in a session of its own, without pipes or parent, that hangs; goes on"),
    ("setsid", "moves to a session of its own; fails if it leads a process group"),
    ("orphan", "leaves a child without pipes that hangs; goes on"),
    ("fork-bomb", "starts copies of itself that do so too, without end"),
    ("eat-memory[:SIZE]", "takes SIZE bytes of memory and keeps them, or takes more without end"),
    ("stream:PAUSE", "prints 1, 2, 3 and so on, a line each, with PAUSE after each, for ever"),
    ("stream-asked", "prints 1, 2, 3 and so on, a line for each line on stdin, until that ends"),
    ("stream-die-after:COUNT:PAUSE", "prints COUNT such lines, and ends with 1"),
    ("args", "prints its arguments as a JSON array; after a word -- they are no words"),
    ("env", "prints its environment as a JSON object"),
    ("env:NAME", "prints a variable; fails if it is not set"),
    ("pid", "prints its process id"),
    ("cwd", "prints its working directory"),
    ("stdin", "prints all that it can read from stdin"),
    ("count:FILE", "prints the number of this run, which is kept in FILE"),
    ("alone:FILE", "locks FILE until it and its children are gone; a line in FILE.twice if that is taken"),
    ("mark:TOKEN", "nothing: TOKEN is for finding it and its children in the process table"),
    ("help", "prints this"),
];

const SIGNALS: [(&str, Signal); 11] = [
    ("ABRT", Signal::ABORT),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("HUP", Signal::HUP),
    ("ILL", Signal::ILL),
    ("INT", Signal::INT),
    ("KILL", Signal::KILL),
    ("QUIT", Signal::QUIT),
    ("SEGV", Signal::SEGV),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
];

pub(super) fn parse(word: &str) -> Result<Act, String> {
    let (name, rest) = match word.split_once(':') {
        Some((name, rest)) => (name, Some(rest)),
        None => (word, None),
    };
    let act = match rest {
        None => bare(name),
        Some(rest) => with(name, rest).map_err(|why| format!("{word:?}: {why}"))?,
    };
    act.ok_or_else(|| format!("{word:?} is none of the words known here"))
}

pub(super) fn help() -> String {
    let width = WORDS.iter().map(|(form, _)| form.len()).max().unwrap_or(0);
    let lines: Vec<_> = WORDS.iter().map(|(form, does)| format!("  {form:width$}  {does}\n")).collect();
    format!(
        "mock WORD… does what the words say, in their order, and ends with 0:\n{}\
         PAUSE is like 50ms or 2s, SIZE like 500, 64KiB or 10MiB.\n",
        lines.concat()
    )
}

fn bare(name: &str) -> Option<Act> {
    Some(match name {
        "args" => Act::Args,
        "binary-junk" => Act::BinaryJunk,
        "close-pipes" => Act::ClosePipes,
        "cwd" => Act::WorkingFolder,
        "daemonize" => Act::Daemonize,
        "eat-memory" => Act::EatMemory(None),
        "env" => Act::EnvAll,
        "flood-stderr" => Act::FloodStderr(None),
        "flood-stdout" => Act::FloodStdout(None),
        "fork-bomb" => Act::ForkBomb,
        "grandchild-keeps-pipe" => Act::GrandchildKeepsPipe,
        "hang" => Act::Hang,
        "help" => Act::Help,
        "ignore-term" => Act::IgnoreTerm,
        "invalid-utf8" => Act::Print(b"caf\xe9\n".to_vec()),
        "nul" => Act::Print(b"a\0b\n".to_vec()),
        "orphan" => Act::Orphan,
        "pid" => Act::Pid,
        "setsid" => Act::SetSid,
        "stdin" => Act::Stdin,
        "stream-asked" => Act::StreamAsked,
        "trailing-junk" => Act::Print(b"{\"a\":1} and more\n".to_vec()),
        "two-documents" => Act::Print(b"{\"a\":1}\n{\"b\":2}\n".to_vec()),
        _ => return None,
    })
}

fn with(name: &str, rest: &str) -> Result<Option<Act>, String> {
    Ok(Some(match name {
        "alone" => Act::Alone(rest.to_owned()),
        "count" => Act::Count(rest.to_owned()),
        "eat-memory" => Act::EatMemory(Some(units::bytes(rest)?)),
        "env" => Act::Env(rest.to_owned()),
        "exit" => Act::Exit(rest.parse().map_err(|_| "a code is 0 to 255")?),
        "flood-stderr" => Act::FloodStderr(Some(units::bytes(rest)?)),
        "flood-stdout" => Act::FloodStdout(Some(units::bytes(rest)?)),
        "late" => {
            let (pause, text) = rest.split_once(':').ok_or("a text is missing")?;
            Act::Late(units::duration(pause)?, text.to_owned())
        }
        "mark" => Act::Mark,
        "print" => Act::Print(format!("{rest}\n").into_bytes()),
        "signal" => Act::Signal(signal(rest)?),
        "sleep" => Act::Sleep(units::duration(rest)?),
        "slow" => {
            let (text, pause) = rest.rsplit_once(':').ok_or("a pause is missing")?;
            Act::Slow(text.to_owned(), units::duration(pause)?)
        }
        "stderr" => Act::Stderr(rest.to_owned()),
        "stream" => Act::Stream(units::duration(rest)?),
        "stream-die-after" => {
            let (count, pause) = rest.split_once(':').ok_or("a pause is missing")?;
            Act::StreamDieAfter(count.parse().map_err(|_| "a count is missing")?, units::duration(pause)?)
        }
        _ => return Ok(None),
    }))
}

fn signal(name: &str) -> Result<Signal, String> {
    let known = SIGNALS.iter().find(|(known, _)| *known == name);
    known.map(|(_, signal)| *signal).ok_or_else(|| {
        let names: Vec<_> = SIGNALS.iter().map(|(name, _)| *name).collect();
        format!("known signals are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help is written by hand: each form in it, with something in the places of its capitals, is a word.
    #[test]
    fn the_help_lists_what_is_understood() {
        let filled = |form: &str| {
            let something = [("PAUSE", "1ms"), ("SIZE", "1KiB"), ("CODE", "3"), ("COUNT", "3")];
            let form =
                something.iter().fold(form.to_owned(), |form, (place, with)| form.replace(place, with));
            form.replace("signal:NAME", "signal:SEGV")
        };
        for (form, _) in WORDS {
            let (short, option) = form.split_once('[').unwrap_or((form, ""));
            assert!(parse(&filled(short)).is_ok(), "{form}");
            assert!(parse(&filled(&format!("{short}{}", option.trim_end_matches(']')))).is_ok(), "{form}");
        }
    }

    #[test]
    fn texts_keep_their_colons() {
        assert_eq!(parse("print:a:b"), Ok(Act::Print(b"a:b\n".to_vec())));
        assert_eq!(parse("slow:a:b:5ms"), Ok(Act::Slow("a:b".into(), Duration::from_millis(5))));
        assert_eq!(parse("late:5ms:a:b"), Ok(Act::Late(Duration::from_millis(5), "a:b".into())));
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(parse("hang:5").is_err_and(|why| why.contains("none of the words")));
        assert!(parse("exit:256").is_err_and(|why| why.contains("0 to 255")));
        assert!(parse("signal:FOO").is_err_and(|why| why.contains("SEGV")));
    }
}

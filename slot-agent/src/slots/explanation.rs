//! The line of what a program wrote that explains its failure.
//!
//! It is often not the last one: languages print the calls that led there, shells repeat the line that they could not
//! read, and many programs end with how they want to be called. A line that begins with white space goes on with the one
//! before. If nothing else is left, the last line with a letter has to do.

/// From these lines on, calls and surroundings are listed.
const LISTS: [&str; 5] =
    ["stack traceback:", "Stack trace:", "Require stack:", "while executing", "stack backtrace:"];
/// The beginnings of lines that repeat or follow from what stands above them.
const REPEATS: [&str; 22] = [
    "BEGIN failed--",
    "Compilation failed in require",
    "Node.js v",
    "Execution halted",
    "Calls: ",
    "note: run with `RUST_BACKTRACE",
    "exit status ",
    "make: *** [",
    "tar: Error is not recoverable",
    "tar: Exiting with failure status",
    "Aborted",
    "Try '",
    "Try `",
    "Try \"",
    "Try --help",
    "For more information, try",
    "For more information try",
    "See '",
    "Type '",
    "Use --help",
    "Run '",
    "+ ",
];
/// An error that the compiler of Perl found; others may follow from the first.
const PERL_GAVE_UP: [&str; 2] = ["aborted due to compilation errors", "had compilation errors"];

/// The line that explains most, if there is any with a letter in it.
pub fn explanation(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let found = python(&lines)
        .or_else(|| rust(&lines))
        .or_else(|| go(&lines))
        .or_else(|| cplusplus(&lines))
        .or_else(|| perl(&lines))
        .or_else(|| general(&lines));
    let found = found.filter(|line| is_telling(line));
    found.or_else(|| lines.iter().rfind(|line| is_telling(line)).copied()).map(str::trim)
}

/// The exception stands below the last traceback, whose own lines are indented.
fn python<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let traceback = lines.iter().rposition(|line| line.starts_with("Traceback (most recent call last)"))?;
    lines[traceback + 1..].iter().find(|line| !is_continuation(line)).copied()
}

/// The message stands below the line that says where it panicked, or in it.
fn rust<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let place =
        lines.iter().position(|line| line.starts_with("thread '") && line.contains("panicked at "))?;
    match lines[place].ends_with(':') {
        true => lines.get(place + 1).copied(),
        false => Some(lines[place]),
    }
}

fn go<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let goroutine = lines.iter().position(|line| line.starts_with("goroutine ") && line.ends_with("]:"))?;
    let begins = |line: &&&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
    lines[..goroutine].iter().find(begins).copied()
}

fn cplusplus<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let thrown = lines.iter().position(|line| line.starts_with("terminate called after throwing"))?;
    let what = lines.get(thrown + 1).filter(|line| line.trim_start().starts_with("what():"));
    what.or(lines.get(thrown)).copied()
}

fn perl<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let end = lines.iter().position(|line| PERL_GAVE_UP.iter().any(|part| line.contains(part)))?;
    lines[..end].first().copied()
}

/// The last line that is not about how to call the program, repeats nothing and goes on with no other.
fn general<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let listed = lines.iter().position(|line| LISTS.contains(&line.trim_start()));
    let lines = &lines[..listed.unwrap_or(lines.len())];
    let usage = lines.iter().position(|line| is_usage(line));
    let Some(usage) = usage else { return last_of(lines) };
    let says_error = |line: &&&str| !is_continuation(line) && line.to_ascii_lowercase().contains("error");
    last_of(&lines[..usage])
        .or_else(|| lines[usage + 1..].iter().find(says_error).copied())
        .or(Some(lines[usage]))
}

fn last_of<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let explains = |line: &&&str| !is_continuation(line) && !is_repeated(line) && is_telling(line);
    lines.iter().rfind(explains).copied()
}

/// A brace, a rule or a lone number says nothing.
fn is_telling(line: &str) -> bool {
    line.chars().any(char::is_alphabetic)
}

fn is_continuation(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

fn is_usage(line: &str) -> bool {
    line.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("usage:"))
}

fn is_repeated(line: &str) -> bool {
    REPEATS.iter().any(|beginning| line.starts_with(beginning)) || is_echo_of_shell(line)
}

/// `x.sh: line 2: `fi fi'`: the line itself, below what is wrong with it.
fn is_echo_of_shell(line: &str) -> bool {
    let rest = line.split_once(": line ").and_then(|(_, rest)| rest.split_once(": "));
    rest.is_some_and(|(number, echo)| {
        number.bytes().all(|byte| byte.is_ascii_digit()) && echo.starts_with('`') && echo.ends_with('\'')
    })
}

#[cfg(test)]
mod tests;

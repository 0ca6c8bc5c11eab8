//! An executable that does as it is told, nasty things above all: what an agent has to live with.
//!
//! Its arguments are words, done in order: `mock ignore-term print:42 hang` can't be ended by SIGTERM,
//! prints 42 and stays. `mock help` lists the words. Each package whose tests need it makes an example
//! program of [`main`] in three lines, which cargo builds beside the tests and [`path`] finds.
//! A process that a word leaves running is the same program again, with the marks of the first among its
//! arguments: see [`processes`](crate::processes). A mock that is told something wrong does nothing at all.

mod acts;
mod emit;
mod offspring;
mod tally;
mod units;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, io};

use acts::{Mock, Next};
use words::Act;

/// As the shell's own programs have it for a wrong command line.
const EXIT_USAGE: u8 = 64;
/// A word could not be carried out, for instance because nobody reads its output any more.
const EXIT_FAILED: u8 = 74;

/// The whole program: does what its arguments say.
pub fn main() -> ExitCode {
    let given: Vec<String> = env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (program, args) = given.split_first().map_or(("mock", &[][..]), |(program, args)| (program, args));
    let (told, _) = args.split_at(args.iter().position(|arg| arg == "--").unwrap_or(args.len()));
    let acts = match told.iter().map(|word| words::parse(word)).collect::<Result<Vec<Act>, String>>() {
        Ok(acts) => acts,
        Err(wrong) => {
            emit::to_stderr(format!("{wrong}\n{}", words::help()).as_bytes());
            return EXIT_USAGE.into();
        }
    };
    let mut mock = Mock::new(program, args);
    for (at, act) in acts.iter().enumerate() {
        match mock.perform(act, &args[at + 1..]) {
            Ok(Next::GoOn) => {}
            Ok(Next::Exit(code)) => return code.into(),
            Err(error) => {
                emit::to_stderr(format!("{}: {error}\n", told[at]).as_bytes());
                return EXIT_FAILED.into();
            }
        }
    }
    ExitCode::SUCCESS
}

/// The example program `mock` of the package under test.
#[track_caller]
pub fn path() -> PathBuf {
    path_of("mock")
}

/// The example program `name` of the package under test, for packages that call theirs otherwise: examples
/// of the same name in several packages of a workspace overwrite each other.
#[track_caller]
pub fn path_of(name: &str) -> PathBuf {
    match env::current_exe().and_then(|own| beside(&own, name)) {
        Ok(path) => path,
        Err(error) => panic!(
            "no example program {name:?} beside this test: {error}. `cargo test` makes it if the package has \
             examples/{name}.rs; with `--test`, `--lib` or `--bin`, add `--example {name}` or `cargo build --examples` first"
        ),
    }
}

/// The example program of the package of the binary under test.
#[track_caller]
pub fn of_estimand() -> PathBuf {
    path_of("estimand-mock")
}

/// Tests are in `target/PROFILE/deps`, programs in `target/PROFILE`.
fn beside(own: &Path, name: &str) -> io::Result<PathBuf> {
    let folders = own.ancestors().skip(1).take(2);
    let candidates: Vec<_> = folders.map(|folder| folder.join("examples").join(name)).collect();
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        io::Error::other(format!("looked for {}", looked.join(" and ")))
    })
}

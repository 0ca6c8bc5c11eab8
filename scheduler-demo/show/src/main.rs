//! The show as a program: reads its command line and runs it. With a hidden first argument it is the host of an emulated
//! node.

use std::env;
use std::io::{IsTerminal as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use arguments::ShowArgs;
use clap::Parser;
use terminal_size::{Width, terminal_size_of};

mod arguments;

const PROGRAM: &str = "estimand";

fn main() -> ExitCode {
    if env::args_os().nth(1).is_some_and(|word| word == estimand_show::HOST) {
        return estimand_show::serve(env::args_os().skip(2));
    }
    // The HTTP client is built without a provider for TLS. This fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match show(ShowArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn show(args: ShowArgs) -> anyhow::Result<()> {
    let program = program(args.program.as_ref())?;
    let width = || terminal_size_of(stderr()).map_or(80, |(Width(width), _)| usize::from(width));
    let terminal = stderr().is_terminal().then(width);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let shown = runtime.block_on(Box::pin(estimand_show::show(args.options(program, terminal))));
    runtime.shutdown_background();
    Ok(shown?)
}

/// The one binary that services and agents are started from.
fn program(given: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return path.canonicalize().with_context(|| path.display().to_string());
    }
    let own = env::current_exe().context("the file of this program")?;
    let beside = own.parent().map(|folder| folder.join(PROGRAM));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    let found = beside.into_iter().chain(on_path).find(|path| path.is_file());
    found.context(
        "there is no `estimand` beside this program or on PATH; `./run-demo` builds it, and --program names another",
    )
}

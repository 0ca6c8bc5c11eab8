//! The show as a program: parses its command line and runs it. With a hidden first argument it is the host of an emulated
//! node.

use std::env;
use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;

use arguments::ShowArgs;
use clap::Parser;
use terminal_size::{Width, terminal_size_of};

mod arguments;

/// Width of a terminal that does not report its own.
const USUAL_WIDTH: usize = 80;

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
    let width = || terminal_size_of(stderr()).map_or(USUAL_WIDTH, |(Width(width), _)| usize::from(width));
    let terminal = stderr().is_terminal().then(width);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let shown = runtime.block_on(Box::pin(estimand_show::show(args.options(terminal))));
    runtime.shutdown_background();
    Ok(shown?)
}

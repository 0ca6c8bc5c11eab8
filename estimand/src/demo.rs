//! The demo, as it is started from the command line.

use std::io::{IsTerminal as _, stderr};

use anyhow::Context;
use terminal_size::{Width, terminal_size_of};

use crate::cli::demo::DemoArgs;

pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program's own file")?;
    let width = || terminal_size_of(stderr()).map_or(80, |(Width(width), _)| usize::from(width));
    let terminal = stderr().is_terminal().then(width);
    Ok(estimand_demo::demo(args.options(program, terminal)).await?)
}

//! The manual pages: one for the program and one for each command, made from the command line's own definition.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::cli::{ManArgs, groups};
use estimand_cli::Failure;
use estimand_cli::output::Output;

pub fn write(args: &ManArgs) -> Result<(), Failure> {
    let wrong = |source: io::Error| Failure::Write { name: args.dir.display().to_string(), source };
    std::fs::create_dir_all(&args.dir).map_err(wrong)?;
    let mut command = groups::command().disable_help_subcommand(true).after_help(groups::AFTER_COMMANDS);
    // Names each page as its command is called: estimand-nodes-cordon.
    command.build();
    let count = write_all(&command, &args.dir).map_err(wrong)?;
    let mut out = Output::new(args.json);
    match args.json {
        true => out.pretty(&serde_json::json!({ "dir": args.dir, "pages": count }))?,
        false => out.line(&format!("wrote {count} pages to {}", args.dir.display()))?,
    }
    Ok(out.flush()?)
}

fn write_all(command: &Command, dir: &Path) -> io::Result<usize> {
    let mut count = 1;
    for inner in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        count += write_all(inner, dir)?;
    }
    let page =
        Man::new(command.clone()).manual("Estimand").source(concat!("estimand ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(dir.join(page.get_filename()), in_ascii(&String::from_utf8_lossy(&text)))?;
    Ok(count)
}

/// The text with groff's names for other characters: without them a page depends on how its reader takes its bytes.
fn in_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii() {
            true => ascii.push(letter),
            false => ascii.push_str(&format!("\\[u{:04X}]", u32::from(letter))),
        }
    }
    ascii
}

//! Runs the programs of `iproute2`, which must be there and must succeed.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

/// Has `ip` do what `lines` say, one after the other, in `namespace` if one is given.
#[track_caller]
pub(super) fn ip_batch(namespace: Option<&str>, lines: &str) {
    let mut args: Vec<_> = namespace.into_iter().flat_map(|namespace| ["-netns", namespace]).collect();
    args.extend(["-batch", "-"]);
    let output = try_run("ip", &args, lines).unwrap_or_else(|error| missing("ip", &error));
    accepted("ip", lines, &output);
}

#[track_caller]
pub(super) fn bridge(args: &[&str]) {
    let output = try_run("bridge", args, "").unwrap_or_else(|error| missing("bridge", &error));
    accepted("bridge", &args.join(" "), &output);
}

pub(super) fn try_run(program: &str, args: &[&str], input: &str) -> io::Result<Output> {
    let piped = || Stdio::piped();
    let mut child =
        Command::new(program).args(args).stdin(piped()).stdout(piped()).stderr(piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that fails early doesn't read on; its exit status says so.
        let _ = pipe.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

#[track_caller]
fn accepted(program: &str, asked: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} ({}): {said}\nwas told: {asked}", output.status);
}

#[track_caller]
fn missing(program: &str, error: &io::Error) -> ! {
    panic!("this test needs {program} ({error}): apt-get install iproute2")
}

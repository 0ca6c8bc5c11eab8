//! Names of namespaces and interfaces, and the removal of those whose test process is gone.
//!
//! A name is `ek`, the process id in hexadecimal, a letter for what it is (`s` the test process's end of a
//! cable, `v` an end at the bridge, `n` a namespace), and a number: the kernel allows an interface 15 bytes. What carries a process id that
//! somebody else has by now stays until that one has ended too.

use std::path::Path;
use std::{fs, process};

use super::commands::try_run;

const PREFIX: &str = "ek";
const NAMESPACES: &str = "/run/netns";

pub(super) fn name(kind: char, number: u32) -> String {
    let name = format!("{PREFIX}{:x}{kind}{number:x}", process::id());
    assert!(name.len() <= 15, "{name} is too long for an interface");
    name
}

/// Removes what was made by test processes that are gone. Several may do so at once.
pub(super) fn remove() {
    for namespace in names_in(NAMESPACES).iter().filter(|name| is_orphaned(name)) {
        delete(&["netns", "delete", namespace]);
    }
    for interface in interfaces().iter().filter(|name| is_orphaned(name)) {
        delete(&["link", "delete", interface]);
    }
}

/// Deletes what may be gone already.
pub(super) fn delete(args: &[&str]) {
    let _ = try_run("ip", args, "");
}

fn is_orphaned(name: &str) -> bool {
    owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?;
    let letter = rest.find(|c: char| !c.is_ascii_hexdigit())?;
    rest[letter..].starts_with(['n', 's', 'v']).then(|| u32::from_str_radix(&rest[..letter], 16).ok())?
}

fn interfaces() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    table.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

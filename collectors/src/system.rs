//! `system`: the machine, the time since its boot, and its temperatures.
//!
//! From `/proc` and `os-release`; temperatures through `sysinfo`. A missing fact is null, since none of them is
//! needed for the others.

use std::time::Instant;

use serde_json::{Value, json};

use crate::hardware::Sensors;
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Params, Reading, Roots, Surroundings, figures,
    files,
};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "system",
    about: "kernel, operating system, name, boot, time since then, open files and temperatures",
    params: &[],
    default: Some(DefaultRegistration { every: 15.0, once: false }),
    make,
};

fn make(_: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    Ok(Box::new(System { roots: around.roots.clone(), sensors: Sensors::new() }))
}

struct System {
    roots: Roots,
    sensors: Sensors,
}

impl Collector for System {
    fn collect(&mut self, _: Instant) -> Result<Reading, Failure> {
        let proc = |name: &str| files::optional(&self.roots.proc.join(name)).filter(|text| !text.is_empty());
        let kernel = proc("sys/kernel/osrelease");
        let uptime = proc("uptime").and_then(|text| parse_uptime(&text));
        if kernel.is_none() && uptime.is_none() {
            let proc = self.roots.proc.display();
            return Err(Failure::NotHere(format!("{proc} has neither the kernel's version nor its uptime")));
        }
        let (open_files, open_files_max) =
            proc("sys/fs/file-nr").map_or((None, None), |text| parse_files(&text));
        let celsius = self.sensors.celsius().into_iter();
        let celsius = celsius.map(|(label, celsius)| (label, figures::rate(Some(celsius))));
        Ok(Reading::Here(json!({
            "hostname": proc("sys/kernel/hostname"),
            "bootId": proc("sys/kernel/random/boot_id"),
            "uptimeSeconds": uptime,
            "kernel": kernel,
            // From 6.1 on; before, what this program was built for is as good as always the same.
            "architecture": proc("sys/kernel/arch").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            "os": operating_system(&self.roots),
            "openFiles": open_files,
            "openFilesMax": open_files_max,
            "temperaturesCelsius": celsius.collect::<serde_json::Map<_, _>>(),
        })))
    }
}

/// `name`, `id` and `version` of the distribution.
fn operating_system(roots: &Roots) -> Value {
    let text = files::optional(&roots.etc.join("os-release"))
        .or_else(|| files::optional(&roots.root.join("usr/lib/os-release")))
        .unwrap_or_default();
    let field = |name: &str| text.lines().rev().find_map(|line| assigned(line, name));
    json!({
        "name": field("PRETTY_NAME").or_else(|| field("NAME")),
        "id": field("ID"),
        "version": field("VERSION_ID"),
    })
}

/// The value that a line assigns to a name, as a shell would read it; none if it is another's line.
fn assigned(line: &str, name: &str) -> Option<String> {
    let text = line.trim().strip_prefix(name)?.strip_prefix('=')?;
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    let inner = quote.and_then(|quote| text.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(text);
    if quote == Some('\'') {
        return Some(inner.to_owned());
    }
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    Some(plain)
}

fn parse_uptime(text: &str) -> Option<f64> {
    let uptime: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (uptime.is_finite() && uptime >= 0.0).then_some(uptime)
}

/// Those that are open, and the most that may be: of three numbers the first and the last.
fn parse_files(text: &str) -> (Option<u64>, Option<u64>) {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    (numbers.next().flatten(), numbers.nth(1).flatten())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;
    use std::fs;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_machine_describes_itself() {
        let machine = tempfile::tempdir().unwrap();
        let path = machine.path();
        for (name, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-18-arm64\n"),
            ("proc/sys/kernel/hostname", "node-7\n"),
            ("proc/sys/kernel/random/boot_id", "84a1e9ae-8a5b-4bc0-a116-437e30941fab\n"),
            ("proc/sys/kernel/arch", "aarch64\n"),
            ("proc/sys/fs/file-nr", "729\t0\t9223372036854775807\n"),
            ("proc/uptime", "350735.47 234388.90\n"),
            ("usr/lib/os-release", "NAME=\"Debian\"\nID=debian\n"),
        ] {
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            fs::write(path.join(name), text).unwrap();
        }
        let roots = Roots {
            proc: path.join("proc"),
            sys: path.join("sys"),
            etc: path.join("etc"),
            root: path.into(),
        };
        let mut system =
            crate::make(&KIND, &BTreeMap::new(), &Surroundings { roots, ..Surroundings::default() }).unwrap();
        let Reading::Here(mut value) = system.collect(Instant::now() + Duration::from_secs(5)).unwrap()
        else {
            panic!()
        };
        value.as_object_mut().unwrap().remove("temperaturesCelsius");
        let expected = json!({
            "hostname": "node-7",
            "bootId": "84a1e9ae-8a5b-4bc0-a116-437e30941fab",
            "uptimeSeconds": 350735.47,
            "kernel": "6.1.0-18-arm64",
            "architecture": "aarch64",
            "os": {"name": "Debian", "id": "debian", "version": null},
            "openFiles": 729,
            "openFilesMax": i64::MAX,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn assignments_are_read_as_a_shell_would() {
        let cases = [
            ("NAME=Debian", Some("Debian")),
            ("NAME=\"Debian \\\"12\\\"\"", Some("Debian \"12\"")),
            ("NAME='a\\b'", Some("a\\b")),
            ("NAME=", Some("")),
            ("NAME=\"", Some("\"")),
            ("NAME_X=1", None),
            ("# NAME=1", None),
        ];
        for (line, expected) in cases {
            assert_eq!(assigned(line, "NAME").as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_truncated_figure_is_null() {
        assert_eq!(parse_files("729"), (Some(729), None));
        assert_eq!(parse_files(""), (None, None));
        for text in ["", "x", "NaN 1", "inf", "-1 2"] {
            assert_eq!(parse_uptime(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,40}", value in "NAME=[\"'\\\\a-z ]{0,9}") {
            parse_uptime(&text);
            parse_files(&text);
            assigned(&text, "");
            assigned(&value, "NAME");
        }
    }
}

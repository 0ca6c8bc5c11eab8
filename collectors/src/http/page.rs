//! A body in one of the formats that executables print, such as the page that a Prometheus scrapes.

use std::borrow::Cow;

use estimand_dialects::{Answer, Dialect, Output};
use serde_json::Value;

use crate::Params;

/// Those in which a body is one value; the others are about exit codes, other nodes or streams.
const FORMATS: [&str; 4] = ["prometheus", "influx", "csv", "logfmt"];

/// The way to read a body.
pub(super) struct Page {
    dialect: &'static dyn Dialect,
    /// Only samples whose names begin with one of these; all, if there is none.
    prefixes: Vec<String>,
}

impl Page {
    /// None if the parameters name no format.
    pub(super) fn of(params: &Params) -> Result<Option<Page>, String> {
        let (format, prefix) = (params.text("format"), params.text("prefix"));
        if prefix.is_some() && format.as_deref() != Some("prometheus") {
            return Err("the parameter `prefix` needs `format` to be `prometheus`".to_owned());
        }
        let Some(format) = format else { return Ok(None) };
        let mut known = estimand_dialects::ALL.iter().filter(|kind| FORMATS.contains(&kind.name));
        let found = known.find(|kind| kind.name == format).ok_or_else(|| {
            format!("the parameter `format` is `{format}`; expected one of {}", FORMATS.join(", "))
        })?;
        let prefixes = prefix.iter().flat_map(|prefix| prefix.split(',')).map(|one| one.trim().to_owned());
        let prefixes = prefixes.filter(|one| !one.is_empty()).collect();
        Ok(Some(Page { dialect: found.dialect, prefixes }))
    }

    /// The value of a body, and a sentence about the records of it that are left out.
    pub(super) fn read(&self, body: &[u8]) -> Result<(Value, Option<String>), String> {
        let kept = self.kept(body);
        let reading = self.dialect.read(Output { stdout: &kept, exit: 0 })?;
        let Answer::One(text) = reading.answer else {
            let of = if self.prefixes.is_empty() { "" } else { ": none of its samples begins with `prefix`" };
            return Err(format!("nothing of the body is a value{of}"));
        };
        let value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        Ok((value, reading.rejected.sentence()))
    }

    /// The lines of a Prometheus page that are about the samples that are taken.
    fn kept<'b>(&self, body: &'b [u8]) -> Cow<'b, [u8]> {
        if self.prefixes.is_empty() {
            return Cow::Borrowed(body);
        }
        let is_taken = |line: &&[u8]| {
            let about = about(line);
            line.starts_with(b"# EOF")
                || self.prefixes.iter().any(|prefix| about.starts_with(prefix.as_bytes()))
        };
        let mut kept = Vec::new();
        for line in body.split_inclusive(|byte| *byte == b'\n').filter(is_taken) {
            kept.extend_from_slice(line);
        }
        Cow::Owned(kept)
    }
}

/// The line from the name of the sample or family on that it is about.
fn about(line: &[u8]) -> &[u8] {
    let described = [&b"# HELP "[..], b"# TYPE ", b"# UNIT "];
    described.iter().find_map(|word| line.strip_prefix(*word)).unwrap_or(line)
}

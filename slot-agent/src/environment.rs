//! The environment that an executable finds. Nothing of the agent's own gets into it.
//!
//! `PATH`, `LANG`, `HOME` and `TMPDIR` (the slot's own folder), `USER` and `LOGNAME` (if it runs as another user than
//! the agent), and then
//! `ESTIMAND_SERVER` (where values are read), `ESTIMAND_NODE`, `ESTIMAND_DATA_NAME`, `ESTIMAND_VERSION`,
//! `ESTIMAND_INTERVAL` (seconds; absent for a calendar), `ESTIMAND_DEADLINE` (seconds since 1970; absent for a
//! stream), `ESTIMAND_INPUTS` (with commas) and `ESTIMAND_PARAM_*`; last what the registration gives.

use std::path::Path;

use estimand_api::names::NodeName;
use estimand_api::registration::{RegistrationRecord, Timing};
use serde_json::Value;

use crate::allow::SEARCH_PATH;

/// The other sources of the environment, besides the registration.
pub struct Surroundings<'a> {
    pub server: &'a str,
    pub node: &'a NodeName,
    pub folder: &'a Path,
    /// The name of the user that it runs as, if that is chosen and has a name.
    pub user: Option<&'a str>,
    /// Microseconds since 1970.
    pub deadline: Option<i64>,
}

pub fn variables(registered: &RegistrationRecord, around: &Surroundings<'_>) -> Vec<(String, String)> {
    let registration = &registered.registration;
    let folder = around.folder.display().to_string();
    let mut out: Vec<(String, String)> = Vec::with_capacity(16);
    let mut put = |name: &str, value: String| {
        out.retain(|(known, _)| known != name);
        out.push((name.to_owned(), value));
    };
    put("PATH", SEARCH_PATH.to_owned());
    put("LANG", "C.UTF-8".to_owned());
    put("HOME", folder.clone());
    put("TMPDIR", folder);
    for name in ["USER", "LOGNAME"] {
        around.user.into_iter().for_each(|user| put(name, user.to_owned()));
    }
    put("ESTIMAND_SERVER", around.server.trim_end_matches('/').to_owned());
    put("ESTIMAND_NODE", around.node.to_string());
    put("ESTIMAND_DATA_NAME", registration.data_name.to_string());
    put("ESTIMAND_VERSION", registered.version.to_string());
    if let Timing::Every(span) | Timing::Gap(span) = registration.timing {
        put("ESTIMAND_INTERVAL", seconds(span.as_micros()));
    }
    if let Some(deadline) = around.deadline {
        put("ESTIMAND_DEADLINE", seconds(u64::try_from(deadline).unwrap_or(0)));
    }
    if !registration.inputs.is_empty() {
        let inputs: Vec<&str> = registration.inputs.iter().map(|name| name.as_str()).collect();
        put("ESTIMAND_INPUTS", inputs.join(","));
    }
    for (name, value) in &registration.params {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        put(&format!("ESTIMAND_PARAM_{}", name.to_ascii_uppercase()), text);
    }
    for (name, value) in &registration.env {
        put(name, value.clone());
    }
    out
}

/// Seconds with as many digits as they need.
fn seconds(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    match rest {
        0 => whole.to_string(),
        _ => format!("{whole}.{rest:06}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use chrono::{DateTime, Utc};
    use estimand_api::registration::Registration;

    use super::*;

    #[test]
    fn it_is_what_is_documented_and_nothing_else() {
        let body = br#"{"dataName":"cpu","cmd":"x","max-Time":0.5,"kind":"processor","inputs":["a","b"],
            "params":{"window":7,"Path":"/x y","on":true},"env":{"LANG":"de","EXTRA":"1"}}"#;
        let registration = Registration::parse(body).unwrap().registration;
        let at = DateTime::<Utc>::default();
        let registered = RegistrationRecord { registration, version: 3, created_at: at, updated_at: at };
        let around = Surroundings {
            server: "http://h:1/",
            node: &NodeName::parse("n1").unwrap(),
            folder: Path::new("/data/slots/cpu"),
            user: Some("nobody"),
            deadline: Some(1_700_000_000_250_000),
        };
        let mut shown: Vec<String> = variables(&registered, &around)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "ESTIMAND_DATA_NAME=cpu",
                "ESTIMAND_DEADLINE=1700000000.25",
                "ESTIMAND_INPUTS=a,b",
                "ESTIMAND_INTERVAL=0.5",
                "ESTIMAND_NODE=n1",
                "ESTIMAND_PARAM_ON=true",
                "ESTIMAND_PARAM_PATH=/x y",
                "ESTIMAND_PARAM_WINDOW=7",
                "ESTIMAND_SERVER=http://h:1",
                "ESTIMAND_VERSION=3",
                "EXTRA=1",
                "HOME=/data/slots/cpu",
                "LANG=de",
                "LOGNAME=nobody",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "TMPDIR=/data/slots/cpu",
                "USER=nobody",
            ]
        );
    }
}

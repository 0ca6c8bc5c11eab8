//! The readiness of a service, from `/readyz`. Over TLS `curl` asks, and the certificate shown there is for
//! tests to check.

use std::time::Duration;

use crate::http::Http;
use crate::spawner;

/// One look.
const DEADLINE: Duration = Duration::from_secs(5);

/// How to look at the service at that address, again and again; none if it is no such address.
pub(super) fn at(base: &str) -> Option<Box<dyn Fn() -> Result<(), String>>> {
    match base.split_once("://")?.0 {
        "http" => {
            // To that anybody is let in, and a token that is not known there would not be.
            let http = Http::new(base).with_deadline(DEADLINE).showing(None);
            Some(Box::new(move || match http.try_request("GET", "/readyz", &[], b"") {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(answer.to_string()),
                Err(error) => Err(error.to_string()),
            }))
        }
        "https" => {
            let base = base.to_owned();
            Some(Box::new(move || by_curl(&base)))
        }
        _ => None,
    }
}

fn by_curl(base: &str) -> Result<(), String> {
    let seconds = DEADLINE.as_secs().to_string();
    let mut curl = spawner::bound_command("curl", None);
    curl.args(["--silent", "--show-error", "--insecure", "--fail", "--max-time", &seconds]);
    let done = curl.arg(format!("{base}/readyz")).output().map_err(|error| format!("curl: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

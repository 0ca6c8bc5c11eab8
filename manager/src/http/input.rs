//! Reads parameters of queries and bodies of agents. Each error names its field.

use estimand_api::json::{self, parse_object};
use estimand_api::labels::MAX_LABELS;
use estimand_api::labels::label_errors;
use estimand_api::node::Heartbeat;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::slot::RunOutcome;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use crate::leadership::RunResult;

/// The largest report of a run: its output, escaped, and the values in it.
pub const MAX_REPORT_BYTES: usize = 4 * 1024 * 1024;
const MAX_AGENT_BYTES: usize = 128;
/// All that a machine says of itself.
const MAX_FACTS_BYTES: usize = 32 * 1024;
const BOOT_EXPECTED: &str = "the number of the agent's start, from 1 on";

/// The name under which an agent speaks.
pub fn agent(given: &str) -> Result<&str, Problem> {
    let fits = (1..=MAX_AGENT_BYTES).contains(&given.len()) && given.bytes().all(|b| b.is_ascii_graphic());
    fits.then_some(given).ok_or_else(|| {
        let expected = format!("1 to {MAX_AGENT_BYTES} visible ASCII characters");
        let error = FieldError::new("agent", "does not name an agent").given(given).expected(expected);
        Problem::invalid_field(error)
    })
}

pub fn boot(boot: u64) -> Result<u64, Problem> {
    let fits = (1..=i64::MAX.unsigned_abs()).contains(&boot);
    fits.then_some(boot).ok_or_else(|| {
        let error = FieldError::new("boot", "is not the number of a start");
        Problem::invalid_field(error.given(boot).expected(BOOT_EXPECTED))
    })
}

pub fn heartbeat(body: &[u8]) -> Result<Heartbeat, Problem> {
    let mut beat: Heartbeat = typed(body)?;
    // A status that is kept is bounded by its use, not by the size of a heartbeat.
    beat.bound();
    agent(&beat.agent)?;
    boot(beat.boot)?;
    let mut errors = label_errors("labels", &beat.labels, MAX_LABELS);
    let facts = serde_json::to_vec(&beat.facts).map_or(usize::MAX, |text| text.len());
    if facts > MAX_FACTS_BYTES {
        let message = format!("have {facts} bytes as JSON; at most {MAX_FACTS_BYTES} are taken");
        errors.push(FieldError::new("facts", message));
    }
    if errors.is_empty() { Ok(beat) } else { Err(Problem::invalid(errors)) }
}

/// The end of a run by hand. An error is said at `report` or at `refused`.
pub fn run_outcome(body: &[u8]) -> Result<RunResult, Problem> {
    let outcome = match serde_json::from_slice(body) {
        Ok(outcome) => outcome,
        Err(_) => {
            let document = json::written_whole(Value::Object(parse_object(body)?));
            serde_path_to_error::deserialize(document).map_err(|error| outcome_error(&error))?
        }
    };
    Ok(match outcome {
        RunOutcome::Report(report) => Ok(report),
        RunOutcome::Refused(reason) => Err(reason),
    })
}

fn outcome_error(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let (path, message) = (error.path().to_string(), error.inner().to_string());
    let error = match path.split_once('.') {
        Some((field, at)) if !at.is_empty() => FieldError::new(field, format!("at {at}: {message}")),
        _ if path == "." => FieldError::new("report", message).expected("either `report` or `refused`"),
        _ => FieldError::new(path, message),
    };
    Problem::invalid_field(error)
}

/// Reads a body that is right nearly always: only one that is not is read again to find out where.
fn typed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // The derived reader takes an array of all fields in their order for an object.
    let read = match body.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(body),
        _ => Err(serde_json::Error::custom("it is no JSON object")),
    };
    read.or_else(|_: serde_json::Error| {
        let document = json::written_whole(Value::Object(parse_object(body)?));
        serde_path_to_error::deserialize::<_, T>(document).map_err(|error| {
            let field = match error.path().iter().next() {
                Some(_) => error.path().to_string(),
                None => "body".to_owned(),
            };
            Problem::invalid_field(FieldError::new(field, error.inner().to_string()))
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, field: &str, part: &str) {
        let problem = heartbeat(body.as_bytes()).unwrap_err();
        assert_eq!(problem.status, 400, "{body}");
        assert_eq!(problem.errors[0].field, field, "{body}: {problem}");
        assert!(problem.detail.contains(part), "{body}: {problem}");
    }

    #[test]
    fn an_error_in_a_heartbeat_names_its_field() {
        heartbeat(br#"{"agent":"a","boot":1,"applied":0}"#).unwrap();
        heartbeat(br#"{"agent":"a","boot":1,"applied":0,"new":{"facts":1}}"#).unwrap();
        assert_eq!(heartbeat(br#"{"agent":"a","boot":3.0,"applied":0}"#).unwrap().boot, 3);
        check(r#"{"agent":"a","boot":1}"#, "body", "applied");
        check(r#"{"agent":"a","boot":"x","applied":0}"#, "boot", "invalid type");
        check(r#"{"agent":"","boot":1,"applied":0}"#, "agent", "visible ASCII");
        check(r#"{"agent":"a","boot":0,"applied":0}"#, "boot", "from 1");
        check(r#"{"agent":"a","boot":1,"applied":0,"labels":{"a b":"c"}}"#, "labels", "a b");
        check(r#"{"agent":"a","boot":1,"applied":0,"labels":{"zone":"a b"}}"#, "labels.zone", "label value");
        check(r#"{"agent":"a","boot":1,"applied":0,"stopping":["x","1"]}"#, "stopping[1]", "data name");
        check(
            r#"{"agent":"a","boot":1,"applied":0,"statuses":[{"dataName":"a","version":1,"doing":"flying"}]}"#,
            "statuses[0].doing",
            "flying",
        );
        check("[", "body", "not JSON");
        check("", "body", "empty");
        check("[]", "body", "object");
        check(r#"["a",1,{},{},{},0,[],false,[],false]"#, "body", "object");
        check(r#"{"agent":"a","agent":"a","boot":1,"applied":0}"#, "body", "`agent` twice");
        let kernel = "k".repeat(40_000);
        let body = format!(r#"{{"agent":"a","boot":1,"applied":0,"facts":{{"kernel":"{kernel}"}}}}"#);
        check(&body, "facts", "bytes");
    }

    #[test]
    fn the_texts_of_a_heartbeat_are_kept_as_far_as_they_are_of_use() {
        let huge = "ä".repeat(1 << 20);
        let status = serde_json::json!({
            "dataName": "a", "version": 1, "doing": "idle", "runs": 0, "failures": 0, "timeouts": 0, "overruns": 0,
            "failing": 1, "lastExit": huge, "lastError": huge, "note": huge, "stderrTail": huge,
            "unenforced": vec!["x".repeat(1 << 20); 20],
            "next": { "version": 2, "failures": 1, "lastError": huge },
            "lastQuarantined": { "at": "2026-01-31T12:00:00Z", "reason": huge, "value": huge },
        });
        let delivery = serde_json::json!({ "failing": huge });
        let body = serde_json::json!({
            "agent": "a", "boot": 1, "applied": 0, "statuses": [status], "delivery": delivery,
        });
        let beat = heartbeat(body.to_string().as_bytes()).unwrap();
        let kept = serde_json::to_string(&beat).unwrap().len();
        assert!(kept < 128 * 1024, "{kept} bytes are kept of {}", body.to_string().len());
        assert!(beat.statuses[0].last_error.as_ref().unwrap().starts_with("ää"));
    }

    #[test]
    fn a_run_has_one_outcome() {
        let refused = run_outcome(br#"{"refused": "not allowed"}"#).unwrap();
        assert_eq!(refused, Err("not allowed".to_owned()));
        for (body, part) in [
            ("{}", "either"),
            (r#"{"refused": 1}"#, "expected a string"),
            (r#"{"report": {"argv": [1]}}"#, "argv[0]"),
            (r#"{"reports": {}}"#, "is missing"),
        ] {
            let problem = run_outcome(body.as_bytes()).unwrap_err();
            assert!(problem.detail.contains(part), "{body}: {problem}");
        }
    }
}

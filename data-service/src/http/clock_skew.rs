//! Senders whose clock differs from ours.
//!
//! A value is as fresh as its age says, and its age is known to the sender that collected it, by its own
//! clock. So a sender that says the time of its clock has its instants moved to ours. Differences that may as
//! well be the time that the request was under way are left alone, so that no delay makes a value look
//! younger, and instants that are right stay to the letter. Agents send the manager's time of day, which they know much
//! better (decision 124).

use actix_web::HttpRequest;
use estimand_api::headers::SENT_AT_HEADER;
use estimand_api::instant::{WRITABLE, parse_rfc3339};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::write::Write;

/// In microseconds: longer than any sender waits for an answer.
const TOLERANCE: i64 = 60_000_000;

/// Moves when these were collected, as the sender's clock has it, to our clock, which shows `now`.
pub fn correct(req: &HttpRequest, now: i64, writes: &mut [Write]) -> Result<(), Problem> {
    let Some(sent_at) = sent_at(req)? else { return Ok(()) };
    let skew = now - sent_at;
    if skew.abs() > TOLERANCE {
        for at in writes.iter_mut().filter_map(|write| write.collected_at.as_mut()) {
            *at = at.saturating_add(skew).clamp(WRITABLE.start, WRITABLE.end - 1);
        }
    }
    Ok(())
}

fn sent_at(req: &HttpRequest) -> Result<Option<i64>, Problem> {
    let Some(text) = req.headers().get(SENT_AT_HEADER) else { return Ok(None) };
    let text = text.to_str().unwrap_or("?");
    parse_rfc3339(text).map(Some).ok_or_else(|| {
        let error = FieldError::new("Estimand-Sent-At", "is not an instant").given(text);
        Problem::invalid_field(error.expected("an instant such as 2026-01-31T23:59:59Z"))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_web::test::TestRequest;
    use estimand_api::instant::to_rfc3339;

    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;
    const HOUR: i64 = 3_600_000_000;

    fn corrected(sent_at: &str, collected_at: i64) -> Result<Option<i64>, Problem> {
        let req = TestRequest::default().insert_header((SENT_AT_HEADER, sent_at)).to_http_request();
        let body = format!(
            r#"{{"dataName":"a","nodeName":"n","dataValue":1,"collectedAt":"{}"}}"#,
            to_rfc3339(collected_at)
        );
        let mut writes = [Write::parse(body.as_bytes()).unwrap()];
        correct(&req, NOW, &mut writes)?;
        Ok(writes[0].collected_at)
    }

    #[test]
    fn what_was_collected_is_as_old_as_its_sender_says() {
        for off in [-HOUR, 24 * HOUR] {
            let collected_at = NOW + off - 5_000_000;
            assert_eq!(corrected(&to_rfc3339(NOW + off), collected_at), Ok(Some(NOW - 5_000_000)));
        }
        let exact = NOW - 7;
        assert_eq!(corrected(&to_rfc3339(NOW - TOLERANCE), exact), Ok(Some(exact)));
        assert_eq!(corrected("9999-12-31T23:59:59Z", -62_000_000_000_000_000), Ok(Some(WRITABLE.start)));
        assert_eq!(corrected("yesterday", NOW).unwrap_err().status, 400);
    }
}

//! As much of a protocol as a load generator needs to know when a response is complete and that it is a success. Of
//! HTTP/1.1 that is its status and its announced length, of Redis' and of NATS' its first line. Bodies are counted, not kept.

use anyhow::{Context, bail};

/// The longest head that is believed.
const MAX_HEAD: usize = 16 * 1024;
/// The beginning of an answer that has no body and announces none.
const NO_CONTENT: &[u8] = b"HTTP/1.1 204 ";

/// The beginnings of good messages of JetStream: a stored one, and one that was read. They are of one length.
const NATS_SUCCESS: [&[u8]; 2] = [b"{\"stream\":", b"NATS/1.0\r\n"];

/// The protocol of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wire {
    #[default]
    Http,
    Redis,
    Nats,
}

/// Follows one response after the other through the pieces in which they arrive.
#[derive(Debug, Default)]
pub struct Reply {
    wire: Wire,
    /// The beginning of a head that has not arrived whole.
    head: Vec<u8>,
    /// The part of the body that is missing, once the head is known.
    missing: Option<Missing>,
}

#[derive(Debug)]
enum Missing {
    Bytes(usize),
    /// The chunk that ends it; these are the last bytes so far.
    LastChunk(Vec<u8>),
}

/// The end of a body in chunks, behind the end of the chunk before or of the head.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

impl Reply {
    pub fn of(wire: Wire) -> Self {
        Reply { wire, ..Reply::default() }
    }

    /// Takes the next piece; true if the response is complete with it. One request is under way at a time,
    /// so nothing may follow.
    pub fn take(&mut self, piece: &[u8]) -> anyhow::Result<bool> {
        let (missing, arrived) = match self.missing.take() {
            Some(missing) => (missing, piece),
            None => match self.read_head(piece)? {
                Some((missing, arrived)) => (missing, &piece[piece.len() - arrived..]),
                None => return Ok(false),
            },
        };
        self.missing = missing.after(arrived)?;
        Ok(self.missing.is_none())
    }

    /// The body as it is announced, and how much of it is in this piece; none until the head is whole.
    fn read_head(&mut self, piece: &[u8]) -> anyhow::Result<Option<(Missing, usize)>> {
        // Nearly always the head arrives in one piece and need not be copied.
        if self.head.is_empty()
            && let Some(head) = Head::of(self.wire, piece)?
        {
            return Ok(Some((head.body, piece.len() - head.size)));
        }
        self.head.extend_from_slice(piece);
        match Head::of(self.wire, &self.head)? {
            Some(head) => {
                let arrived = self.head.len() - head.size;
                self.head.clear();
                Ok(Some((head.body, arrived)))
            }
            None if self.head.len() > MAX_HEAD => bail!("a response whose head does not end"),
            None => Ok(None),
        }
    }
}

impl Missing {
    /// The part that is missing after this one; none if nothing is.
    fn after(self, arrived: &[u8]) -> anyhow::Result<Option<Missing>> {
        match self {
            Missing::Bytes(count) => {
                let left = count.checked_sub(arrived.len()).context("more arrived than was announced")?;
                Ok((left > 0).then_some(Missing::Bytes(left)))
            }
            Missing::LastChunk(mut last) => {
                last.extend_from_slice(arrived);
                if last.ends_with(LAST_CHUNK) {
                    return Ok(None);
                }
                last.drain(..last.len().saturating_sub(LAST_CHUNK.len()));
                Ok(Some(Missing::LastChunk(last)))
            }
        }
    }
}

struct Head {
    size: usize,
    body: Missing,
}

impl Head {
    fn of(wire: Wire, bytes: &[u8]) -> anyhow::Result<Option<Head>> {
        match wire {
            Wire::Http => Head::parse(bytes),
            Wire::Redis => Head::parse_redis(bytes),
            Wire::Nats => Head::parse_nats(bytes),
        }
    }

    /// A line that says all, or one that announces the length of what follows, which has a line's end of its own.
    fn parse_redis(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
        let Some(size) = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1) else {
            return Ok(None);
        };
        let line = String::from_utf8_lossy(bytes[..size].trim_ascii_end());
        let body = match line.split_at_checked(1) {
            Some(("+" | ":", _)) => 0,
            Some(("$", length)) => {
                let length: usize = length.parse().with_context(|| format!("not a success: {line}"))?;
                length + "\r\n".len()
            }
            _ => bail!("not a success: {line}"),
        };
        Ok(Some(Head { size, body: Missing::Bytes(body) }))
    }

    /// A line that ends with the length of the message. The message begins with the name of a stream, or with headers without
    /// a status if it is a success.
    fn parse_nats(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1) else {
            return Ok(None);
        };
        let size = end + NATS_SUCCESS[0].len();
        let Some(head) = bytes.get(..size) else { return Ok(None) };
        let line = String::from_utf8_lossy(head[..end].trim_ascii_end());
        let length = line.rsplit(' ').next().and_then(|length| length.parse::<usize>().ok());
        match length {
            Some(length) if NATS_SUCCESS.contains(&&head[end..]) => {
                let rest =
                    (length + "\r\n".len()).checked_sub(size - end).context("a message that is too short")?;
                Ok(Some(Head { size, body: Missing::Bytes(rest) }))
            }
            _ => bail!("not a success: {}", String::from_utf8_lossy(head)),
        }
    }

    fn parse(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
        let (mut start, mut body) = (0, None);
        while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') {
            let line = bytes[start..start + length].trim_ascii_end();
            if line.is_empty() {
                check_status(bytes)?;
                let body = if bytes.starts_with(NO_CONTENT) { Some(Missing::Bytes(0)) } else { body };
                let body = body.context("a response without a content-length")?;
                return Ok(Some(Head { size: start + length + 1, body }));
            }
            if let Some(value) = content_length(line) {
                let length = value.parse().with_context(|| format!("a content-length of {value:?}"))?;
                body = Some(Missing::Bytes(length));
            } else if line.eq_ignore_ascii_case(b"transfer-encoding: chunked") {
                body = Some(Missing::LastChunk(b"\r\n".to_vec()));
            }
            start += length + 1;
        }
        Ok(None)
    }
}

fn content_length(line: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"content-length:";
    let (name, value) = line.split_at_checked(NAME.len())?;
    if !name.eq_ignore_ascii_case(NAME) {
        return None;
    }
    std::str::from_utf8(value).ok().map(str::trim)
}

/// A failure is answered sooner or later than a success, so a run with failures measures nothing.
fn check_status(response: &[u8]) -> anyhow::Result<()> {
    if !response.starts_with(b"HTTP/1.1 2") {
        let shown = &response[..response.len().min(1_000)];
        bail!("not a success: {}", String::from_utf8_lossy(shown));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: content-length: 7\r\n\r\nhello";

    #[test]
    fn a_response_is_complete_wherever_it_is_cut() {
        for cut in 1..RESPONSE.len() {
            let mut reply = Reply::default();
            for _ in 0..2 {
                assert!(!reply.take(&RESPONSE[..cut]).unwrap(), "cut at {cut}");
                assert!(reply.take(&RESPONSE[cut..]).unwrap(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn an_answer_of_redis_is_complete_wherever_it_is_cut() {
        for answer in [&b"+OK\r\n"[..], b"$5\r\nhello\r\n", b":12\r\n"] {
            for cut in 1..answer.len() {
                let mut reply = Reply::of(Wire::Redis);
                for _ in 0..2 {
                    assert!(!reply.take(&answer[..cut]).unwrap(), "cut at {cut}");
                    assert!(reply.take(&answer[cut..]).unwrap(), "cut at {cut}");
                }
            }
        }
        for failure in [&b"-ERR unknown command\r\n"[..], b"$-1\r\n"] {
            let error = Reply::of(Wire::Redis).take(failure).unwrap_err().to_string();
            assert!(error.starts_with("not a success"), "{error}");
        }
    }

    #[test]
    fn a_message_of_nats_is_complete_wherever_it_is_cut() {
        let stored = b"MSG _INBOX.001 1  30\r\n{\"stream\":\"KV_bench\", \"seq\":1}\r\n";
        let read = b"HMSG _INBOX.001 1 18 22\r\nNATS/1.0\r\na: b\r\n\r\n0.12\r\n";
        for message in [&stored[..], &read[..]] {
            for cut in 1..message.len() {
                let mut reply = Reply::of(Wire::Nats);
                for _ in 0..2 {
                    assert!(!reply.take(&message[..cut]).unwrap(), "cut at {cut}");
                    assert!(reply.take(&message[cut..]).unwrap(), "cut at {cut}");
                }
            }
        }
        for failure in [
            &b"HMSG _INBOX.001 1 28 28\r\nNATS/1.0 404 Message Not Found\r\n\r\n\r\n"[..],
            b"MSG _INBOX.001 1 40\r\n{\"error\":{\"code\":503}}\r\n",
            b"-ERR 'Maximum Payload Violation'\r\n..............",
        ] {
            let error = Reply::of(Wire::Nats).take(failure).unwrap_err().to_string();
            assert!(error.starts_with("not a success"), "{error}");
        }
    }

    #[test]
    fn an_answer_in_chunks_is_complete_with_the_last_one() {
        for body in ["5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n"] {
            let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes();
            for cut in 1..answer.len() {
                let mut reply = Reply::default();
                for _ in 0..2 {
                    assert!(!reply.take(&answer[..cut]).unwrap(), "cut at {cut}");
                    assert!(reply.take(&answer[cut..]).unwrap(), "cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn an_answer_without_content_needs_no_length() {
        assert!(Reply::default().take(b"HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n").unwrap());
    }

    #[test]
    fn a_malformed_answer_is_refused() {
        let refuses = |bytes: &[u8]| Reply::default().take(bytes).unwrap_err().to_string();
        assert!(refuses(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").contains("503 Busy"));
        assert!(refuses(b"HTTP/1.1 200 OK\r\n\r\n").contains("without a content-length"));
        assert!(refuses(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab").contains("more arrived"));
    }
}

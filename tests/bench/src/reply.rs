//! As much of HTTP/1.1 as a load generator needs to know when a response is complete: its status and its
//! announced length. Bodies are counted, not kept.

use anyhow::{Context, bail};

/// The longest head that is believed.
const MAX_HEAD: usize = 16 * 1024;

/// Follows one response after the other through the pieces in which they arrive.
#[derive(Debug, Default)]
pub struct Reply {
    /// The beginning of a head that has not arrived whole.
    head: Vec<u8>,
    /// The missing length of the body, once the head is known.
    body_left: Option<usize>,
}

impl Reply {
    /// Takes the next piece; true if the response is complete with it. One request is under way at a time,
    /// so nothing may follow.
    pub fn take(&mut self, piece: &[u8]) -> anyhow::Result<bool> {
        let left = match self.body_left {
            Some(left) => left.checked_sub(piece.len()),
            None => match self.read_head(piece)? {
                Some((body, arrived)) => body.checked_sub(arrived),
                None => return Ok(false),
            },
        };
        let left = left.context("more arrived than was announced")?;
        self.body_left = (left > 0).then_some(left);
        Ok(left == 0)
    }

    /// The announced length of the body, and how much of it is in this piece; none until the head is whole.
    fn read_head(&mut self, piece: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
        // Nearly always the head arrives in one piece and need not be copied.
        if self.head.is_empty()
            && let Some(head) = Head::parse(piece)?
        {
            return Ok(Some((head.body, piece.len() - head.size)));
        }
        self.head.extend_from_slice(piece);
        match Head::parse(&self.head)? {
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

struct Head {
    size: usize,
    body: usize,
}

impl Head {
    fn parse(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
        let (mut start, mut body) = (0, None);
        while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') {
            let line = bytes[start..start + length].trim_ascii_end();
            if line.is_empty() {
                check_status(bytes)?;
                let body = body.context("a response without a content-length")?;
                return Ok(Some(Head { size: start + length + 1, body }));
            }
            if let Some(value) = content_length(line) {
                body = Some(value.parse().with_context(|| format!("a content-length of {value:?}"))?);
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
    fn a_malformed_answer_is_refused() {
        let refuses = |bytes: &[u8]| Reply::default().take(bytes).unwrap_err().to_string();
        assert!(refuses(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").contains("503 Busy"));
        assert!(refuses(b"HTTP/1.1 200 OK\r\n\r\n").contains("without a content-length"));
        assert!(refuses(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab").contains("more arrived"));
    }
}

//! A stream of documents: one ends with `# EOF`, or with an empty line.
//!
//! Invariant: at most [`MAX_OUTPUT_BYTES`] are kept. A document with more is a failure, once; the rest of
//! it is passed over, and reading goes on with the next one.

use crate::build::MAX_OUTPUT_BYTES;
use crate::{Dialect, Lines, Output, Reading};

use super::{END, Prometheus};

pub(super) struct Documents {
    dialect: &'static Prometheus,
    text: Vec<u8>,
    is_skipping: bool,
}

impl Documents {
    pub(super) fn new(dialect: &'static Prometheus) -> Self {
        Documents { dialect, text: Vec::new(), is_skipping: false }
    }
}

impl Lines for Documents {
    fn line(&mut self, line: &[u8]) -> Result<Reading, String> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_empty = line.trim_ascii().is_empty();
        if !self.is_skipping && !is_empty {
            if self.text.len() + line.len() >= MAX_OUTPUT_BYTES {
                self.text = Vec::new();
                self.is_skipping = line != END.as_bytes();
                return Err(format!(
                    "a document has more than {MAX_OUTPUT_BYTES} bytes; expected at most so many, and `{END}` or \
                     an empty line behind each"
                ));
            }
            self.text.extend_from_slice(line);
            self.text.push(b'\n');
        }
        if !is_empty && line != END.as_bytes() {
            return Ok(Reading::default());
        }
        let text = std::mem::take(&mut self.text);
        self.is_skipping = false;
        self.dialect.read(Output { stdout: &text, exit: 0 })
    }
}

//! Requests over HTTP, as the rivals want them.

use std::fmt::Arguments;
use std::io::Write as _;

/// Appends a GET.
pub fn get(out: &mut Vec<u8>, target: Arguments<'_>) {
    // Writing to a vector does not fail.
    let _ = write!(out, "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n");
}

/// Appends a POST of a text.
pub fn post(out: &mut Vec<u8>, target: Arguments<'_>, kind: &str, body: &str) {
    let length = body.len();
    let _ = write!(
        out,
        "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
}

//! Output of the mock: at once and unbuffered, so that what a word prints is out before the next begins.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

const FLOOD_CHUNK: usize = 64 << 10;
const JUNK_BYTES: usize = 4 << 10;
const JUNK_SEED: u64 = 0x5eed;

pub(super) fn to_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Complaints: that they can't be written is no reason to do anything else.
pub(super) fn to_stderr(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

/// `bytes` bytes in lines, or lines without end.
pub(super) fn flood(mut out: impl Write, bytes: Option<u64>) -> io::Result<()> {
    let chunk =
        b"flood, flood, flood, flood, flood, flood, flood, flood, flood!\n\n".repeat(FLOOD_CHUNK / 64);
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        out.write_all(&chunk[..count])?;
        if bytes.is_some() {
            left -= count as u64;
        }
    }
    out.flush()
}

/// The same bytes each time, of all values, in no encoding.
pub(super) fn junk() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(JUNK_SEED);
    let mut bytes: Vec<u8> = (0..JUNK_BYTES).map(|_| random.u8(..)).collect();
    bytes[..4].copy_from_slice(b"\x7fELF");
    bytes
}

pub(super) fn slowly(text: &str, pause: Duration) -> io::Result<()> {
    for byte in text.bytes().chain([b'\n']) {
        to_stdout(&[byte])?;
        thread::sleep(pause);
    }
    Ok(())
}

/// One line a number, from 1 on, a pause after each; `times` of them, or without end.
pub(super) fn numbers(pause: Duration, times: Option<u64>) -> io::Result<()> {
    for number in 1..=times.unwrap_or(u64::MAX) {
        to_stdout(format!("{number}\n").as_bytes())?;
        thread::sleep(pause);
    }
    Ok(())
}

/// One line a number, from 1 on, for each line that is read, until the reading ends.
pub(super) fn numbers_asked() -> io::Result<()> {
    for (at, line) in io::stdin().lines().enumerate() {
        line?;
        to_stdout(format!("{}\n", at + 1).as_bytes())?;
    }
    Ok(())
}

/// For whoever reads the pipes, stdout and stderr are at their end; the process goes on.
pub(super) fn close_pipes() -> io::Result<()> {
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}

//! Reads what a process writes, all the time and for as long as anybody holds its pipes, and keeps the
//! last of it. Its threads end with the pipes: a grandchild may keep one open, so nobody joins them.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::wait;

const KEPT_BYTES: usize = 64 << 10;
/// How long after the end of a process its last words may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Output {
    stdout: Tail,
    stderr: Tail,
}

#[derive(Default, Clone)]
struct Tail(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    at_end: bool,
}

impl Output {
    /// Starts to read; the receiver gets the first line of stdout, or is closed if there is none.
    pub(super) fn of(child: &mut Child) -> (Self, Receiver<String>) {
        let output = Self::default();
        let (sender, first_line) = channel();
        if let Some(pipe) = child.stdout.take() {
            output.stdout.clone().keep(pipe, Some(sender));
        }
        if let Some(pipe) = child.stderr.take() {
            output.stderr.clone().keep(pipe, None);
        }
        (output, first_line)
    }

    pub(super) fn stdout(&self, ended: bool) -> String {
        self.stdout.text(ended)
    }

    pub(super) fn stderr(&self, ended: bool) -> String {
        self.stderr.text(ended)
    }
}

impl Tail {
    fn keep(self, pipe: impl Read + Send + 'static, first_line: Option<Sender<String>>) {
        let read = move || {
            let mut pipe = BufReader::new(pipe);
            if let Some(sender) = first_line {
                let mut line = Vec::new();
                if matches!((&mut pipe).take(KEPT_BYTES as u64).read_until(b'\n', &mut line), Ok(1..)) {
                    let _ = sender.send(String::from_utf8_lossy(&line).trim_end().to_owned());
                }
            }
            let mut bytes = [0; 8 << 10];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                let kept = &mut self.lock().bytes;
                kept.extend(&bytes[..count]);
                let surplus = kept.len().saturating_sub(KEPT_BYTES);
                kept.drain(..surplus);
            }
            self.lock().at_end = true;
        };
        thread::Builder::new().name("output".into()).spawn(read).expect("a thread can be started");
    }

    /// The kept text. If the process has `ended`, its last output may still be in the pipe.
    fn text(&self, ended: bool) -> String {
        if ended && Arc::strong_count(&self.0) > 1 {
            let _ = wait::poll(LAST_WORDS, || if self.lock().at_end { Ok(()) } else { Err(()) });
        }
        String::from_utf8_lossy(self.lock().bytes.make_contiguous()).into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

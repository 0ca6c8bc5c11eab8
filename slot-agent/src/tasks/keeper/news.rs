//! The words with which keepers wake their agent, whichever it is by then: an attempt and how it has changed.
//!
//! They only make a look come sooner. Each is one line, which goes into the agent's pipe whole or not at all.

use std::path::{Path, PathBuf};

use super::super::folder::AttemptFolder;
use super::super::pipe::poke;

/// How an attempt has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewsKind {
    Lines,
    Stage,
    End,
}

const WORDS: [(u8, NewsKind); 3] = [(b'l', NewsKind::Lines), (b's', NewsKind::Stage), (b'e', NewsKind::End)];

/// Tells of one attempt.
#[derive(Debug, Clone)]
pub struct News {
    pipe: PathBuf,
    attempt: String,
}

impl News {
    pub fn new(pipe: &Path, folder: &AttemptFolder) -> Self {
        News { pipe: pipe.to_owned(), attempt: folder.name() }
    }

    pub fn of_lines(&self) {
        self.tell(b'l');
    }

    pub fn of_stage(&self) {
        self.tell(b's');
    }

    pub fn of_end(&self) {
        self.tell(b'e');
    }

    fn tell(&self, word: u8) {
        let mut line = Vec::with_capacity(self.attempt.len() + 2);
        line.push(word);
        line.extend_from_slice(self.attempt.as_bytes());
        line.push(b'\n');
        poke(&self.pipe, &line);
    }
}

/// The agent's side: bytes of the pipe become words.
#[derive(Debug, Default)]
pub struct Hearing {
    rest: Vec<u8>,
}

impl Hearing {
    /// The words that end in these bytes. What makes no sense is passed over: everything is looked at now and then anyway.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<(NewsKind, String)> {
        self.rest.extend_from_slice(bytes);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        if self.rest.len() > MAX_WORD {
            self.rest.clear();
        }
        whole.split(|byte| *byte == b'\n').filter_map(word).collect()
    }
}

/// An attempt has a shorter name.
const MAX_WORD: usize = 4096;

fn word(line: &[u8]) -> Option<(NewsKind, String)> {
    let (first, name) = line.split_first()?;
    let (_, heard) = WORDS.iter().find(|(letter, _)| letter == first)?;
    Some((*heard, String::from_utf8(name.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_heard_however_they_are_cut() {
        let said = b"sa.1\nlb.2\n\n?c.1\nea.1\n";
        let expected = [(NewsKind::Stage, "a.1"), (NewsKind::Lines, "b.2"), (NewsKind::End, "a.1")]
            .map(|(heard, name)| (heard, name.to_owned()));
        for cut in 0..said.len() {
            let mut hearing = Hearing::default();
            let mut heard = hearing.take(&said[..cut]);
            heard.extend(hearing.take(&said[cut..]));
            assert_eq!(heard, expected, "cut at {cut}");
        }
        assert_eq!(Hearing::default().take(&[b'x'; 2 * MAX_WORD]), []);
    }
}

//! Changes as they were rendered last, for all who watch the same.
//!
//! A change is told to its watchers at about the same time, and most of them have seen as much as each other. The first
//! one renders what comes next and leaves it here; the others are sent the same bytes. Only a few pieces are kept: they
//! are asked for within moments or never.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Of as many different watches the last piece is kept, if they are all told something at the same time.
const MAX_PIECES: usize = 64;

/// The changes after a revision, up to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub after: u64,
    pub until: u64,
    pub events: Bytes,
}

/// The latest pieces, the last one first, each with the text that says what is watched.
#[derive(Debug, Default)]
pub struct SharedPieces(Mutex<VecDeque<(Arc<str>, Piece)>>);

impl SharedPieces {
    /// The changes after a revision, if they were rendered already.
    pub fn find(&self, watched: &str, after: u64) -> Option<Piece> {
        let pieces = self.lock();
        let found = pieces.iter().find(|(of, piece)| piece.after == after && **of == *watched);
        found.map(|(_, piece)| piece.clone())
    }

    pub fn put(&self, watched: Arc<str>, piece: Piece) {
        let mut pieces = self.lock();
        pieces.truncate(MAX_PIECES - 1);
        pieces.push_front((watched, piece));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, Piece)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(after: u64) -> Piece {
        Piece { after, until: after + 1, events: Bytes::from(after.to_string()) }
    }

    #[test]
    fn a_piece_is_for_those_who_watch_the_same_and_have_seen_as_much() {
        let pieces = SharedPieces::default();
        pieces.put("a".into(), piece(1));
        pieces.put("b".into(), piece(2));
        assert_eq!(pieces.find("a", 1), Some(piece(1)));
        assert_eq!(pieces.find("b", 2), Some(piece(2)));
        assert_eq!((pieces.find("a", 2), pieces.find("b", 1), pieces.find("c", 1)), (None, None, None));
    }

    #[test]
    fn the_oldest_piece_makes_room() {
        let pieces = SharedPieces::default();
        for after in 0..=MAX_PIECES as u64 {
            pieces.put("a".into(), piece(after));
        }
        assert_eq!(pieces.find("a", 0), None);
        assert_eq!(pieces.find("a", 1), Some(piece(1)));
        assert_eq!(pieces.lock().len(), MAX_PIECES);
    }
}

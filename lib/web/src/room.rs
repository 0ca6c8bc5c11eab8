//! Room for bodies that are being read.
//!
//! Whoever sends a large body makes the service keep what has come so far. All of those together get so much room, however
//! many they are; of a body that does not fit any more nothing is kept, and it is refused when it has been read. What arrives
//! in one piece goes to its handler without a wait and needs none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use estimand_api::problem::Problem;

/// A few of the largest bodies that there may be.
const ROOM_BYTES: usize = 32 * 1024 * 1024;

/// What all bodies together take at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// What one of them takes; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    room: Room,
    bytes: usize,
}

impl Room {
    pub(crate) fn share(&self) -> Share {
        Share { room: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Takes as much as makes it so many bytes.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes);
        // Given back with the rest, also if it was too much.
        self.bytes += more;
        match self.room.0.fetch_add(more, Ordering::AcqRel) + more {
            0..=ROOM_BYTES => Ok(()),
            _ => Err(Problem::unavailable(
                "more large bodies arrive than there is room for; nothing was done",
                1,
            )),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_one_gives_back_another_takes() {
        let room = Room::default();
        let (mut one, mut other) = (room.share(), room.share());
        one.grow_to(ROOM_BYTES - 10).unwrap();
        other.grow_to(7).unwrap();
        other.grow_to(10).unwrap();
        other.grow_to(10).unwrap();
        assert_eq!(other.grow_to(11).unwrap_err().status, 503);
        drop(one);
        other.grow_to(20).unwrap();
        drop(other);
        assert_eq!(room.0.load(Ordering::Acquire), 0);
    }
}

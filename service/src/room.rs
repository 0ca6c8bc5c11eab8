//! Room for bodies that are being read.
//!
//! Whoever sends a large body makes the service keep what has come so far. All of those together get so much room, however
//! many they are; a body that does not fit any more is refused at once, and its connection is closed. What arrives in one
//! piece goes to its handler without a wait and needs none.

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
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        // Given back with the rest, also if it was too much.
        self.bytes += bytes;
        match self.room.0.fetch_add(bytes, Ordering::AcqRel) + bytes {
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
        one.take(ROOM_BYTES - 10).unwrap();
        other.take(10).unwrap();
        assert_eq!(other.take(1).unwrap_err().status, 503);
        drop(one);
        other.take(10).unwrap();
        drop(other);
        assert_eq!(room.0.load(Ordering::Acquire), 0);
    }
}

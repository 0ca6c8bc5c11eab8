//! A place in a file, up to which it was read, and the check that it is still the same file.

use serde_json::{Value, json};

use super::source::{Id, Source};

/// So many bytes before the place are remembered, as a hash.
const REMEMBERED: u64 = 256;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub id: Id,
    /// Where the first line begins that was not taken yet.
    pub offset: u64,
    /// True inside a line that is passed over, because it is too long or its beginning was not read.
    pub inside: bool,
    /// The last line, as far as it is there, if it has no end yet.
    pub tail: Option<Tail>,
    /// Of what stands before the place.
    before: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tail {
    /// The end of the file when it was seen.
    pub end: u64,
    /// Set if it was taken as a line.
    pub taken: Option<PartialLine>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PartialLine {
    /// Its end when it was read; by now there may be more of it.
    pub end: u64,
    pub matched: bool,
}

impl Place {
    /// Before anything was read.
    pub(super) fn beginning(id: Id) -> Self {
        Place { id, offset: 0, inside: false, tail: None, before: 0 }
    }

    /// Moves to an offset.
    pub(super) fn move_to(&mut self, source: &Source, offset: u64) -> Result<(), String> {
        self.offset = offset;
        self.before = hash_before(source, offset)?;
        Ok(())
    }

    /// True if the file still has the same bytes before the place. A truncated one has less, or others.
    pub(super) fn holds(&self, source: &Source) -> Result<bool, String> {
        let end = self.tail.map_or(self.offset, |tail| tail.end);
        Ok(source.size >= end && hash_before(source, self.offset)? == self.before)
    }

    pub(super) fn written(&self) -> Value {
        let mut value = json!({
            "device": self.id.device, "inode": self.id.inode, "offset": self.offset, "inside": self.inside,
            "before": self.before,
        });
        if let Some(tail) = self.tail {
            value["tail"] = json!({"end": tail.end});
            if let Some(taken) = tail.taken {
                value["tail"]["taken"] = json!({"end": taken.end, "matched": taken.matched});
            }
        }
        value
    }

    pub(super) fn read(value: &Value) -> Option<Self> {
        let number = |value: &Value, name: &str| value.get(name)?.as_u64();
        let taken = |value: &Value| {
            Some(PartialLine { end: number(value, "end")?, matched: value.get("matched")?.as_bool()? })
        };
        let tail = value.get("tail").and_then(|tail| {
            Some(Tail { end: number(tail, "end")?, taken: tail.get("taken").and_then(taken) })
        });
        Some(Place {
            id: Id { device: number(value, "device")?, inode: number(value, "inode")? },
            offset: number(value, "offset")?,
            inside: value.get("inside")?.as_bool()?,
            tail,
            before: number(value, "before")?,
        })
    }
}

/// FNV-1a: the same in every version, and it only has to tell one log from another.
fn hash_before(source: &Source, offset: u64) -> Result<u64, String> {
    let mut block = [0; REMEMBERED as usize];
    let length = offset.min(REMEMBERED);
    let count = source.read(&mut block[..length as usize], offset - length)?;
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    Ok(if offset == 0 { 0 } else { block[..count].iter().fold(0xcbf2_9ce4_8422_2325, hash) })
}

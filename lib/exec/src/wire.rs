//! Numbers, texts and what is made of them as bytes, for the two ends of one socket on one machine.

use super::capabilities::Capabilities;
use super::privileges::{Identity, Privileges};

pub(super) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn new(tag: u8) -> Self {
        Writer(vec![tag])
    }

    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub fn text(self, value: &str) -> Self {
        let mut next = self.u64(value.len() as u64);
        next.0.extend_from_slice(value.as_bytes());
        next
    }

    pub fn privileges(self, Privileges { run_as, keep }: &Privileges) -> Self {
        let head = self.u64(keep.0);
        let Some(Identity { uid, gid, groups }) = run_as else { return head.u8(0) };
        let head = head.u8(1).u64(u64::from(*uid)).u64(u64::from(*gid)).u64(groups.len() as u64);
        groups.iter().fold(head, |writer, group| writer.u64(u64::from(*group)))
    }

    pub fn optional(self, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.u8(1).u64(value),
            None => self.u8(0),
        }
    }
}

/// Reads what a [`Writer`] wrote; every step fails on anything else.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn i32(&mut self) -> Option<i32> {
        Some(i32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u64()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    pub fn privileges(&mut self) -> Option<Privileges> {
        let keep = Capabilities(self.u64()?);
        let run_as = match self.u8()? {
            0 => None,
            1 => {
                let mut id = || u32::try_from(self.u64()?).ok();
                let (uid, gid, count) = (id()?, id()?, id()? as usize);
                // Each takes eight bytes, so the packet bounds them.
                Some(Identity { uid, gid, groups: (0..count).map(|_| id()).collect::<Option<_>>()? })
            }
            _ => return None,
        };
        Some(Privileges { run_as, keep })
    }

    pub fn optional(&mut self) -> Option<Option<u64>> {
        match self.u8()? {
            0 => Some(None),
            1 => Some(Some(self.u64()?)),
            _ => None,
        }
    }
}

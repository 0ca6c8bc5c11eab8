//! Mounts (`/proc/…/mountinfo`).
//!
//! Owns the format, and the question which mounts can be reached by their paths: a mount over another hides it. Paths
//! are bytes, since they can be anything.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub id: u32,
    pub parent: u32,
    /// `major:minor`, the same for all mounts of one file system.
    pub device: String,
    /// The part of the file system that is mounted.
    pub root: PathBuf,
    pub point: PathBuf,
    pub read_only: bool,
    pub kind: String,
    pub source: String,
    /// Options of the file system, with commas.
    pub options: String,
}

/// The mounts, as far as lines are whole.
pub(crate) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| parse_line(line.strip_suffix(b"\n")?))
        .collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: there can be any number of
/// fields before the dash.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut path = || Some(PathBuf::from(OsString::from_vec(unescape(words.next()?))));
    let (id, parent, device) = (path()?, path()?, path()?);
    let (root, point) = (path()?, path()?);
    let mount_options = text(words.next()?);
    words.find(|word| *word == b"-")?;
    let (kind, source) = (text(words.next()?), text(words.next()?));
    let options = text(words.next().unwrap_or_default());
    let read_only = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        id: id.to_str()?.parse().ok()?,
        parent: parent.to_str()?.parse().ok()?,
        device: device.to_str()?.to_owned(),
        root,
        point,
        read_only: read_only(&mount_options) || read_only(&options),
        kind,
        source,
        options,
    })
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(word)).into_owned()
}

/// White space and the backslash are written as a backslash and three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = |digit: &u8| (b'0'..=b'7').contains(digit).then(|| u32::from(digit - b'0'));
        let escaped = match (first, after) {
            (b'\\', [one, two, three, ..]) => octal(one).zip(octal(two)).zip(octal(three)),
            _ => None,
        };
        let byte = escaped.and_then(|((one, two), three)| u8::try_from(one * 64 + two * 8 + three).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    bytes
}

/// The mounts, with those that others cover.
pub(crate) struct Tree<'a> {
    mounts: &'a [Mount],
    parents: HashMap<u32, u32>,
}

impl<'a> Tree<'a> {
    pub fn new(mounts: &'a [Mount]) -> Self {
        Tree { mounts, parents: mounts.iter().map(|mount| (mount.id, mount.parent)).collect() }
    }

    /// True if the path of a mount leads to another one: a mount at or above it that came later, and on which it
    /// does not stand, lies over it.
    pub fn hidden(&self, mount: &Mount) -> bool {
        self.mounts.iter().any(|other| {
            other.id != mount.id && mount.point.starts_with(&other.point) && !self.stands_on(mount, other)
        })
    }

    fn stands_on(&self, mount: &Mount, other: &Mount) -> bool {
        let mut id = mount.id;
        // No chain is longer than there are mounts; a text that says otherwise is not followed round and round.
        for _ in 0..self.mounts.len() {
            match self.parents.get(&id) {
                Some(parent) if *parent == other.id => return true,
                Some(parent) if *parent != id => id = *parent,
                _ => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_has_any_number_of_optional_fields() {
        let line =
            b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:3 - ext3 /dev/root ro,errors=continue\n";
        let mount = parse(line).remove(0);
        assert_eq!((mount.id, mount.parent, mount.device.as_str()), (36, 35, "98:0"));
        assert_eq!((mount.root.as_path(), mount.point.as_path()), (Path::new("/mnt1"), Path::new("/mnt2")));
        assert_eq!(
            (mount.kind.as_str(), mount.source.as_str(), mount.read_only),
            ("ext3", "/dev/root", true)
        );
        assert_eq!(parse(b"36 35 98:0 / /mnt rw - ext4 /dev/vda rw\n").len(), 1);
    }

    #[test]
    fn spaces_and_the_like_are_escaped() {
        let mounts = parse(b"1 0 8:1 / /my\\040disk\\134\\011x rw - ext4 /dev/s\\040da rw\n");
        assert_eq!(mounts[0].point, Path::new("/my disk\\\tx"));
        assert_eq!(mounts[0].source, "/dev/s da");
        assert_eq!(unescape(b"\\04"), b"\\04");
        assert_eq!(unescape(b"\\777\\"), b"\\777\\", "larger than a byte");
        assert_eq!(unescape(b"\xff\\303\\266"), b"\xff\xc3\xb6");
    }

    #[test]
    fn a_line_that_is_cut_off_is_left_out() {
        assert_eq!(parse(b"1 0 8:1 / / rw - ext4 /dev/vda rw\n2 1 8:2 / /a rw - ext4 /dev/vd").len(), 1);
        assert_eq!(parse(b"1 0 8:1 / / rw\n\n x \n"), []);
    }

    #[test]
    fn a_mount_over_another_hides_it() {
        let text = b"1 0 8:1 / / rw - ext4 a rw\n\
            2 1 8:2 / /data rw - ext4 b rw\n\
            3 1 8:3 / /data/deep rw - ext4 c rw\n\
            4 2 8:4 / /data/upon rw - ext4 d rw\n\
            5 4 8:5 / /data/upon rw - ext4 e rw\n\
            6 1 8:6 / /database rw - ext4 f rw\n";
        let mounts = parse(text);
        let tree = Tree::new(&mounts);
        let hidden: Vec<u32> =
            mounts.iter().filter(|mount| tree.hidden(mount)).map(|mount| mount.id).collect();
        // 3 was there before 2 was mounted over its path, and 5 lies on top of 4.
        assert_eq!(hidden, [3, 4]);
    }

    #[test]
    fn parents_that_go_in_circles_end() {
        let mounts =
            parse(b"1 2 8:1 / / rw - ext4 a rw\n2 1 8:2 / /x rw - ext4 b rw\n3 3 8:3 / /y rw - ext4 b rw\n");
        let tree = Tree::new(&mounts);
        assert!(mounts.iter().any(|mount| tree.hidden(mount)));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in prop::collection::vec(any::<u8>(), 0..200), line in "([0-9]{1,3} ){2}8:1 /[a-z\\\\0-7]{0,8} /[a-z\\\\0-7]{0,8} rw( -)? [a-z]{0,4} ?[a-z]{0,4}\n?") {
            parse(&text);
            let mounts = parse(line.as_bytes());
            Tree::new(&mounts).hidden(&mounts.first().cloned().unwrap_or_else(|| parse(b"1 1 8:1 / / rw - a b c\n").remove(0)));
        }
    }
}

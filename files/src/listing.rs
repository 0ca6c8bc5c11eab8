//! A page of the files in a folder, in the order of their names, each folder before what is in it.

use std::io;
use std::os::fd::OwnedFd;

use chrono::DateTime;
use estimand_api::file::{FileEntry, FilePage, FilePath};
use estimand_api::file_share::ReadPath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::root::{self, Root};

/// How many names are looked at for a page that few belong on.
const MAX_LOOKED_AT: usize = 50_000;
/// How deep a tree is looked at; no path of a file is longer.
const MAX_DEPTH: usize = 32;

/// The selection of files.
#[derive(Debug, Default)]
pub struct Listing {
    pub folder: Option<ReadPath>,
    /// Also what is in its folders.
    pub recursive: bool,
    /// A part of the path, in small or capital letters.
    pub contains: Option<String>,
    /// Those that come after this path.
    pub after: Option<ReadPath>,
    pub limit: usize,
}

impl Listing {
    /// The page; `top` is the place of its folder, of which the paths on it say nothing. Blocking.
    pub fn page(&self, root: &Root, top: Option<&FilePath>) -> io::Result<FilePage> {
        let folder = self.folder.as_ref().map(ReadPath::to_string);
        let folder = folder.as_deref();
        let top = root.folder(top.map(FilePath::as_str))?;
        // The names of `after` below the folder; nothing is left out if it is elsewhere.
        let below = |after: &ReadPath| match folder {
            Some(folder) => after.to_string().strip_prefix(folder)?.strip_prefix('/').map(str::to_owned),
            None => Some(after.to_string()),
        };
        let after = self.after.as_ref().and_then(below).unwrap_or_default();
        let after: Vec<&str> = after.split('/').filter(|name| !name.is_empty()).collect();
        let contains = self.contains.as_ref().map(|text| text.to_lowercase());
        let mut walk = Walk { listing: self, contains, page: FilePage::default(), looked_at: 0, last: None };
        if walk.folder(&top, folder.unwrap_or_default(), &after, 0)? == Walked::UntilFull {
            walk.page.next = walk.last;
        }
        Ok(walk.page)
    }
}

#[derive(PartialEq, Eq)]
enum Walked {
    ToTheEnd,
    UntilFull,
}

struct Walk<'a> {
    listing: &'a Listing,
    contains: Option<String>,
    page: FilePage,
    looked_at: usize,
    /// The path that was looked at last.
    last: Option<String>,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &OwnedFd, path: &str, after: &[&str], depth: usize) -> io::Result<Walked> {
        for name in names(folder)? {
            let first = after.first().copied().unwrap_or_default();
            if name.as_str() < first {
                continue;
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let is_given = name == first;
            let Some(entry) = entry(folder, &name, &path)? else { continue };
            let is_folder = entry.is_folder;
            if !is_given {
                if self.page.files.len() >= self.listing.limit || self.looked_at >= MAX_LOOKED_AT {
                    return Ok(Walked::UntilFull);
                }
                self.looked_at += 1;
                self.last = Some(path.clone());
                if self.contains.as_ref().is_none_or(|text| path.to_lowercase().contains(text)) {
                    self.page.files.push(entry);
                }
            }
            if is_folder && self.listing.recursive && depth + 1 < MAX_DEPTH {
                let inner = match open_inner(folder, name.as_str()) {
                    Err(error) if root::leads_nowhere(&error) => continue,
                    inner => inner?,
                };
                let after = if is_given { &after[1..] } else { &[] };
                if self.folder(&inner, &path, after, depth + 1)? == Walked::UntilFull {
                    return Ok(Walked::UntilFull);
                }
            }
        }
        Ok(Walked::ToTheEnd)
    }
}

fn names(folder: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        // A name that no path can have is of no use here.
        if let Ok(name) = entry.file_name().to_str()
            && FilePath::is_name(name)
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// None of what is gone meanwhile, and of links, pipes and devices.
fn entry(folder: &OwnedFd, name: &str, path: &str) -> io::Result<Option<FileEntry>> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    let is_folder = match root::kind_of(&stat) {
        FileType::RegularFile => false,
        FileType::Directory => true,
        _ => return Ok(None),
    };
    Ok(Some(FileEntry {
        path: path.to_owned(),
        is_folder,
        size: if is_folder { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) },
        modified_at: DateTime::from_timestamp_micros(root::modified(&stat)).unwrap_or_default(),
        sha256: None,
    }))
}

pub fn open_inner(folder: &OwnedFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn some_files() -> (TempDir, Root) {
        let place = tempfile::tempdir().unwrap();
        for file in
            ["a.txt", "a/one", "a/two/three", "b/.estimand-x", "b/Four", ".estimand-uploads/part", "a-b"]
        {
            let path = place.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        symlink("/etc", place.path().join("etc")).unwrap();
        let root = Root::open(place.path()).unwrap();
        (place, root)
    }

    /// A page of an operator, to whom the folders are where they say.
    fn page_of(listing: &Listing, root: &Root) -> io::Result<FilePage> {
        listing.page(root, listing.folder.as_ref().map(ReadPath::path))
    }

    fn paths(page: &FilePage) -> Vec<&str> {
        page.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn a_folder_comes_before_what_is_in_it() {
        let (_place, root) = some_files();
        let all = Listing { recursive: true, limit: 100, ..Listing::default() };
        let page = page_of(&all, &root).unwrap();
        assert_eq!(paths(&page), ["a", "a/one", "a/two", "a/two/three", "a-b", "a.txt", "b", "b/Four"]);
        assert_eq!((page.files[1].size, page.files[0].is_folder, page.next), (5, true, None));
        let flat = Listing { recursive: false, ..all };
        assert_eq!(paths(&page_of(&flat, &root).unwrap()), ["a", "a-b", "a.txt", "b"]);
        let inner = Listing { folder: Some("a/two".parse().unwrap()), ..flat };
        assert_eq!(paths(&page_of(&inner, &root).unwrap()), ["a/two/three"]);
    }

    #[test]
    fn pages_go_on_where_the_one_before_ended() {
        let (_place, root) = some_files();
        for folder in [None, Some("a".parse::<ReadPath>().unwrap())] {
            let whole = Listing { recursive: true, limit: 100, folder: folder.clone(), ..Listing::default() };
            let whole = page_of(&whole, &root).unwrap();
            for limit in 1..4 {
                let (mut after, mut found) = (None, Vec::new());
                loop {
                    let listing =
                        Listing { recursive: true, limit, after, folder: folder.clone(), contains: None };
                    let page = page_of(&listing, &root).unwrap();
                    found.extend(page.files);
                    let Some(next) = page.next else { break };
                    after = Some(next.parse().unwrap());
                }
                assert_eq!(found, whole.files, "{limit} at a time");
            }
        }
    }

    #[test]
    fn files_are_found_by_a_part_of_their_path() {
        let (_place, root) = some_files();
        let found =
            Listing { contains: Some("FOUR".to_owned()), recursive: true, limit: 9, ..Listing::default() };
        assert_eq!(paths(&page_of(&found, &root).unwrap()), ["b/Four"]);
    }
}

//! Following a log from file to file.
//!
//! The current file is kept open, so lines added after it was renamed are still read; it is left only for another one
//! that is not empty, since a writer goes on in the old one until it has opened the new one. A file
//! that was deleted is read to its end and let go, because holding it keeps its space.

use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::find::renamed;
use super::matches::Matches;
use super::pattern::Match;
use super::place::{PartialLine, Place, Tail};
use super::scan::{backwards, bare, forwards};
use super::source::{Reads, Source};
use super::{Options, stored};
use crate::Failure;
use crate::bounds::Bounds;

/// The places in as many files are remembered, so that going back to one of them repeats nothing.
const MOST_KNOWN: usize = 32;

/// The current file.
struct OpenFile {
    source: Source,
    place: Place,
}

pub(super) struct Follower {
    pub options: Options,
    pub seen: Matches,
    pub reads: Reads,
    held: Option<OpenFile>,
    /// Where reading stands in other files, the latest last.
    pub known: Vec<Place>,
    /// The file that was read last, by its own name.
    pub file: Option<String>,
    /// True once anything was read; until then the past is searched.
    pub begun: bool,
    /// The state of an earlier process was read.
    restored: bool,
    written: String,
}

impl Follower {
    pub(super) fn new(options: Options, bounds: Bounds) -> Self {
        let seen = Matches::new(options.lines);
        Follower {
            options,
            seen,
            reads: Reads::within(bounds),
            held: None,
            known: Vec::new(),
            file: None,
            begun: false,
            restored: false,
            written: String::new(),
        }
    }

    /// Reads what there is to read; gives whether the file is there.
    pub(super) fn look(&mut self, until: Instant) -> Result<bool, Failure> {
        let found = self.options.target.open(&self.reads)?;
        if !self.restored {
            self.restore()?;
        }
        let here = found.is_some();
        if let Some(mut held) = self.held.take() {
            let outcome = held.source.refresh().and_then(|()| self.go_on(&mut held, found.as_ref(), until));
            let done = match outcome {
                Ok(done) => done,
                Err(error) => {
                    self.held = Some(held);
                    return Err(error.into());
                }
            };
            if !done {
                self.held = Some(held);
                return Ok(here);
            }
            self.remember(held.place);
        }
        match found {
            Some(source) => self.turn_to(source, until)?,
            // One that comes later has no past: all of it is news.
            None => self.begun = true,
        }
        Ok(here)
    }

    /// The name of the file that was read last.
    pub(super) fn path(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Where reading stands in the file in hand.
    pub(super) fn place(&self) -> Option<&Place> {
        self.held.as_ref().map(|held| &held.place)
    }

    /// Writes down where it stands, if that changed. A folder that cannot be written costs what a restart would have
    /// been spared, and nothing now.
    pub(super) fn keep(&mut self) {
        let Some(folder) = &self.options.folder else { return };
        let text = written(self);
        if self.restored && text != self.written && stored::write(folder, &text).is_ok() {
            self.written = text;
        }
    }

    /// Reads on in the file in hand. Gives whether it is done with: there is another one to turn to, or it is deleted.
    fn go_on(&mut self, held: &mut OpenFile, found: Option<&Source>, until: Instant) -> Result<bool, String> {
        let other = found.filter(|found| found.id != held.source.id);
        let last = held.source.deleted || other.is_some_and(|other| other.size > 0);
        if !held.place.holds(&held.source)? {
            held.place = Place::beginning(held.source.id);
        }
        let at_end = self.advance(held, last, until)?;
        Ok(last && at_end)
    }

    /// Opens another file: where it was left, or from its beginning, or, the very first time, from its end.
    fn turn_to(&mut self, source: Source, until: Instant) -> Result<(), String> {
        let place = match self.known.iter().position(|place| place.id == source.id) {
            Some(index) => {
                Some(self.known.remove(index)).filter(|place| place.holds(&source).unwrap_or(false))
            }
            None => None,
        };
        let place = match place {
            Some(place) => place,
            None if self.begun => Place::beginning(source.id),
            None => self.first_search(&source, until)?,
        };
        self.begun = true;
        self.file = Some(source.path.display().to_string());
        let mut held = OpenFile { source, place };
        let advanced = self.advance(&mut held, false, until);
        self.held = Some(held);
        advanced.map(|_| ())
    }

    fn first_search(&mut self, source: &Source, until: Instant) -> Result<Place, String> {
        let (pattern, lines) = (&self.options.pattern, self.options.lines);
        let at = source.at();
        let mut newest_first = Vec::new();
        let place = backwards(source, self.options.search, until, |line| {
            newest_first.extend(pattern.on(line, at.as_deref()));
            newest_first.len() >= lines
        })?;
        let place =
            place.ok_or_else(|| format!("{} could not be searched in time", source.path.display()))?;
        newest_first.into_iter().rev().for_each(|one| self.seen.push(one));
        Ok(place)
    }

    /// Takes the lines from the place to the end of the file; `last` if nothing will be added. Gives whether that end
    /// was reached.
    fn advance(&mut self, held: &mut OpenFile, last: bool, until: Instant) -> Result<bool, String> {
        let OpenFile { source, place } = held;
        let end = source.size;
        if end.saturating_sub(place.offset) > self.options.search {
            (place.inside, place.tail) = (true, None);
            place.move_to(source, end - self.options.search)?;
        }
        let (seen, pattern, at) = (&mut self.seen, &self.options.pattern, source.at());
        let rest = forwards(source, place, end, until, |place, line| {
            seen.take_back(place.tail);
            seen.line(pattern, line, at.as_deref());
        })?;
        if place.offset + (rest.len() as u64) < end {
            return Ok(false);
        }
        let before = place.tail;
        let is_taken = before.and_then(|tail| tail.taken).is_some_and(|taken| taken.end == end);
        let is_whole = last || source.quiet() || before.is_some_and(|tail| tail.end == end);
        if rest.is_empty() {
            place.tail = None;
        } else if is_taken || !is_whole {
            place.tail = Some(Tail { end, taken: before.and_then(|tail| tail.taken) });
        } else {
            seen.take_back(before);
            let matched = seen.line(pattern, bare(&rest), at.as_deref());
            place.tail = Some(Tail { end, taken: Some(PartialLine { end, matched }) });
        }
        if last {
            place.tail = None;
            place.move_to(source, end)?;
        }
        Ok(true)
    }

    fn remember(&mut self, place: Place) {
        self.known.retain(|known| known.id != place.id);
        self.known.push(place);
        let most = self.known.len().saturating_sub(MOST_KNOWN);
        self.known.drain(..most);
    }

    /// Restores the stored state. Its file is found again by its number, also under another name, and is the same if
    /// the bytes before the place are: numbers are used again.
    fn restore(&mut self) -> Result<(), String> {
        self.restored = true;
        let Some(text) = self.options.folder.as_deref().and_then(stored::read) else { return Ok(()) };
        let Some(state) = stored::parse(&text, &self.options) else { return Ok(()) };
        (self.seen, self.known, self.begun) = (state.seen, state.known, true);
        self.file = state.file;
        self.written = text;
        let (Some(mut place), Some(file)) = (state.place, self.file.clone()) else { return Ok(()) };
        let Some(path) = renamed(Path::new(&file), place.id.inode) else { return Ok(()) };
        // The renamed file may be beyond reach; then it is gone, and the new file is still to be read.
        if let Ok(Some(source)) = Source::open(&path, &self.reads)
            && place.holds(&source)?
        {
            place.id = source.id;
            self.held = Some(OpenFile { source, place });
        }
        Ok(())
    }
}

/// The state as it is stored.
fn written(follower: &Follower) -> String {
    let all = |places: &[Place]| places.iter().map(Place::written).collect::<Vec<_>>();
    let value = json!({
        "path": follower.options.target.to_string(),
        "pattern": follower.options.pattern.text(),
        "lines": follower.options.lines,
        "begun": follower.begun,
        "count": follower.seen.count,
        "matches": follower.seen.matches.iter().map(Match::shown).collect::<Vec<_>>(),
        "file": follower.path(),
        "place": follower.place().map(Place::written),
        "known": all(&follower.known),
    });
    value.to_string()
}

//! Lines of a file, forwards from a place and backwards from the end, in blocks: at most a block and a line of a
//! file are in memory. A line of more than [`MOST_LINE`] is passed over.

use std::time::Instant;

use super::place::Place;
use super::source::Source;

pub(super) const BLOCK: u64 = 256 * 1024;

pub(super) const MOST_LINE: usize = 2 << 20;

/// Without its end, whichever that is.
pub(super) fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Gives the whole lines from a place to an end, and moves the place along; then what there is of a line without an
/// end. Stops early when the time is over.
pub(super) fn forwards(
    source: &Source,
    place: &mut Place,
    end: u64,
    until: Instant,
    mut on_line: impl FnMut(&mut Place, &[u8]),
) -> Result<Vec<u8>, String> {
    let mut block = vec![0; BLOCK as usize];
    let mut line: Vec<u8> = Vec::new();
    let (mut at, mut offset) = (place.offset, place.offset);
    while at < end && Instant::now() < until {
        let most = BLOCK.min(end - at) as usize;
        let count = source.read(&mut block[..most], at)?;
        if count == 0 {
            break;
        }
        let mut rest = &block[..count];
        while let Some(newline) = rest.iter().position(|byte| *byte == b'\n') {
            if place.inside {
                place.inside = false;
            } else if line.len() + newline <= MOST_LINE {
                line.extend_from_slice(&rest[..newline]);
                on_line(place, bare(&line));
            }
            place.tail = None;
            line.clear();
            rest = &rest[newline + 1..];
            offset = at + (count - rest.len()) as u64;
        }
        at += count as u64;
        if !place.inside {
            line.extend_from_slice(rest);
            place.inside = line.len() > MOST_LINE;
        }
        if place.inside {
            line.clear();
            (offset, place.tail) = (at, None);
        }
    }
    place.move_to(source, offset)?;
    Ok(line)
}

/// Looks at whole lines from the end back, for as far as is allowed, until it is told that they are enough; gives the
/// place after the last whole line. None if the time is over before.
pub(super) fn backwards(
    source: &Source,
    most: u64,
    until: Instant,
    mut enough: impl FnMut(&[u8]) -> bool,
) -> Result<Option<Place>, String> {
    let floor = source.size.saturating_sub(most);
    let mut block = vec![0; BLOCK as usize];
    // The part read of the line that ends after the block; true if that is too much.
    let (mut line, mut too_long): (Vec<u8>, bool) = (Vec::new(), false);
    let mut place: Option<Place> = None;
    let mut at = source.size;
    let placed = |offset: u64, inside: bool| {
        let mut place = Place::beginning(source.id);
        place.inside = inside;
        place.move_to(source, offset).map(|()| place)
    };
    while at > floor {
        if Instant::now() >= until {
            return Ok(None);
        }
        let start = at.saturating_sub(BLOCK).max(floor);
        let block = &mut block[..(at - start) as usize];
        if source.read(block, start)? < block.len() {
            return Err(format!("{} shrank while it was read", source.path.display()));
        }
        let mut right = block.len();
        while let Some(newline) = block[..right].iter().rposition(|byte| *byte == b'\n') {
            let piece = &block[newline + 1..right];
            if place.is_none() {
                // The line after the last end is not whole.
                place = Some(placed(start + newline as u64 + 1, false)?);
            } else if !too_long && piece.len() + line.len() <= MOST_LINE {
                line.splice(..0, piece.iter().copied());
                if enough(bare(&line)) {
                    return Ok(place);
                }
            }
            line.clear();
            (too_long, right) = (false, newline);
        }
        too_long |= right + line.len() > MOST_LINE;
        match too_long {
            true => line.clear(),
            false => drop(line.splice(..0, block[..right].iter().copied())),
        }
        at = start;
    }
    let Some(place) = place else {
        // There is no end of a line: it is all of one that is still being written.
        let inside = floor > 0 || too_long;
        return placed(if inside { source.size } else { 0 }, inside).map(Some);
    };
    if floor == 0 && !too_long {
        enough(bare(&line));
    }
    Ok(Some(place))
}

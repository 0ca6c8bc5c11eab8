//! One field of an expression: which numbers it allows.
//!
//! We read fields ourselves, not the `cron` crate, because it counts weekdays from Sunday as 1, takes no
//! names within ranges with a step, and its errors don't say which field was wrong. A field is a set of bits,
//! in the numbers a crontab uses; it is never empty.

use super::CronError;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

pub(super) const SECOND: Kind = Kind { name: "second", least: 0, most: 59, names: &[], range: "0 to 59" };
pub(super) const MINUTE: Kind = Kind { name: "minute", least: 0, most: 59, names: &[], range: "0 to 59" };
pub(super) const HOUR: Kind = Kind { name: "hour", least: 0, most: 23, names: &[], range: "0 to 23" };
pub(super) const DAY_OF_MONTH: Kind =
    Kind { name: "day of month", least: 1, most: 31, names: &[], range: "1 to 31" };
pub(super) const MONTH: Kind =
    Kind { name: "month", least: 1, most: 12, names: &MONTHS, range: "1 to 12 or jan to dec" };
pub(super) const DAY_OF_WEEK: Kind = Kind {
    name: "day of week",
    least: 0,
    most: 7,
    names: &WEEKDAYS,
    range: "0 to 7 (0 and 7 are Sunday) or sun to sat",
};

/// The unit and the bounds of a field.
pub(super) struct Kind {
    name: &'static str,
    least: u32,
    most: u32,
    /// The names of the numbers from `least` on.
    names: &'static [&'static str],
    range: &'static str,
}

/// The numbers that a field allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    /// It begins with `*`; then a day field does not count as a restriction.
    pub(super) starred: bool,
}

impl Field {
    /// The numbers in ascending order.
    pub(super) fn numbers(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |number| self.bits >> number & 1 == 1)
    }
}

impl Kind {
    pub(super) fn parse(&self, text: &str) -> Result<Field, CronError> {
        let mut bits = 0;
        for item in text.split(',') {
            bits |= self.item(item).map_err(|problem| CronError::Field {
                field: self.name,
                given: text.to_owned(),
                problem,
                range: self.range,
            })?;
        }
        Ok(Field { bits, starred: text.starts_with('*') })
    }

    fn item(&self, item: &str) -> Result<u64, String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most),
            Some((first, last)) => self.range(first, last)?,
            None if step.is_some() => {
                return Err(format!(
                    "a step needs a range to step through, such as `{range}-{}/…`",
                    self.most
                ));
            }
            None => {
                let number = self.number(range)?;
                (number, number)
            }
        };
        let numbers = (first..=last).step_by(step.unwrap_or(1));
        Ok(numbers.fold(0, |bits, number| bits | 1 << number))
    }

    fn range(&self, first: &str, last: &str) -> Result<(u32, u32), String> {
        let (from, mut to) = (self.number(first)?, self.number(last)?);
        // A week may begin or end with Sunday; at the end of a range the name means the end.
        if from > 0 && last.eq_ignore_ascii_case(WEEKDAYS[0]) {
            to = 7;
        }
        match from <= to {
            true => Ok((from, to)),
            false => Err(format!("`{first}-{last}` runs backwards; write two ranges, parted by a comma")),
        }
    }

    fn step(&self, text: &str) -> Result<usize, String> {
        match plain_number(text) {
            Some(step) if (1..=self.most).contains(&step) => Ok(step as usize),
            _ => Err(format!("the step `{text}` is not from 1 to {}", self.most)),
        }
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(place) => Some(self.least + place as u32),
            None => plain_number(text),
        };
        match number {
            Some(number) if (self.least..=self.most).contains(&number) => Ok(number),
            Some(number) => Err(format!("{number} is out of range")),
            None => Err(format!("`{text}` is not known")),
        }
    }
}

/// Digits only: `parse` would also take a sign.
fn plain_number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

//! `--run-as-range FIRST-LAST`: the numbers that users of the cluster have on this machine.

use std::fmt;
use std::fs;
use std::str::FromStr;

/// More users than a node ever sees.
const MOST: u32 = 1 << 20;
/// The users and groups to whose containers this machine gives numbers, and so nobody else.
const SUBORDINATE: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// The numbers of users and of groups that are free for users of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRange {
    first: u32,
    last: u32,
}

impl UserRange {
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        self.first..=self.last
    }

    pub fn contains(self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
    }

    pub fn first(self) -> u32 {
        self.first
    }

    pub fn size(self) -> u32 {
        self.last - self.first + 1
    }

    /// The line of this machine's that gives one of the numbers to somebody else, with the file that it is in.
    pub fn given_away(self) -> Option<String> {
        SUBORDINATE.into_iter().find_map(|file| {
            let lines = fs::read_to_string(file).unwrap_or_default();
            Some(format!("{} of {file}", self.overlap(&lines)?))
        })
    }

    fn overlap(self, lines: &str) -> Option<&str> {
        lines.lines().find(|line| {
            let mut fields = line.trim().splitn(3, ':').skip(1).map(|field| field.parse::<u64>().ok());
            let (Some(Some(first)), Some(Some(count))) = (fields.next(), fields.next()) else { return false };
            first <= u64::from(self.last) && u64::from(self.first) < first.saturating_add(count)
        })
    }
}

impl FromStr for UserRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}` {why}: two numbers, such as 400000-465535");
        let (first, last) = text.split_once('-').ok_or_else(|| wrong("is no range"))?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong("is no range"));
        let (first, last) = (number(first)?, number(last)?);
        match first {
            0 => Err(wrong("has the number of root")),
            _ if last < first => Err(wrong("ends before it begins")),
            _ if last - first >= MOST => Err(wrong(&format!("has more than {MOST} numbers"))),
            // The highest number means "leave it as it is" to the kernel.
            _ if last == u32::MAX => Err(wrong("has a number that is no user")),
            _ => Ok(UserRange { first, last }),
        }
    }
}

impl fmt::Display for UserRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_numbers_of_users() {
        let range: UserRange = "200000-200999".parse().unwrap();
        assert_eq!((range.size(), range.to_string()), (1000, "200000-200999".to_owned()));
        assert!(range.contains(200_000) && range.contains(200_999) && !range.contains(201_000));
        for (text, part) in [
            ("200000", "no range"),
            ("a-b", "no range"),
            ("-5", "no range"),
            ("0-9", "root"),
            ("9-5", "ends before"),
            ("1-4294967295", "more than"),
            ("4294967290-4294967295", "no user"),
        ] {
            let error = text.parse::<UserRange>().unwrap_err();
            assert!(error.contains(part) && error.contains("400000-465535"), "{error}");
        }
    }

    #[test]
    fn numbers_of_somebody_elses_containers_are_not_free() {
        let range: UserRange = "200000-200999".parse().unwrap();
        let overlap = |lines| range.overlap(lines);
        assert_eq!(overlap("joe:100000:65536\nnonsense\n"), None);
        assert_eq!(overlap("joe:100000:65536\njane:165536:65536\n"), Some("jane:165536:65536"));
        assert_eq!((overlap("a:199999:1"), overlap("a:201000:9")), (None, None));
        assert!(overlap("a:200999:1").is_some() && overlap("a:1:4000000000").is_some());
    }
}

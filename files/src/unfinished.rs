//! The uploads that are not finished: which are being sent at the moment, and what is on disk of the others, by owner.
//!
//! The disk has what came; this is what is known of it without looking. It is read at a start and corrected when uploads that
//! nobody goes on with are removed.

use std::collections::HashMap;

use crate::owner::Owner;
use crate::upload_error::UploadError;

/// How many are sent at the same time: by users, of whom each has a share of them; and by tasks, and the tasks of one user.
pub const MAX_SENT: usize = 256;
const MAX_SENT_BY_TASKS_OF_ONE: usize = 32;
/// How many are kept, of one owner and in all.
const MAX_KEPT_OF_ONE: usize = 256;
const MAX_KEPT: usize = 8_192;

#[derive(Debug, Default)]
pub struct Unfinished {
    /// By the names of their files.
    parts: HashMap<String, Part>,
    /// Counts what is begun or gone on with: a larger number was touched later.
    touches: u64,
}

#[derive(Debug)]
struct Part {
    touched: u64,
    is_sent: bool,
}

/// The name of the file of an upload, with its owner.
pub fn part_name(digest: &str, owner: &Owner) -> String {
    format!("{digest}.{owner}")
}

pub fn owner_of(name: &str) -> Option<Owner> {
    Owner::parse(name.split_once('.')?.1)
}

impl Unfinished {
    /// Takes the files that are there, the one that was touched last at the end; those that are being sent stay.
    pub fn correct(&mut self, names: impl IntoIterator<Item = String>) {
        self.parts.retain(|_, part| part.is_sent);
        for name in names {
            self.touches += 1;
            self.parts.entry(name).or_insert(Part { touched: self.touches, is_sent: false });
        }
    }

    pub fn is_sent(&self, name: &str) -> bool {
        self.parts.get(name).is_some_and(|part| part.is_sent)
    }

    /// Notes that an upload is being sent from here on. Returns the names of uploads that go for it: those that were idle for the
    /// longest time, of the same owner if they have too many, or else of whoever has most.
    pub fn begin(&mut self, name: &str, owner: &Owner) -> Result<Vec<String>, UploadError> {
        if self.is_sent(name) {
            return Err(UploadError::Busy);
        }
        let sent =
            || self.parts.iter().filter(|(_, part)| part.is_sent).filter_map(|(name, _)| owner_of(name));
        let is_one_user = owner.is_tasks() && owner.name().is_some();
        if is_one_user && sent().filter(|other| other == owner).count() >= MAX_SENT_BY_TASKS_OF_ONE {
            return Err(UploadError::TooManyOfTasks { most: MAX_SENT_BY_TASKS_OF_ONE });
        }
        if sent().filter(|other| other.is_tasks() == owner.is_tasks()).count() >= MAX_SENT {
            return Err(UploadError::TooMany);
        }
        self.touches += 1;
        self.parts.insert(name.to_owned(), Part { touched: self.touches, is_sent: true });
        let own = self.parts.keys().filter(|name| owner_of(name).as_ref() == Some(owner)).count();
        let surplus = match (own > MAX_KEPT_OF_ONE, self.parts.len() > MAX_KEPT) {
            (true, _) => self.longest_idle(Some(owner)),
            (false, true) => self.longest_idle(self.largest().as_ref()),
            (false, false) => None,
        };
        let Some(surplus) = surplus else { return Ok(Vec::new()) };
        self.parts.remove(&surplus);
        Ok(vec![surplus])
    }

    /// Notes that an upload is not being sent any more; its file stays if it is to be gone on with.
    pub fn end(&mut self, name: &str) {
        if let Some(part) = self.parts.get_mut(name) {
            self.touches += 1;
            *part = Part { touched: self.touches, is_sent: false };
        }
    }

    pub fn forget(&mut self, name: &str) {
        self.parts.remove(name);
    }

    pub fn count(&self) -> usize {
        self.parts.len()
    }

    fn longest_idle(&self, owner: Option<&Owner>) -> Option<String> {
        let idle = self.parts.iter().filter(|(name, part)| !part.is_sent && owner_of(name).as_ref() == owner);
        idle.min_by_key(|(_, part)| part.touched).map(|(name, _)| name.clone())
    }

    /// The owner of most idle ones; none: those that nobody is said to own.
    fn largest(&self) -> Option<Owner> {
        let mut counts: HashMap<Option<Owner>, usize> = HashMap::new();
        for (name, _) in self.parts.iter().filter(|(_, part)| !part.is_sent) {
            *counts.entry(owner_of(name)).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).and_then(|(owner, _)| owner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn begin(table: &mut Unfinished, name: usize, owner: &Owner) -> Result<Vec<String>, UploadError> {
        table.begin(&part_name(&name.to_string(), owner), owner)
    }

    #[test]
    fn tasks_send_beside_all_users_and_those_of_one_user_a_part() {
        let mut table = Unfinished::default();
        let alice = Owner::user("alice");
        (0..MAX_SENT).for_each(|name| drop(begin(&mut table, name, &alice).unwrap()));
        assert!(matches!(begin(&mut table, 0, &alice), Err(UploadError::Busy)));
        assert!(matches!(begin(&mut table, 0, &Owner::user("bob")), Err(UploadError::TooMany)));
        let of_alice = Owner::tasks_of("alice");
        (0..MAX_SENT_BY_TASKS_OF_ONE).for_each(|name| drop(begin(&mut table, name, &of_alice).unwrap()));
        assert!(matches!(begin(&mut table, 99, &of_alice), Err(UploadError::TooManyOfTasks { .. })));
        begin(&mut table, 0, &Owner::tasks_of("bob")).unwrap();
        table.end(&part_name("0", &alice));
        begin(&mut table, 0, &Owner::user("bob")).unwrap();
    }

    #[test]
    fn of_too_many_of_one_owner_the_longest_idle_goes() {
        let mut table = Unfinished::default();
        let (alice, bob) = (Owner::user("alice"), Owner::user("bob"));
        let mut keep = |name: usize, owner: &Owner| {
            let gone = begin(&mut table, name, owner).unwrap();
            table.end(&part_name(&name.to_string(), owner));
            gone
        };
        assert!(keep(0, &bob).is_empty());
        (0..MAX_KEPT_OF_ONE).for_each(|name| assert!(keep(name, &alice).is_empty()));
        // The first one is gone on with.
        assert!(keep(0, &alice).is_empty());
        assert_eq!(keep(1_000, &alice), [part_name("1", &alice)]);
        assert_eq!(table.count(), MAX_KEPT_OF_ONE + 1);
        // Uploads that are found at a start count, too.
        let mut found = Unfinished::default();
        found.correct((0..MAX_KEPT_OF_ONE).map(|name| part_name(&name.to_string(), &alice)));
        assert_eq!(begin(&mut found, 1_000, &alice).unwrap(), [part_name("0", &alice)]);
    }

    #[test]
    fn of_too_many_of_all_whoever_has_most_gives_way() {
        let mut table = Unfinished::default();
        let owners: Vec<Owner> =
            (0..=MAX_KEPT / MAX_KEPT_OF_ONE).map(|n| Owner::user(&format!("u{n}"))).collect();
        let names = |owner, count| (0..count).map(move |n: usize| part_name(&n.to_string(), owner));
        let full = owners[1..].iter().flat_map(|owner| names(owner, MAX_KEPT_OF_ONE - 1));
        table.correct(full.chain(names(&owners[0], MAX_KEPT_OF_ONE / 8)));
        let gone = begin(&mut table, 1_000, &owners[0]).unwrap();
        assert!(gone.len() == 1 && !gone[0].ends_with(".u-u0"), "{gone:?}");
    }
}

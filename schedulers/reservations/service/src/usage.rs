//! The usage of each account: reservations and units that are open, and the bytes of all that is kept. It follows the reservations of the
//! table.

use std::collections::{BTreeSet, BinaryHeap, HashMap};

use estimand_reservations::Money;

use crate::reservation::Reservation;

/// The bounds of all users together. A user has a part of each.
pub const MAX_OPEN: u64 = 20_000;
pub const MAX_UNITS: u64 = 100_000;
pub const MAX_BYTES: u64 = 128 << 20;

#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Reservations that are not over.
    pub open: u64,
    /// Their units, and those of them that cost nothing.
    pub units: u64,
    pub free_units: u64,
    /// The bytes of all reservations that are kept.
    pub bytes: u64,
    /// The numbers of those that may make room, and how many bytes each has.
    over: BTreeSet<(u64, u64)>,
}

/// By account.
#[derive(Debug, Clone, Default)]
pub struct Usages {
    all: HashMap<String, Usage>,
    bytes: u64,
}

impl Usages {
    pub fn of(&self, account: &str) -> Option<&Usage> {
        self.all.get(account)
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &Usage)> {
        self.all.iter().map(|(account, usage)| (account.as_str(), usage))
    }

    /// The bytes of all accounts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn add(&mut self, reservation: &Reservation) {
        let usage = self.all.entry(reservation.account.clone()).or_default();
        let counted = Counted::of(reservation);
        usage.open += counted.open;
        usage.units += counted.units;
        usage.free_units += counted.free_units;
        usage.bytes += counted.bytes;
        self.bytes += counted.bytes;
        if !reservation.is_open() {
            usage.over.insert((reservation.number, counted.bytes));
        }
    }

    pub fn remove(&mut self, reservation: &Reservation) {
        let Some(usage) = self.all.get_mut(&reservation.account) else { return };
        let counted = Counted::of(reservation);
        usage.open -= counted.open;
        usage.units -= counted.units;
        usage.free_units -= counted.free_units;
        usage.bytes -= counted.bytes;
        self.bytes -= counted.bytes;
        usage.over.remove(&(reservation.number, counted.bytes));
        if usage.bytes == 0 {
            self.all.remove(&reservation.account);
        }
    }

    /// The oldest of an account that are over, which make room for so many bytes; fewer bytes if there are no more.
    pub fn oldest(&self, account: &str, bytes: u64) -> Freed {
        let mut freed = Freed::default();
        let over = self.all.get(account).into_iter().flat_map(|usage| &usage.over);
        for (number, size) in over {
            if freed.bytes >= bytes {
                break;
            }
            freed.numbers.push(*number);
            freed.bytes += size;
        }
        freed
    }

    /// The oldest that are over of the accounts with most bytes.
    pub fn oldest_of_largest(&self, bytes: u64) -> Freed {
        let mut accounts: Vec<(&String, &Usage)> = self.all.iter().collect();
        accounts.sort_by_key(|(_, usage)| std::cmp::Reverse(usage.bytes));
        let mut freed = Freed::default();
        for (account, _) in accounts {
            if freed.bytes >= bytes {
                break;
            }
            let more = self.oldest(account, bytes - freed.bytes);
            freed.bytes += more.bytes;
            freed.numbers.extend(more.numbers);
        }
        freed
    }

    /// The oldest that are over of the accounts that have most of them, so that nobody's are pushed out by whoever has more. None: so many are
    /// not over.
    pub fn oldest_of_most(&self, count: usize) -> Option<Vec<u64>> {
        let mut accounts: BinaryHeap<(usize, &str)> =
            self.all.iter().map(|(account, usage)| (usage.over.len(), account.as_str())).collect();
        let mut taken: HashMap<&str, usize> = HashMap::new();
        for _ in 0..count {
            let mut most = accounts.peek_mut()?;
            most.0 = most.0.checked_sub(1)?;
            *taken.entry(most.1).or_default() += 1;
        }
        let oldest = |(account, count): (&str, usize)| {
            self.all[account].over.iter().take(count).map(|(number, _)| *number)
        };
        Some(taken.into_iter().flat_map(oldest).collect())
    }
}

/// Reservations that make room.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Freed {
    pub numbers: Vec<u64>,
    pub bytes: u64,
}

/// One reservation's part of a usage.
struct Counted {
    open: u64,
    units: u64,
    free_units: u64,
    bytes: u64,
}

impl Counted {
    fn of(reservation: &Reservation) -> Counted {
        let is_open = !reservation.state().is_final();
        let units = if is_open { reservation.width() } else { 0 };
        let is_free = reservation.progress.offer.price == Money::ZERO;
        Counted {
            open: u64::from(is_open),
            units,
            free_units: if is_free { units } else { 0 },
            bytes: reservation.document.bytes,
        }
    }
}

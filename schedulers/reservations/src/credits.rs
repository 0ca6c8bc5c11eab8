//! Credits: balances of accounts, and the entries that move them. Money is never made or lost, except by a grant.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::money::Money;

/// The account of what reservations that are not over have paid. No user has such a name.
pub const HELD: &str = "(held)";
/// The operator's account: what reservations that are over have paid.
pub const INCOME: &str = "(income)";

/// All money together, so that every sum of entries fits into a column.
const MOST: Money = Money::microcredits(i64::MAX as u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    Grant,
    /// The price of a reservation, when it is made.
    Hold,
    /// The part of it that is given back.
    Refund,
    /// The part of it that is kept when it is cancelled.
    Fee,
    /// The price of what was delivered.
    Payment,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Grant => "grant",
            Reason::Hold => "hold",
            Reason::Refund => "refund",
            Reason::Fee => "fee",
            Reason::Payment => "payment",
        }
    }
}

/// A movement of money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the journal.
    pub number: u64,
    /// None: the money is new.
    pub payer: Option<String>,
    pub payee: String,
    pub amount: Money,
    pub reason: Reason,
    /// The number of the reservation that it is for.
    pub reservation: Option<u64>,
    /// The key of a grant.
    pub key: Option<String>,
    pub actor: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreditError {
    #[error("`{user}` has {has} credits, and {needs} are needed: an operator can grant {missing}")]
    TooFew { user: String, has: Money, needs: Money, missing: Money },
    #[error("there would be more than {MOST} credits, which is the most that all accounts can have together")]
    TooMany,
}

/// A grant that had a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedGrant {
    pub user: String,
    pub amount: Money,
}

/// The balances of all accounts. Their sum is what was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credits {
    balances: BTreeMap<String, Money>,
    granted: Money,
    /// The number of the last entry of the journal.
    pub last_entry: u64,
    grants: HashMap<String, KeyedGrant>,
}

impl Credits {
    /// Balances as they were stored.
    pub fn new(balances: BTreeMap<String, Money>, granted: Money, last_entry: u64) -> Credits {
        Credits { balances, granted, last_entry, grants: HashMap::new() }
    }

    pub fn balance(&self, account: &str) -> Money {
        self.balances.get(account).copied().unwrap_or_default()
    }

    pub fn granted(&self) -> Money {
        self.granted
    }

    /// The accounts of users.
    pub fn users(&self) -> impl Iterator<Item = (&str, Money)> {
        let users = self.balances.iter().filter(|(account, _)| ![HELD, INCOME].contains(&account.as_str()));
        users.map(|(account, balance)| (account.as_str(), *balance))
    }

    pub fn grant_of(&self, key: &str) -> Option<&KeyedGrant> {
        self.grants.get(key)
    }

    /// Notes the key of a grant that was made.
    pub fn note_grant(&mut self, key: &str, user: &str, amount: Money) {
        self.grants.insert(key.to_owned(), KeyedGrant { user: user.to_owned(), amount });
    }

    /// Refuses a grant after which the sum could not be counted.
    pub fn check_grant(&self, amount: Money) -> Result<(), CreditError> {
        let sum = self.granted.checked_add(amount).filter(|sum| *sum <= MOST);
        sum.map(drop).ok_or(CreditError::TooMany)
    }

    /// Refuses what an account cannot pay.
    pub fn check(&self, user: &str, needs: Money) -> Result<(), CreditError> {
        let has = self.balance(user);
        match needs.checked_sub(has).filter(|missing| *missing > Money::ZERO) {
            None => Ok(()),
            Some(missing) => Err(CreditError::TooFew { user: user.to_owned(), has, needs, missing }),
        }
    }

    /// Moves the money of an entry. False, and nothing moves, if there is not so much.
    pub fn apply(&mut self, entry: &Entry) -> bool {
        match &entry.payer {
            None => {
                let Some(granted) = self.granted.checked_add(entry.amount).filter(|sum| *sum <= MOST) else {
                    return false;
                };
                self.granted = granted;
                if let Some(key) = &entry.key {
                    self.note_grant(key, &entry.payee, entry.amount);
                }
            }
            Some(payer) => {
                let Some(left) = self.balance(payer).checked_sub(entry.amount) else { return false };
                self.balances.insert(payer.clone(), left);
            }
        }
        let balance = self.balances.entry(entry.payee.clone()).or_default();
        // No sum of balances exceeds what was granted.
        *balance = balance.checked_add(entry.amount).unwrap_or(Money::MAX);
        self.last_entry = self.last_entry.max(entry.number);
        true
    }

    /// The sum of all accounts; none if it cannot be counted.
    pub fn sum(&self) -> Option<Money> {
        self.balances.values().try_fold(Money::ZERO, |sum, balance| sum.checked_add(*balance))
    }
}

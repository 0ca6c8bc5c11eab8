//! Credits of users, with a journal: money moves and is neither made nor lost, except by a grant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::money::Money;

/// The account that prices are paid to.
pub const OPERATOR: &str = "operator";

/// One movement of money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "entry")]
pub enum Entry {
    /// New money, by the operator's word.
    Grant {
        to: String,
        amount: Money,
    },
    Payment {
        from: String,
        to: String,
        amount: Money,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error("`{user}` has {has} credits, and {needs} are needed")]
    TooLittle { user: String, has: Money, needs: Money },
    #[error("so much money cannot be counted: all accounts together can have at most {} credits", Money::MAX)]
    TooMuch,
}

/// All accounts. What they have together is what was granted.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    balances: BTreeMap<String, Money>,
    granted: Money,
    journal: Vec<Entry>,
}

impl Accounts {
    pub fn balance(&self, user: &str) -> Money {
        self.balances.get(user).copied().unwrap_or_default()
    }

    pub fn granted(&self) -> Money {
        self.granted
    }

    pub fn balances(&self) -> impl Iterator<Item = (&str, Money)> {
        self.balances.iter().map(|(user, amount)| (user.as_str(), *amount))
    }

    pub fn journal(&self) -> &[Entry] {
        &self.journal
    }

    pub fn grant(&mut self, to: &str, amount: Money) -> Result<(), AccountError> {
        self.granted = self.granted.checked_add(amount).ok_or(AccountError::TooMuch)?;
        self.add(to, amount);
        self.journal.push(Entry::Grant { to: to.to_owned(), amount });
        Ok(())
    }

    pub fn pay(&mut self, from: &str, to: &str, amount: Money) -> Result<(), AccountError> {
        let has = self.balance(from);
        let too_little = || AccountError::TooLittle { user: from.to_owned(), has, needs: amount };
        let left = has.checked_sub(amount).ok_or_else(too_little)?;
        self.balances.insert(from.to_owned(), left);
        self.add(to, amount);
        self.journal.push(Entry::Payment { from: from.to_owned(), to: to.to_owned(), amount });
        Ok(())
    }

    /// No sum of balances exceeds what was granted, so this cannot overflow.
    fn add(&mut self, to: &str, amount: Money) {
        let balance = self.balances.entry(to.to_owned()).or_default();
        *balance = balance.checked_add(amount).unwrap_or(Money::MAX);
    }

    /// The accounts that a journal leads to.
    pub fn replay(journal: &[Entry]) -> Result<Accounts, AccountError> {
        let mut accounts = Accounts::default();
        for entry in journal {
            match entry {
                Entry::Grant { to, amount } => accounts.grant(to, *amount)?,
                Entry::Payment { from, to, amount } => accounts.pay(from, to, *amount)?,
            }
        }
        Ok(accounts)
    }
}

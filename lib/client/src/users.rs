//! Users' limits and what they have of their shares: the client's half.

use std::collections::BTreeMap;

use bytes::Bytes;
use reqwest::Method;
use serde_json::Value;

use crate::{Client, Error, Repeat};
use estimand_api::names::UserName;
use estimand_api::problem::kind;
use estimand_api::share::{LimitChanges, Share, UserLimits, UserShares};

impl Client {
    /// Changes limits of a user.
    pub async fn limit_user(&self, user: &UserName, changes: &LimitChanges) -> Result<UserLimits, Error> {
        let body = Bytes::from(Value::Object(changes.to_map()).to_string());
        let url = self.url(&["api", "users", user.as_str()], &[]);
        let answer = self.send(Method::PATCH, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Lets the defaults count for a user.
    pub async fn unlimit_user(&self, user: &UserName) -> Result<UserLimits, Error> {
        let url = self.url(&["api", "users", user.as_str()], &[]);
        let answer = self.send(Method::DELETE, url, None, Repeat::Safe).await?;
        self.read(&answer)
    }

    /// What users have of their shares at all services of this client, by name; a user gets their own. Things of which
    /// several services have a part are added up.
    pub async fn shares(&self) -> Result<Vec<UserShares>, Error> {
        let mut all: BTreeMap<String, UserShares> = BTreeMap::new();
        for service in self.services() {
            let alone = Client { others: Default::default(), ..service.clone() };
            let answer = match alone.get(alone.url(&["api", "shares"], &[])).await {
                // A service of the version before.
                Err(Error::Problem(problem)) if problem.kind == kind::NOT_SERVED => continue,
                answer => answer?,
            };
            let found: Vec<UserShares> = alone.read(&answer)?;
            for UserShares { user, shares } in found {
                let known = all.entry(user.clone()).or_insert(UserShares { user, shares: BTreeMap::new() });
                for (kind, Share { used, limit, set }) in shares {
                    let sum = known.shares.entry(kind).or_insert(Share { used: 0, limit, set });
                    sum.used += used;
                    sum.limit = sum.limit.max(limit);
                }
            }
        }
        Ok(all.into_values().collect())
    }
}

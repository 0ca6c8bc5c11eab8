//! Shares as users have them: one answer, and one family of figures, for all services of a process.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_api::problem::Problem;
use estimand_api::share::{KINDS, KINDS_OF_SHARE, Limits, Share, ShareKind, UserShares};
use estimand_runtime::metrics::{Exposition, Kind};

use crate::failure::Failure;
use crate::live_shares;
use crate::role::{Principal, Role};
use crate::routes::Routes;
use crate::served_part::ServedPart;
use crate::shares::Users;

/// The users in `/metrics`: those that are nearest to a limit.
const SHOWN_USERS: usize = 50;

type Amounts = [u64; KINDS_OF_SHARE];

/// Filled by each service with what it owns.
#[derive(Debug, Default)]
pub struct ShareReport {
    bounds: [Option<u64>; KINDS_OF_SHARE],
    used: BTreeMap<String, Amounts>,
}

impl ShareReport {
    /// Says that a service bounds things of this kind; those of several services are added up.
    pub fn bound(&mut self, kind: ShareKind, bound: u64) {
        *self.bounds[kind as usize].get_or_insert(0) += bound;
    }

    /// Adds what a user has of a stored kind.
    pub fn add(&mut self, user: &str, kind: ShareKind, amount: u64) {
        if let Some(amounts) = self.used.get_mut(user) {
            amounts[kind as usize] += amount;
        } else {
            let mut amounts = Amounts::default();
            amounts[kind as usize] = amount;
            self.used.insert(user.to_owned(), amounts);
        }
    }

    fn shares(&self, limits: &Limits, amounts: &Amounts) -> BTreeMap<String, Share> {
        let share = |kind: ShareKind| {
            let bound = self.bounds[kind as usize]?;
            let limit = limits.limit(kind, bound);
            let set = limits.given(kind).is_some();
            Some(Share { used: amounts[kind as usize], limit, set })
        };
        let shares = KINDS.iter().filter_map(|declared| Some((declared.name, share(declared.kind)?)));
        shares.map(|(name, share)| (name.to_owned(), share)).collect()
    }
}

/// Asks the services of a process.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub parts: Arc<[Arc<dyn ServedPart>]>,
    pub users: Users,
}

impl Reporter {
    pub fn routes(&self) -> Routes {
        Routes::new("shares").add(Role::User, list, __path_list).share(self.clone())
    }

    /// The shares of all users, or of one.
    fn report(&self, only: Option<&str>) -> Vec<UserShares> {
        let mut report = ShareReport::default();
        live_shares::report_bounds(&mut report);
        self.parts.iter().for_each(|part| part.report_shares(&mut report));
        for user in self.users.all() {
            for declared in &KINDS {
                report.add(user.name(), declared.kind, user.held(declared.kind));
            }
        }
        let asked = report.used.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
        let shares = |(name, amounts): (&String, &Amounts)| {
            let limits = self.users.find(name).map(|user| user.limits()).unwrap_or_default();
            UserShares { user: name.clone(), shares: report.shares(&limits, amounts) }
        };
        asked.map(shares).collect()
    }

    pub fn write_figures(&self, text: &mut String) {
        let mut all = self.report(None);
        let fullest = |user: &UserShares| user.shares.values().map(part_used).max().unwrap_or(0);
        all.sort_by_cached_key(|user| std::cmp::Reverse(fullest(user)));
        let mut out = Exposition::new(text);
        let help = "Users that have a token or limits, or keep something";
        out.single("estimand_users", Kind::Gauge, help, all.len() as f64);
        all.truncate(SHOWN_USERS);
        let mut write = |family: &str, help: &str, amount: fn(&Share) -> u64| {
            out.family(family, Kind::Gauge, help);
            for UserShares { user, shares } in &all {
                for (kind, share) in shares {
                    out.sample(family, &[("user", user), ("kind", kind)], amount(share) as f64);
                }
            }
        };
        let used_help = "Amounts that a user has, of those users who are nearest to a limit";
        write("estimand_share_used", used_help, |share| share.used);
        write("estimand_share_limit", "Amounts that such a user may have", |share| share.limit);
    }
}

/// In thousandths.
fn part_used(share: &Share) -> u64 {
    share.used.saturating_mul(1000) / share.limit.max(1)
}

/// What users have of their shares in the services of this process, and their limits; a user sees their own.
#[utoipa::path(
    get,
    path = "/api/shares",
    tag = "access",
    responses(
        (status = 200, description = "By name of user", body = [UserShares]),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
async fn list(caller: Principal, reporter: ThinData<Reporter>) -> Result<HttpResponse, Failure> {
    Ok(HttpResponse::Ok().json(reporter.0.report(caller.user())))
}

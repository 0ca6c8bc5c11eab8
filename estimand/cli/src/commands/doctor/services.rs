//! Findings about the services: their answers, certificates, clocks, readiness, figures, and the token.

use chrono::{DateTime, TimeDelta, Utc};
use estimand_api::access::{Grant, TokenState, TokenView};
use estimand_api::problem::Problem;
use estimand_client::{Error, Health, Objection};

use super::finding::{Finding, or_ok};
use crate::output::words;

/// `Date` has no parts of a second, and the request takes its time.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(3);
/// Values that are valid for a minute are stale at once.
const CLOCKS_ARE_WRONG: TimeDelta = TimeDelta::seconds(60);
/// A certificate or a token is renewed before that.
const SOON: TimeDelta = TimeDelta::days(14);
/// Of the files that a process may have open.
const MOST_OPEN: f64 = 0.8;
/// Connections, values' files and slots take a few each.
const FEW_FILES: u64 = 4096;

/// The remedy for clocks that are apart.
pub const SAME_TIME: &str = "compare `timedatectl` on both machines; let each follow a time server";

/// One service, as it answered.
#[derive(Debug)]
pub struct ServiceSeen {
    pub address: String,
    pub health: Result<Health, Error>,
    /// When it was asked, and when it had answered.
    pub asked: DateTime<Utc>,
    pub answered: DateTime<Utc>,
    pub figures: Result<String, Error>,
    /// The soft limit of open files of its process, if it runs here and may be looked at.
    pub open_files_limit: Option<u64>,
    /// It is on this machine, and values need no token there.
    pub is_open: bool,
}

/// The answer to a request that only an operator may make.
#[derive(Debug)]
pub enum Standing {
    Operator(Vec<TokenView>),
    Refused(Error),
}

pub fn of_service(seen: &ServiceSeen, now: DateTime<Utc>) -> Vec<Finding> {
    let ServiceSeen { address, health, .. } = seen;
    let health = match health {
        Ok(health) => health,
        Err(error @ Error::Untrusted { objection, .. }) => {
            let finding = Finding::failure("tls", error.to_string());
            return vec![match remedy_for(*objection) {
                Some(remedy) => finding.remedy(remedy),
                None => finding,
            }];
        }
        Err(error) => return vec![Finding::failure("server", error.to_string())],
    };
    let took = (seen.answered - seen.asked).num_microseconds().unwrap_or_default() as f64 / 1_000.0;
    let version = seen.version().map(|version| format!(", version {version}")).unwrap_or_default();
    let mut all = vec![Finding::ok("server", format!("{address} answers in {}{version}", words::took(took)))];
    all.extend(clock(seen, health));
    all.extend(readiness(address, health));
    all.extend(certificate(seen, now));
    all.extend(access(seen));
    all.extend(figures(seen));
    all
}

/// The remedy for what speaks against the certificate of a service.
fn remedy_for(objection: Objection) -> Option<&'static str> {
    match objection {
        Objection::Issuer => Some(
            "--authority FILE, with the file `authority.pem` of the folder that `estimand pki init` made",
        ),
        Objection::Expired => Some(
            "estimand pki issue NAME --service, where the authority is; the service reads the new file by itself",
        ),
        Objection::Early => Some(SAME_TIME),
        Objection::Address => Some(
            "reach it by an address that its certificate names, or issue one that names this address, too: \
             estimand pki issue NAME --service --address ADDRESS",
        ),
        Objection::AuthorityItself => Some(
            "estimand pki init and estimand pki issue NAME --service make a certificate for the service, whose authority's \
             file is for --authority",
        ),
        Objection::Other => None,
    }
}

fn clock(seen: &ServiceSeen, health: &Health) -> Option<Finding> {
    let clock = health.clock?;
    // The clock was read between the two instants, up to a second after what it says.
    let behind = (seen.asked - clock - TimeDelta::seconds(1)).max(TimeDelta::zero());
    let ahead = (clock - seen.answered).max(TimeDelta::zero());
    let (apart, word) = if behind > ahead { (behind, "behind") } else { (ahead, "ahead of") };
    let found = format!(
        "the clock of {} is about {} {word} the one here",
        seen.address,
        words::took(apart.num_milliseconds() as f64)
    );
    Some(match () {
        () if apart > CLOCKS_ARE_WRONG => Finding::failure("clock", found).remedy(SAME_TIME),
        () if apart > CLOCKS_DIFFER => Finding::warning("clock", found).remedy(SAME_TIME),
        () => Finding::ok("clock", format!("the clocks here and at {} agree", seen.address)),
    })
}

fn readiness(address: &str, health: &Health) -> Vec<Finding> {
    let unready = health.unready.iter().map(|part| {
        let found = format!("{address}: the part `{}` is not ready: {}", part.field, part.message);
        Finding::failure("readiness", found).remedy("the log of that service says more")
    });
    or_ok(unready.collect(), "readiness", format!("every part of {address} is ready"))
}

fn certificate(seen: &ServiceSeen, now: DateTime<Utc>) -> Option<Finding> {
    if !seen.address.starts_with("https") {
        return None;
    }
    let seconds = seen.figure("estimand_tls_certificate_expires_timestamp_seconds")?;
    let end = DateTime::from_timestamp(seconds as i64, 0)?;
    let whose = format!("the certificate of {}", seen.address);
    let remedy = "estimand pki issue --help; a new certificate in the same file is read by itself";
    Some(match expiry("tls", &whose, end, now) {
        Some(finding) => finding.remedy(remedy),
        None => Finding::ok("tls", until(&whose, end)),
    })
}

fn access(seen: &ServiceSeen) -> Option<Finding> {
    seen.is_open.then(|| {
        let found = format!(
            "values of {} need no token on this machine, nor of those who reach a proxy on it; --require-token ends that",
            seen.address
        );
        Finding::ok("access", found)
    })
}

/// That something has expired or soon will.
pub fn expiry(check: &'static str, whose: &str, end: DateTime<Utc>, now: DateTime<Utc>) -> Option<Finding> {
    match () {
        () if end <= now => {
            Some(Finding::failure(check, format!("{whose} expired at {}", words::instant(end))))
        }
        () if end - now < SOON => Some(Finding::warning(check, until(whose, end))),
        () => None,
    }
}

fn until(whose: &str, end: DateTime<Utc>) -> String {
    format!("{whose} is valid until {}", words::instant(end))
}

fn figures(seen: &ServiceSeen) -> Vec<Finding> {
    if let Err(error) = &seen.figures {
        return vec![Finding::not_checked("figures", format!("of {}: {error}", seen.address))];
    }
    let mut all = Vec::new();
    for line in seen.lines().filter(|line| line.starts_with("estimand_background_failing{")) {
        if let Some(name) = line.split('"').nth(1).filter(|_| line.ends_with(" 1")) {
            let found = format!("the background loop `{name}` of {} fails, and is tried again", seen.address);
            all.push(Finding::warning("background", found).remedy("the log of that service says why"));
        }
    }
    let open = seen.figure("process_open_fds");
    if let (Some(open), Some(limit)) = (open, seen.open_files_limit) {
        let found = format!("{} has {open} files open and may have {limit}", seen.address);
        let remedy =
            "raise the limit: `LimitNOFILE=65536` in its unit of systemd, or `ulimit -n 65536` before it";
        all.push(match open > limit as f64 * MOST_OPEN || limit < FEW_FILES {
            true => Finding::warning("open files", found).remedy(remedy),
            false => Finding::ok("open files", found),
        });
    }
    all
}

impl ServiceSeen {
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.figures.as_deref().unwrap_or_default().lines()
    }

    fn figure(&self, name: &str) -> Option<f64> {
        let rest = |line: &str| line.strip_prefix(name)?.rsplit(' ').next()?.parse().ok();
        self.lines().find_map(rest)
    }

    /// The version of its binary.
    pub fn version(&self) -> Option<&str> {
        let line = self.lines().find(|line| line.starts_with("estimand_build_info{"))?;
        line.split("version=\"").nth(1)?.split('"').next()
    }
}

/// Findings about the token, by what an operator's request was answered.
pub fn of_token(standing: &Standing, shown: bool, now: DateTime<Utc>) -> Vec<Finding> {
    const MAKE: &str =
        "estimand token create NAME --role operate, by somebody who may; then ESTIMAND_TOKEN=…";
    let tokens = match standing {
        Standing::Operator(tokens) => tokens,
        Standing::Refused(Error::Problem(problem)) => return vec![refused(problem, shown).remedy(MAKE)],
        Standing::Refused(error) => return vec![Finding::not_checked("token", error.to_string())],
    };
    let mut all = vec![Finding::ok("token", "the role is operate: everything is allowed")];
    for token in tokens.iter().filter(|token| token.state == TokenState::Live && token.role != Grant::Join) {
        let Some(end) = token.expires_at else { continue };
        // The agents of nodes renew theirs by themselves.
        if token.role == Grant::Node {
            continue;
        }
        let whose = format!("the token `{}` (role {})", token.name, token.role);
        let new = format!("estimand token create NEW-NAME --role {}", token.role);
        all.extend(expiry("token", &whose, end, now).map(|finding| finding.remedy(new)));
    }
    all
}

fn refused(problem: &Problem, shown: bool) -> Finding {
    match problem.status {
        403 => Finding::warning("token", format!("{}: not everything can be looked at", problem.detail)),
        401 if !shown => {
            let found = "no token is shown, so only reading and writing values from this machine may work";
            Finding::warning("token", found)
        }
        _ => Finding::failure("token", problem.detail.clone()),
    }
}

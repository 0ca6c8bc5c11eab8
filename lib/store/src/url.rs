//! Store URLs: which database, and how to reach it.
//!
//! Errors in the text alone are found here, before anything is opened. A password is never shown. TLS is
//! configured in the words of each database's own clients; the drivers' words for it stay behind this seam.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use url::form_urlencoded;

use crate::Error;
use crate::driver::{CONNECT_TIMEOUT, STATEMENT_TIMEOUT};
use crate::error::explain;
use crate::preparation::Gate;
use crate::tls::Trust;

/// After this long without a word, the driver asks whether the server is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

const FORMS: &str = "sqlite://PATH, postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE or \
                     mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE";

/// A parsed store URL. Shown without its password.
#[derive(Clone)]
pub struct StoreUrl {
    pub(crate) shown: String,
    pub(crate) target: Target,
    /// None: connections are opened at once.
    pub(crate) gate: Option<Arc<Gate>>,
}

#[derive(Clone)]
pub(crate) enum Target {
    Sqlite(PathBuf),
    Postgres { config: Box<tokio_postgres::Config>, trust: Option<Trust> },
    Mysql { opts: mysql_async::Opts, trust: Option<Trust> },
}

impl StoreUrl {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| Error::Url(format!("there is no \"://\" in it; what is understood is {FORMS}")))?;
        match scheme {
            "sqlite" => sqlite(rest),
            "postgres" | "postgresql" => postgres(&Parts::split(scheme, rest)?),
            "mysql" | "mariadb" => mysql(&Parts::split(scheme, rest)?),
            other => Err(Error::Url(format!("{other:?} is no store; what is understood is {FORMS}"))),
        }
    }

    /// True for SQLite: a file of this machine, which one process uses at a time.
    pub fn is_sqlite(&self) -> bool {
        self.file().is_some()
    }

    /// The file of a SQLite store.
    pub fn file(&self) -> Option<&Path> {
        match &self.target {
            Target::Sqlite(path) => Some(path),
            Target::Postgres { .. } | Target::Mysql { .. } => None,
        }
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({})", self.shown)
    }
}

/// A server's URL in pieces. Drivers get it without our own parameters.
struct Parts<'a> {
    scheme: &'a str,
    credentials: Option<&'a str>,
    hosts: &'a str,
    database: &'a str,
    parameters: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Parts<'a> {
    fn split(scheme: &'a str, rest: &'a str) -> Result<Self, Error> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let would_be = format!("{scheme}://USER[:PASSWORD]@HOST[:PORT]/DATABASE would be right");
        if hosts.is_empty() {
            return Err(Error::Url(format!("it names no host; {would_be}")));
        }
        if database.is_empty() || database.contains('/') {
            return Err(Error::Url(format!(
                "it names no database, or a password with a \"/\" that is not written as %2F; {would_be}"
            )));
        }
        let parameters = form_urlencoded::parse(query.as_bytes()).collect();
        Ok(Self { scheme, credentials, hosts, database, parameters })
    }

    fn parameter(&self, name: &str) -> Result<Option<&str>, Error> {
        let mut found = self.parameters.iter().filter(|(key, _)| key == name);
        let first = found.next().map(|(_, value)| value.as_ref());
        match found.next() {
            None => Ok(first),
            Some(_) => Err(Error::Url(format!("{name} is given twice; once would be right"))),
        }
    }

    /// The URL for the driver, without the parameters in `ours`.
    fn for_driver(&self, scheme: &str, ours: &[&str]) -> String {
        let mut url = format!("{scheme}://");
        if let Some(credentials) = self.credentials {
            url.push_str(credentials);
            url.push('@');
        }
        url.push_str(self.hosts);
        url.push('/');
        url.push_str(self.database);
        let mut separator = '?';
        for (key, value) in self.parameters.iter().filter(|(key, _)| !ours.contains(&key.as_ref())) {
            url.push(separator);
            url.extend(form_urlencoded::byte_serialize(key.as_bytes()));
            url.push('=');
            // Drivers decode percent signs, but not every one decodes a plus as a space.
            url.push_str(
                &form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20"),
            );
            separator = '&';
        }
        url
    }

    fn shown(&self) -> String {
        let user = self.credentials.map(|text| match text.split_once(':') {
            Some((user, _)) => format!("{user}:***@"),
            None => format!("{text}@"),
        });
        let mut shown =
            format!("{}://{}{}/{}", self.scheme, user.unwrap_or_default(), self.hosts, self.database);
        let mut separator = '?';
        for (key, value) in &self.parameters {
            let value = if key.contains("pass") { "***" } else { value };
            shown.push_str(&format!("{separator}{key}={value}"));
            separator = '&';
        }
        shown
    }
}

fn sqlite(path: &str) -> Result<StoreUrl, Error> {
    if path.is_empty() {
        return Err(Error::Url("it names no file; sqlite://estimand.db would be right".to_owned()));
    }
    if path.starts_with(":memory:") {
        return Err(Error::Url(
            "a database in memory loses what it acknowledged when the process ends, and each connection \
             would have its own; name a file, such as sqlite://estimand.db"
                .to_owned(),
        ));
    }
    if let Some(unfit) = path.chars().find(|c| matches!(c, '?' | '\0')) {
        return Err(Error::Url(format!(
            "{unfit:?} can't be in a file's name here: SQLite takes no parameters, and the path is taken as it is"
        )));
    }
    Ok(StoreUrl {
        shown: format!("sqlite://{path}"),
        target: Target::Sqlite(PathBuf::from(path)),
        gate: None,
    })
}

fn postgres(parts: &Parts<'_>) -> Result<StoreUrl, Error> {
    use tokio_postgres::config::SslMode;

    let roots = parts.parameter("sslrootcert")?.map(PathBuf::from);
    let (mode, trust) = match parts.parameter("sslmode")? {
        None | Some("disable") => (SslMode::Disable, None),
        Some("prefer") => (SslMode::Prefer, Some(Trust::Anyone)),
        Some("require") => (SslMode::Require, Some(Trust::Anyone)),
        Some("verify-full") => (SslMode::Require, Some(Trust::Verified { roots: roots.clone() })),
        Some(other) => {
            return Err(Error::Url(format!(
                "sslmode={other} is not understood; disable, prefer, require or verify-full would be right"
            )));
        }
    };
    refuse_idle_roots("sslrootcert", "sslmode=verify-full", roots.is_some(), trust.as_ref())?;
    let mut config =
        tokio_postgres::Config::from_str(&parts.for_driver("postgres", &["sslmode", "sslrootcert"]))
            .map_err(|error| Error::Url(explain(&error)))?;
    config
        .ssl_mode(mode)
        .application_name("estimand")
        .connect_timeout(CONNECT_TIMEOUT)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES)
        .tcp_user_timeout(STATEMENT_TIMEOUT);
    let target = Target::Postgres { config: Box::new(config), trust };
    Ok(StoreUrl { shown: parts.shown(), target, gate: None })
}

fn mysql(parts: &Parts<'_>) -> Result<StoreUrl, Error> {
    let roots = parts.parameter("ssl-ca")?.map(PathBuf::from);
    let trust = match parts.parameter("ssl-mode")? {
        None => None,
        Some(mode) => match mode.to_ascii_uppercase().as_str() {
            "DISABLED" => None,
            "REQUIRED" => Some(Trust::Anyone),
            "VERIFY_IDENTITY" => Some(Trust::Verified { roots: roots.clone() }),
            _ => {
                return Err(Error::Url(format!(
                    "ssl-mode={mode} is not understood; DISABLED, REQUIRED or VERIFY_IDENTITY would be right"
                )));
            }
        },
    };
    refuse_idle_roots("ssl-ca", "ssl-mode=VERIFY_IDENTITY", roots.is_some(), trust.as_ref())?;
    let opts = mysql_async::Opts::from_url(&parts.for_driver("mysql", &["ssl-mode", "ssl-ca"]))
        .map_err(|error| Error::Url(error.to_string()))?;
    let keepalive_ms = u32::try_from(KEEPALIVE_IDLE.as_millis()).unwrap_or(u32::MAX);
    let opts = mysql_async::OptsBuilder::from_opts(opts)
        .ssl_opts(trust.as_ref().map(Trust::for_mysql))
        .tcp_keepalive(Some(keepalive_ms))
        .tcp_nodelay(true)
        // The driver must not leave a server that it has reached for a local socket that only has the same name.
        .prefer_socket(false)
        // Statements are cached above the driver.
        .stmt_cache_size(0)
        // "No row was changed" and "there is no such row" must differ: that is how fencing is noticed.
        .client_found_rows(true);
    let target = Target::Mysql { opts: opts.into(), trust };
    Ok(StoreUrl { shown: parts.shown(), target, gate: None })
}

/// Roots that nothing is checked against would give a false sense of safety.
fn refuse_idle_roots(name: &str, needed: &str, given: bool, trust: Option<&Trust>) -> Result<(), Error> {
    if given && !matches!(trust, Some(Trust::Verified { .. })) {
        return Err(Error::Url(format!(
            "{name} is heeded only together with {needed}; add that, or leave it out"
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;

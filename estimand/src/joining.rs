//! The certificate of an agent: the agent joins once, with a token, and from then on renews its certificate.
//!
//! The agent's folder then holds the authority that it believes, its certificate and its key, which never
//! leaves it. The certificate is renewed when two thirds of its life are over, and again and again until that
//! succeeds; the clients read the new one by themselves.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use chrono::{DateTime, TimeDelta, Utc};
use estimand_api::access::{JoinAnswer, Token};
use estimand_api::identity::Identity;
use estimand_api::instant::to_rfc3339;
use estimand_api::names::NodeName;
use estimand_client::{CertificateFiles, Client, Credentials, Error, Options, Trust};
use estimand_pki::{AUTHORITY, Certificate, new_key, request, write_key, write_public};
use estimand_runtime::Stop;
use estimand_runtime::back_off::jittered;
use estimand_runtime::files::make_private_folder;

use crate::options::{AgentOptions, JoinToken};
use estimand_cli::credentials::{self, TlsOptions};

const CERTIFICATE: &str = "node.pem";
const KEY: &str = "node.key";
/// The key with which a node asks to join, until it has: the token is good for that one, also if the answer is lost and
/// the agent is started again.
const ASKING_KEY: &str = "joining.key";

/// Between two attempts to join services that do not answer yet.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// A token that was made just now is known to all services after a while.
const KNOWN_AFTER: Duration = Duration::from_secs(4);
/// Between two looks at how old the certificate is: clocks are set, and machines sleep.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const COMPLAIN_EVERY: Duration = Duration::from_secs(600);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// The credentials of an agent, and the renewal that keeps them from expiring.
pub struct Shown {
    pub credentials: Credentials,
    pub renewal: Option<Renewal>,
}

/// Finds the credentials of an agent: its certificate, joining for one if it is told to, or a token.
pub async fn shown(options: &AgentOptions, stop: &Stop) -> anyhow::Result<Shown> {
    let place = Place { folder: options.data_dir.clone(), node: options.node.clone() };
    match (place.state()?, &options.join) {
        (State::Joined, _) => {}
        (_, Some(join)) => {
            let token = join.read().with_context(|| match join {
                JoinToken::Given(_) => "--join".to_owned(),
                JoinToken::File(file) => {
                    format!("this node has not joined yet, and --join-file {} cannot be read", file.display())
                }
            })?;
            place.join(&options.servers, &token, stop).await?;
        }
        (State::Never, None) => {
            let address = options.servers.first().map_or("", String::as_str);
            let tls = TlsOptions { authority: options.authority.clone(), certificate: None };
            let credentials = credentials::of(address, tls)?;
            return Ok(Shown { credentials, renewal: None });
        }
        (State::Over(why), None) => bail!("{why}: {}", place.how_to_join()),
    }
    let trust = options.authority.clone().unwrap_or_else(|| place.file(AUTHORITY));
    let credentials = Credentials {
        token: None,
        trust: Some(Trust::Authority(trust)),
        identity: Some(CertificateFiles { certificate: place.file(CERTIFICATE), key: place.file(KEY) }),
    };
    let servers = options.servers.clone();
    let renewal = Renewal { place, servers, credentials: credentials.clone() };
    Ok(Shown { credentials, renewal: Some(renewal) })
}

/// Where the certificate of a node is kept.
struct Place {
    folder: PathBuf,
    node: NodeName,
}

enum State {
    /// There is no certificate.
    Never,
    Joined,
    /// There is one that is worth nothing, for that reason.
    Over(String),
}

impl Place {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn certificate(&self) -> anyhow::Result<Certificate> {
        let file = self.file(CERTIFICATE);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Certificate::first_in(&text).with_context(|| file.display().to_string())
    }

    fn state(&self) -> anyhow::Result<State> {
        let file = self.file(CERTIFICATE);
        if !file.exists() {
            return Ok(State::Never);
        }
        let found = self.certificate()?;
        let file = file.display();
        Ok(match found.who {
            Some(Identity::Node(node)) if node == self.node => match found.not_after <= Utc::now() {
                true => State::Over(format!("{file} expired at {}", instant(found.not_after))),
                false => State::Joined,
            },
            Some(other) => State::Over(format!("{file} is for the {other}, not for the node {}", self.node)),
            None => State::Over(format!("{file} names nobody")),
        })
    }

    /// Keeps the authorities that a service believes which is believed itself: so one can take another's place.
    fn believe(&self, authority: &str) -> anyhow::Result<()> {
        let file = self.file(AUTHORITY);
        if fs::read_to_string(&file).is_ok_and(|known| known == authority) {
            return Ok(());
        }
        Certificate::first_in(authority).context("the authority that the service gave")?;
        write_public(&file, authority)?;
        tracing::info!(file = %file.display(), "the services believe other authorities now, and so does this node");
        Ok(())
    }

    fn how_to_join(&self) -> String {
        format!(
            "this node has to join again: `estimand token create NAME --role join --node {}` where the operator is, then \
             `estimand agent --join TOKEN` here",
            self.node
        )
    }

    /// Joins; as long as no service answers it goes on trying.
    async fn join(&self, servers: &[String], join: &str, stop: &Stop) -> anyhow::Result<()> {
        let (token, pin) = read_join(join)?;
        if let Some(plain) = servers.iter().find(|server| !server.starts_with("https://")) {
            bail!("joining takes TLS, and {plain} has none: expected https://…");
        }
        let folder = &self.folder;
        make_private_folder(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let key = self.asking_key()?;
        let asked = request(&key)?;
        let credentials = Credentials { token: Some(token), trust: Some(Trust::Pin(pin)), identity: None };
        let clients = clients(servers, &credentials)?;
        let (mut told, began) = (false, Instant::now());
        loop {
            for client in &clients {
                match client.sign_certificate(&self.node, &asked).await {
                    Ok(joined) => return self.keep(&joined, &key, &pin),
                    Err(error) if is_passing(&error, began) => {
                        if !told {
                            tracing::warn!(%error, "this node cannot join yet; it is tried again");
                        }
                        told = true;
                    }
                    Err(error) => {
                        // Another token may well be refused for this key, too.
                        let _ = fs::remove_file(self.file(ASKING_KEY));
                        return Err(error).context("this node cannot join");
                    }
                }
            }
            tokio::select! {
                () = stop.requested() => bail!("asked to stop before this node could join"),
                () = tokio::time::sleep(TRY_AGAIN) => {}
            }
        }
    }

    /// A key that is on the disk before anybody hears of it.
    fn asking_key(&self) -> anyhow::Result<String> {
        let file = self.file(ASKING_KEY);
        if let Some(key) = fs::read_to_string(&file).ok().filter(|key| request(key).is_ok()) {
            return Ok(key);
        }
        let key = new_key()?;
        write_key(&file, &key)?;
        Ok(key)
    }

    /// The certificate last: when it is there, so is all that it needs.
    fn keep(&self, joined: &JoinAnswer, key: &str, pin: &[u8; 32]) -> anyhow::Result<()> {
        if Certificate::first_in(&joined.authority)?.digest != *pin {
            bail!("the service gave another authority than the one that the join token names");
        }
        write_public(&self.file(AUTHORITY), &joined.authority)?;
        write_key(&self.file(KEY), key)?;
        write_public(&self.file(CERTIFICATE), &joined.certificate)?;
        let _ = fs::remove_file(self.file(ASKING_KEY));
        tracing::info!(node = %self.node, until = %instant(joined.expires_at), "this node has joined");
        Ok(())
    }
}

/// Renews the certificate of a node for as long as it runs.
pub struct Renewal {
    place: Place,
    servers: Vec<String>,
    credentials: Credentials,
}

impl Renewal {
    pub async fn run(&self, stop: &Stop) {
        let mut complained: Option<(Instant, bool)> = None;
        // Not all nodes that joined together at the same time.
        let early = fastrand::f64() / 20.0;
        while !stop.is_requested() {
            let wait = match self.place.certificate() {
                Ok(found) => {
                    let now = Utc::now();
                    let wait = until(due(&found, early), now);
                    match wait.is_zero() {
                        false => wait,
                        true => match self.renew().await {
                            Ok(()) => {
                                complained = None;
                                SHORTEST_WAIT
                            }
                            Err(error) => {
                                self.complain(&found, now, &mut complained, &error);
                                pause(&found)
                            }
                        },
                    }
                }
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "the certificate of this node is gone");
                    LONGEST_WAIT
                }
            };
            tokio::select! {
                () = stop.requested() => return,
                () = tokio::time::sleep(wait.clamp(SHORTEST_WAIT, LONGEST_WAIT)) => {}
            }
        }
    }

    async fn renew(&self) -> anyhow::Result<()> {
        let key_file = self.place.file(KEY);
        let key =
            fs::read_to_string(&key_file).with_context(|| format!("cannot read {}", key_file.display()))?;
        let asked = request(&key)?;
        let mut last = None;
        for client in clients(&self.servers, &self.credentials)? {
            match client.sign_certificate(&self.place.node, &asked).await {
                Ok(joined) => {
                    self.place.believe(&joined.authority)?;
                    write_public(&self.place.file(CERTIFICATE), &joined.certificate)?;
                    tracing::info!(until = %instant(joined.expires_at), "the certificate of this node was renewed");
                    return Ok(());
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| anyhow::anyhow!("there is nobody to ask"), anyhow::Error::from))
    }

    /// When it begins, when it is too late, and again now and then, since a person has to act on it.
    fn complain(
        &self,
        found: &Certificate,
        now: DateTime<Utc>,
        before: &mut Option<(Instant, bool)>,
        error: &anyhow::Error,
    ) {
        let is_over = found.not_after <= now;
        if before.is_some_and(|(at, was_over)| was_over == is_over && at.elapsed() < COMPLAIN_EVERY) {
            return;
        }
        *before = Some((Instant::now(), is_over));
        let (until, error) = (instant(found.not_after), format!("{error:#}"));
        match is_over {
            true => {
                let what = self.place.how_to_join();
                tracing::error!(%error, "the certificate of this node expired at {until}; {what}");
            }
            false => {
                tracing::warn!(%error, "the certificate of this node, valid until {until}, is not renewed yet");
            }
        }
    }
}

/// When two thirds of its life are over, or a little earlier.
fn due(found: &Certificate, early: f64) -> DateTime<Utc> {
    let life = found.not_after - found.not_before;
    let part = 2.0 / 3.0 - early;
    found.not_before + TimeDelta::milliseconds((life.num_milliseconds() as f64 * part).round() as i64)
}

fn until(due: DateTime<Utc>, now: DateTime<Utc>) -> Duration {
    (due - now).to_std().unwrap_or_default()
}

/// A small part of the life that is left when it is due, so that there are several attempts.
fn pause(found: &Certificate) -> Duration {
    let life = (found.not_after - found.not_before).to_std().unwrap_or_default();
    jittered(life / 20)
}

/// One attempt each: the caller tries again by itself.
fn clients(servers: &[String], credentials: &Credentials) -> anyhow::Result<Vec<Client>> {
    let options = || Options { attempts: 1, credentials: credentials.clone(), ..Options::default() };
    servers.iter().map(|server| Ok(Client::with_options(server, options())?)).collect()
}

/// True if the same request may well succeed later.
fn is_passing(error: &Error, began: Instant) -> bool {
    match error {
        Error::Unreachable { .. } => true,
        Error::Problem(problem) => match problem.status {
            503 => true,
            401 => began.elapsed() < KNOWN_AFTER,
            _ => false,
        },
        _ => false,
    }
}

/// The token, and the digest of the authority's certificate behind its last dot.
fn read_join(join: &str) -> anyhow::Result<(Token, [u8; 32])> {
    const EXPECTED: &str = "--join: expected what `estimand token create NAME --role join` printed";
    let (token, digits) = join.trim().rsplit_once('.').context(EXPECTED)?;
    let token = Token::parse(token).context(EXPECTED)?;
    let mut pin = [0; 32];
    if digits.len() != 2 * pin.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        bail!(EXPECTED);
    }
    for (byte, two) in pin.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(two)
            .ok()
            .and_then(|two| u8::from_str_radix(two, 16).ok())
            .context(EXPECTED)?;
    }
    Ok((token, pin))
}

fn instant(at: DateTime<Utc>) -> String {
    to_rfc3339(at.timestamp_micros())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_join_token_is_read_with_its_pin() {
        let text = format!("estimand_abcdefghijklmnopqrstuvwxyz.x.{}", "0a".repeat(32));
        let (token, pin) = read_join(&format!("{text}\n")).unwrap();
        assert_eq!((token.expose(), pin), ("estimand_abcdefghijklmnopqrstuvwxyz.x", [10; 32]));
        for wrong in [
            "",
            "estimand_abcdefghijklmnopqrstuvwxyz",
            "short.0a",
            &text[..text.len() - 2],
            &format!("{text}g"),
        ] {
            let error = read_join(wrong).unwrap_err().to_string();
            assert!(error.contains("estimand token create"), "{error}");
            assert!(!error.contains("abcdef"), "{error}");
        }
    }

    #[test]
    fn a_certificate_is_renewed_when_two_thirds_of_its_life_are_over() {
        let at = |second| DateTime::from_timestamp(second, 0).unwrap();
        let found = Certificate {
            who: None,
            not_before: at(1000),
            not_after: at(1900),
            key: [0; 32],
            digest: [0; 32],
        };
        assert_eq!(due(&found, 0.0), at(1600));
        assert_eq!(due(&found, 0.05), at(1555));
        assert_eq!(until(at(1600), at(1700)), Duration::ZERO);
        assert!(pause(&found) >= Duration::from_secs(15) && pause(&found) <= Duration::from_secs(45));
    }
}

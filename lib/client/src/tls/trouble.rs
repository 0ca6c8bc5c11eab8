//! Why a TLS connection could not be made, in words for people: what speaks against a certificate, and what would be right.

use estimand_api::instant::to_rfc3339;
use estimand_runtime::NO_AUTHORITIES;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, OtherError};

use super::AUTHORITY_VARIABLE;

/// The reason why a TLS connection could not be made.
pub(crate) enum Trouble {
    /// The certificate of the service is the reason.
    Untrusted(rustls::Error),
    Other(rustls::Error),
}

impl Trouble {
    /// The library's own error is somewhere among the causes, and wrapped by some of them.
    pub(crate) fn of(error: &reqwest::Error) -> Option<Trouble> {
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            if let Some(found) = tls_error(cause) {
                return Some(match found {
                    rustls::Error::InvalidCertificate(_) | rustls::Error::General(_) => {
                        Trouble::Untrusted(found.clone())
                    }
                    _ => Trouble::Other(found.clone()),
                });
            }
            source = cause.source();
        }
        None
    }

    /// The objection to the certificate of the service, if that is the reason.
    pub(crate) fn objection(&self) -> Option<Objection> {
        match self {
            Trouble::Untrusted(rustls::Error::InvalidCertificate(error)) => Some(Objection::of(error)),
            Trouble::Untrusted(_) => Some(Objection::Other),
            Trouble::Other(_) => None,
        }
    }

    /// Advice for people.
    pub(crate) fn advice(&self) -> Option<String> {
        match self {
            Trouble::Untrusted(rustls::Error::InvalidCertificate(error)) => advice_about(error),
            Trouble::Untrusted(rustls::Error::General(cause)) if cause == NO_AUTHORITIES => Some(format!(
                "an authority of your own: its file with --authority, or in {AUTHORITY_VARIABLE}"
            )),
            Trouble::Other(rustls::Error::InvalidMessage(_)) => {
                Some("what answers there does not speak TLS: is it an http:// address?".to_owned())
            }
            Trouble::Other(rustls::Error::AlertReceived(alert)) => match alert {
                AlertDescription::CertificateExpired => Some("the own certificate has expired".to_owned()),
                AlertDescription::UnknownCA => {
                    Some("the own certificate is of an authority that the service does not know".to_owned())
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// An objection to the certificate of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    /// It is of an authority that is not known here, or has signed itself.
    Issuer,
    /// It is an authority's, and shown as a service's: most often one that has signed itself.
    AuthorityItself,
    /// It has expired, by the clock here.
    Expired,
    /// It is not valid yet, by the clock here.
    Early,
    /// It does not name the address by which the service was reached.
    Address,
    Other,
}

impl Objection {
    fn of(error: &CertificateError) -> Self {
        match error {
            // An authority of the same name and another key is another one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Objection::Issuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Objection::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Objection::Early,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Objection::Address
            }
            CertificateError::Other(other) if is_authority(other) => Objection::AuthorityItself,
            _ => Objection::Other,
        }
    }
}

/// True if a certificate that may sign others was shown as a service's; `openssl req -x509` makes such by default.
fn is_authority(error: &OtherError) -> bool {
    error.0.to_string() == "CaUsedAsEndEntity"
}

fn advice_about(error: &CertificateError) -> Option<String> {
    Some(match Objection::of(error) {
        Objection::Issuer => format!(
            "its certificate is not signed by an authority that is known here, or it has signed itself: give the file of \
             its authority, or of itself, with --authority, or in {AUTHORITY_VARIABLE}"
        ),
        Objection::AuthorityItself => "its certificate has signed itself and may sign others, so whoever trusted it \
             would trust whatever it signs: give the service one that an authority has signed (`estimand pki init`, \
             `estimand pki issue NAME --service`, or `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`), and \
             its authority's file, or its own, here with --authority"
            .to_owned(),
        Objection::Expired => format!("{}; `estimand pki issue` makes a new one", time_of(error)?),
        Objection::Early => time_of(error)?,
        Objection::Address => names_of(error)?,
        Objection::Other => return None,
    })
}

/// The address that was asked for, and the names that the certificate has.
fn names_of(error: &CertificateError) -> Option<String> {
    const MOST: usize = 8;
    let CertificateError::NotValidForNameContext { expected, presented } = error else { return None };
    let mut names: Vec<String> = presented.iter().take(MOST).map(|name| bare(name)).collect();
    if presented.len() > MOST {
        names.push("others".to_owned());
    }
    let names = if names.is_empty() { "no address".to_owned() } else { names.join(", ") };
    let expected = expected.to_str();
    Some(format!(
        "its certificate names {names}, and not {expected}: reach it by an address that is named, or issue one that names \
         this one, too (`estimand pki issue NAME --service --address {expected}`)"
    ))
}

/// A name as the library shows it, `DnsName("a")` or `IpAddress(1.2.3.4)`, without its kind.
fn bare(shown: &str) -> String {
    let inner = shown.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(shown).trim_matches('"').to_owned()
}

/// The times of a certificate in words: the library tells them as seconds since 1970.
fn time_of(error: &CertificateError) -> Option<String> {
    let shown = |time: UnixTime| i64::try_from(time.as_secs()).ok()?.checked_mul(1_000_000).map(to_rfc3339);
    let (word, limit, now) = match error {
        CertificateError::ExpiredContext { time, not_after } => ("expired at", *not_after, *time),
        CertificateError::NotValidYetContext { time, not_before } => ("is valid from", *not_before, *time),
        _ => return None,
    };
    let (limit, now) = (shown(limit)?, shown(now)?);
    Some(format!("its certificate {word} {limit}, and the clock here says {now}"))
}

/// An I/O error passes over the error that it wraps when asked for its cause; I/O errors may be nested.
fn tls_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = cause.downcast_ref() {
        return Some(found);
    }
    tls_error(cause.downcast_ref::<std::io::Error>()?.get_ref()?)
}

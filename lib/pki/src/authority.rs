//! The authority: its key and its certificate in one folder, and the certificates that it signs.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::identity::Identity;
use estimand_runtime::files::make_private_folder;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::PkiError;
use crate::certificate::Certificate;
use crate::files::{AUTHORITY, AUTHORITY_KEY, write_key, write_public};

/// Ten years: every certificate that the authority signed has to be made again when it is over.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// A certificate is valid from a little before it was made, for machines whose clock is behind.
const MOST_BACKDATED: Duration = Duration::from_secs(5 * 60);
/// The longest common name that the standard allows.
const MAX_COMMON_NAME_CHARS: usize = 64;

/// An authority that can sign.
pub struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// A certificate with its authority's behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCertificate {
    /// PEM.
    pub chain: String,
    pub certificate: Certificate,
}

/// A certificate and its key.
pub struct CertificateWithKey {
    pub signed: SignedCertificate,
    /// PEM.
    pub key: String,
}

impl Authority {
    /// Makes an authority in a folder that has none.
    pub fn init(folder: &Path, now: DateTime<Utc>) -> Result<Authority, PkiError> {
        let (certificate_file, key_file) = (folder.join(AUTHORITY), folder.join(AUTHORITY_KEY));
        if [&certificate_file, &key_file].iter().any(|file| file.exists()) {
            return Err(PkiError::Exists(folder.display().to_string()));
        }
        let wrong = |source| PkiError::Write { file: folder.display().to_string(), source };
        make_private_folder(folder).map_err(wrong)?;
        let key = KeyPair::generate().map_err(PkiError::sign)?;
        let random = hex(&random::<4>()?);
        let mut params = params(&format!("Estimand authority {random}"), AUTHORITY_LIFETIME, now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let made = params.self_signed(&key).map_err(PkiError::sign)?;
        // The key first: a certificate without it would be an authority that cannot sign.
        write_key(&key_file, &key.serialize_pem())?;
        write_public(&certificate_file, &made.pem())?;
        Authority::open(folder)
    }

    pub fn open(folder: &Path) -> Result<Authority, PkiError> {
        Authority::open_files(&folder.join(AUTHORITY), &folder.join(AUTHORITY_KEY))
    }

    pub fn open_files(certificate_file: &Path, key_file: &Path) -> Result<Authority, PkiError> {
        let read = |file: &Path| fs::read_to_string(file).map_err(|error| PkiError::read(file, error));
        let pem = read(certificate_file)?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| PkiError::content(certificate_file, error))?;
        let key = KeyPair::from_pem(&read(key_file)?).map_err(|error| PkiError::content(key_file, error))?;
        if Certificate::read(&certificate)?.key != crate::certificate::sha256(&key.subject_public_key_info())
        {
            return Err(PkiError::content(key_file, "it is not the key of the authority's certificate"));
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|error| PkiError::content(certificate_file, error))?;
        Ok(Authority { certificate, pem, issuer })
    }

    /// The SHA-256 of its certificate.
    pub fn pin(&self) -> [u8; 32] {
        crate::certificate::sha256(&self.certificate)
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes a key and a certificate for it. That of a service holds its names and addresses, and those of `localhost`.
    pub fn issue(
        &self,
        who: &Identity,
        names: &[String],
        lifetime: Duration,
        now: DateTime<Utc>,
    ) -> Result<CertificateWithKey, PkiError> {
        let key = KeyPair::generate().map_err(PkiError::sign)?;
        let signed = self.sign_key(&key, who, names, lifetime, now)?;
        Ok(CertificateWithKey { signed, key: key.serialize_pem() })
    }

    /// Signs the public key of a request; the rest of the request is ignored.
    pub fn sign(
        &self,
        request: &str,
        who: &Identity,
        lifetime: Duration,
        now: DateTime<Utc>,
    ) -> Result<SignedCertificate, PkiError> {
        let request = CertificateSigningRequestParams::from_pem(request)
            .map_err(|error| PkiError::Request(error.to_string()))?;
        self.sign_key(&request.public_key, who, &[], lifetime, now)
    }

    fn sign_key(
        &self,
        key: &impl PublicKeyData,
        who: &Identity,
        names: &[String],
        lifetime: Duration,
        now: DateTime<Utc>,
    ) -> Result<SignedCertificate, PkiError> {
        let mut params = params(&who.to_string(), lifetime, now)?;
        let uri = Ia5String::try_from(who.to_uri()).map_err(PkiError::sign)?;
        params.subject_alt_names.push(SanType::URI(uri));
        let own: &[&str] = match who {
            Identity::Service(_) => &["localhost", "127.0.0.1", "::1"],
            Identity::Node(_) | Identity::Operator(_) => &[],
        };
        for name in own.iter().copied().chain(names.iter().map(String::as_str)) {
            params.subject_alt_names.push(subject(name)?);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if matches!(who, Identity::Service(_)) {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let made = params.signed_by(key, &self.issuer).map_err(PkiError::sign)?;
        let certificate = Certificate::read(made.der())?;
        Ok(SignedCertificate { chain: format!("{}{}", made.pem(), self.pem), certificate })
    }
}

fn params(name: &str, lifetime: Duration, now: DateTime<Utc>) -> Result<CertificateParams, PkiError> {
    let since_epoch = u64::try_from(now.timestamp())
        .map(Duration::from_secs)
        .map_err(|_| PkiError::sign("the clock is wrong"))?;
    let mut serial = random::<16>()?;
    // A positive number, and as long as it looks.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut distinguished_name = DistinguishedName::new();
    let short: String = name.chars().take(MAX_COMMON_NAME_CHARS).collect();
    distinguished_name.push(DnType::CommonName, short);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let lifetime = lifetime.min(AUTHORITY_LIFETIME);
    let mut params = CertificateParams::default();
    params.not_before = epoch + since_epoch.saturating_sub(MOST_BACKDATED.min(lifetime / 10));
    params.not_after = epoch + (since_epoch + lifetime);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = distinguished_name;
    Ok(params)
}

fn subject(name: &str) -> Result<SanType, PkiError> {
    let wrong = || PkiError::Name(name.to_owned());
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    match ServerName::try_from(name).map_err(|_| wrong())? {
        ServerName::DnsName(_) => Ok(SanType::DnsName(Ia5String::try_from(name).map_err(|_| wrong())?)),
        _ => Err(wrong()),
    }
}

fn random<const N: usize>() -> Result<[u8; N], PkiError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| PkiError::sign("the system gives no random bytes"))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

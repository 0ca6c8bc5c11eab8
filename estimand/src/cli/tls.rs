//! TLS options: certificate, key and authority of the services, and an agent's way to join them.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use estimand_api::duration::Span;

use crate::options::JoinToken;

/// The files in the folder of `--tls`, as `estimand pki` makes them.
const CERTIFICATE: &str = "service.pem";
const KEY: &str = "service.key";

// The argument structs below have no doc comments of their own: clap would take one for the text of the
// command.

#[derive(Debug, Args)]
pub struct TlsArgs {
    /// Speak TLS, with what lies in this folder: service.pem, service.key and authority.pem, as `estimand pki` makes
    /// them; with authority.key nodes can join here
    #[arg(long = "tls", id = "tls_folder", value_name = "DIR", value_hint = ValueHint::DirPath,
        conflicts_with_all = ["tls_certificate", "tls_key", "tls_authority"])]
    folder: Option<PathBuf>,
    /// Speak TLS with this certificate, those of its authorities behind it
    #[arg(long = "tls-certificate", id = "tls_certificate", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key")]
    certificate: Option<PathBuf>,
    /// The key of the certificate of --tls-certificate
    #[arg(long = "tls-key", id = "tls_key", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_certificate")]
    key: Option<PathBuf>,
    /// The authority whose certificates nodes, operators and the other services show
    #[arg(long = "tls-authority", id = "tls_authority", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_certificate")]
    authority: Option<PathBuf>,
    /// For how long the certificates of nodes that join are valid; they are renewed by themselves
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = node_lifetime)]
    node_certificates_for: Span,
}

/// Where the certificates of a service are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authority: Option<PathBuf>,
    /// Where the authority's key may be, with which nodes' certificates are signed.
    pub signs_in: Option<PathBuf>,
    pub node_certificates_for: Span,
}

impl TlsArgs {
    /// None: no TLS.
    pub fn files(self) -> Option<TlsFiles> {
        let node_certificates_for = self.node_certificates_for;
        match (self.folder, self.certificate, self.key) {
            (Some(folder), _, _) => Some(TlsFiles {
                certificate: folder.join(CERTIFICATE),
                key: folder.join(KEY),
                authority: Some(folder.join(estimand_pki::AUTHORITY)),
                signs_in: Some(folder),
                node_certificates_for,
            }),
            (None, Some(certificate), Some(key)) => Some(TlsFiles {
                certificate,
                key,
                authority: self.authority,
                signs_in: None,
                node_certificates_for,
            }),
            _ => None,
        }
    }
}

fn node_lifetime(text: &str) -> Result<Span, String> {
    const LEAST_SECONDS: u64 = 2;
    const MOST_SECONDS: u64 = 366 * 24 * 3600;
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    match (LEAST_SECONDS..=MOST_SECONDS).contains(&span.as_std().as_secs()) {
        true => Ok(span),
        false => Err("expected 2s to 366d".to_owned()),
    }
}

// How an agent makes itself known.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Join with this token, of `estimand token create --role join`; needed once [default: $ESTIMAND_JOIN]
    #[arg(long, value_name = "TOKEN", env = "ESTIMAND_JOIN", hide_env = true, hide_env_values = true)]
    pub join: Option<String>,
    /// Join with the token in this file, or `-` for standard input: arguments are seen by others; it is
    /// not read once the node has joined
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub join_file: Option<PathBuf>,
    /// Trust services with certificates of the authorities in this file [default: $ESTIMAND_AUTHORITY, else what the
    /// agent was told when it joined, else whom the system trusts]
    #[arg(long, value_name = "FILE", env = "ESTIMAND_AUTHORITY", hide_env = true, value_hint = ValueHint::FilePath)]
    pub authority: Option<PathBuf>,
}

impl JoinArgs {
    /// Where the token is, if one is given; an empty variable is none.
    pub fn source(&self) -> Option<JoinToken> {
        match (&self.join_file, &self.join) {
            (Some(file), _) => Some(JoinToken::File(file.clone())),
            (None, Some(token)) if !token.trim().is_empty() => Some(JoinToken::Given(token.clone())),
            (None, _) => None,
        }
    }
}

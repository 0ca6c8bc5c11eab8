//! The identity in the certificate of a connection. It was checked in the handshake; here it is only read.

use std::any::Any;
use std::sync::Arc;

use actix_tls::accept::rustls_0_23::TlsStream;
use estimand_api::identity::Identity;
use ring::digest::{SHA256, digest};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use crate::server::accepted_stream::AcceptedStream;

/// The identity in a client's valid certificate, kept in the data of its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    pub who: Identity,
    /// The same for people and for the audit trail, made once for all requests of the connection.
    pub name: Arc<str>,
    /// The one node that it speaks for, if it is one's.
    pub node: Option<Arc<str>>,
    /// The SHA-256 of its public key, as the certificate has it.
    pub key: [u8; 32],
    /// Microseconds. A connection may outlive its certificate.
    pub expires_at: i64,
}

impl PeerIdentity {
    /// None without a certificate, or for one that names none of our identities.
    pub(in crate::server) fn of(connection: &dyn Any) -> Option<PeerIdentity> {
        let stream = connection.downcast_ref::<TlsStream<AcceptedStream>>()?;
        let shown = stream.get_ref().1.peer_certificates()?.first()?;
        let known = PeerIdentity::read(shown);
        if known.is_none() {
            tracing::debug!("a client shows a certificate that names neither node nor service nor operator");
        }
        known
    }

    fn read(certificate: &[u8]) -> Option<PeerIdentity> {
        let (_, certificate) = parse_x509_certificate(certificate).ok()?;
        let names = certificate.subject_alternative_name().ok()??;
        let uris = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let who = Identity::among(uris).ok()?;
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, certificate.public_key().raw).as_ref());
        let name = format!("{who} (certificate)").into();
        let node = match &who {
            Identity::Node(node) => Some(node.as_str().into()),
            Identity::Service(_) | Identity::Operator(_) => None,
        };
        Some(PeerIdentity { who, name, node, key, expires_at: end(&certificate)? })
    }
}

/// In microseconds.
pub(super) fn expires_at(certificate: &[u8]) -> Option<i64> {
    end(&parse_x509_certificate(certificate).ok()?.1)
}

fn end(certificate: &X509Certificate<'_>) -> Option<i64> {
    certificate.validity().not_after.timestamp().checked_mul(1_000_000)
}

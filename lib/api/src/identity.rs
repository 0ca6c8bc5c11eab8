//! The identity that a certificate names: a node, a service or an operator.
//!
//! The name stands in the certificate as one URI, such as `estimand:node:n1`; nothing else in the certificate grants
//! anything. A certificate that names no identity, or two, or in another form, is rejected.

use std::fmt;

use crate::names::{DataName, NodeName};

const SCHEME: &str = "estimand:";

/// The identity that a certificate names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The agent of a node: it speaks for that one.
    Node(NodeName),
    /// A part of the plane.
    Service(DataName),
    /// A person or a program that may do everything.
    Operator(DataName),
}

/// None of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected estimand:node:NAME, estimand:service:NAME or estimand:operator:NAME")]
pub struct IdentityError;

impl Identity {
    /// Reads a URI that [`Identity::to_uri`] wrote, to the letter.
    pub fn parse(uri: &str) -> Result<Identity, IdentityError> {
        let rest = uri.strip_prefix(SCHEME).ok_or(IdentityError)?;
        let (kind, name) = rest.split_once(':').ok_or(IdentityError)?;
        match kind {
            "node" => NodeName::parse(name).map(Identity::Node).map_err(|_| IdentityError),
            "service" => DataName::parse(name).map(Identity::Service).map_err(|_| IdentityError),
            "operator" => DataName::parse(name).map(Identity::Operator).map_err(|_| IdentityError),
            _ => Err(IdentityError),
        }
    }

    /// The one identity among the URIs of a certificate; those of other schemes are none of our business.
    pub fn among<'a>(uris: impl IntoIterator<Item = &'a str>) -> Result<Identity, IdentityError> {
        let mut ours = uris.into_iter().filter(|uri| uri.starts_with(SCHEME));
        match (ours.next(), ours.next()) {
            (Some(uri), None) => Identity::parse(uri),
            _ => Err(IdentityError),
        }
    }

    pub fn to_uri(&self) -> String {
        format!("{SCHEME}{}:{}", self.kind(), self.name())
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Identity::Node(_) => "node",
            Identity::Service(_) => "service",
            Identity::Operator(_) => "operator",
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Identity::Node(name) => name.as_str(),
            Identity::Service(name) | Identity::Operator(name) => name.as_str(),
        }
    }
}

/// For people: `node n1`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_back_as_it_is_written() {
        for uri in ["estimand:node:rack-1.n7", "estimand:service:registry", "estimand:operator:alice"] {
            assert_eq!(Identity::parse(uri).unwrap().to_uri(), uri);
        }
    }

    #[test]
    fn a_certificate_without_exactly_one_of_our_names_names_nobody() {
        for wrong in [
            "",
            "estimand:node:",
            "estimand:node",
            "estimand:root:a",
            "ESTIMAND:node:a",
            "estimand:Node:a",
            "estimand:node:a/b",
            "estimand:node:a%41",
            "estimand:node: a",
            "estimand:operator:a:b/",
            "spiffe://node/a",
        ] {
            assert_eq!(Identity::parse(wrong), Err(IdentityError), "{wrong}");
        }
        assert!(Identity::among(["estimand:node:a", "estimand:node:b"]).is_err());
        assert!(Identity::among(["estimand:node:a", "estimand:root:b"]).is_err());
        assert!(Identity::among(["https://example.org"]).is_err());
        let one = Identity::among(["https://example.org", "estimand:node:a"]).unwrap();
        assert_eq!(one.to_string(), "node a");
    }
}

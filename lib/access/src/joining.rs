//! Certificates of nodes: a node joins with a join token, which is good for one key, and renews its certificate by
//! showing it. The token may be shown again with the same key, because a response may be lost.
//!
//! The key with which a node has joined is a row among the tokens, which each renewal prolongs: listing shows it, and
//! revoking it ends all certificates of that key at once. Only the key is taken from the signing request; the name is
//! that of the request's path, which was checked against the credential. A name that another key speaks for or spoke for,
//! that the manager has heard of, or that has values or placements is not given away, unless the token was made for that
//! very node.

use std::path::PathBuf;
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use chrono::{DateTime, Utc};
use estimand_api::access::{Grant, JoinAnswer, forbidden, unauthorized};
use estimand_api::fields::{self, Fields};
use estimand_api::identity::Identity;
use estimand_api::json::parse_object;
use estimand_api::names::NodeName;
use estimand_api::problem::{FieldError, Problem};
use estimand_pki::{Authority, PkiError, SignedCertificate};
use estimand_store::TokenRow;
use estimand_web::{Body, Failure, Principal, Role, path_node};

use crate::tokens::{Credential, CredentialKind, Tokens};
use crate::{Access, admission, digest, tokens, unreachable};

const MAX_BODY_BYTES: usize = 32 * 1024;

/// Signs the certificates of nodes: the authority in a folder, as it is there at that moment, so that another one can
/// take its place.
pub struct Signer {
    folder: PathBuf,
    /// How long each is valid.
    valid_for: Duration,
}

impl Signer {
    /// Wrong files are an error now; later, requests that need a signature are rejected until the files are right.
    pub fn open(folder: PathBuf, valid_for: Duration) -> Result<Signer, PkiError> {
        Authority::open(&folder)?;
        Ok(Signer { folder, valid_for })
    }

    /// The digest by which a joining node knows the authority.
    pub(crate) fn pin(&self) -> Result<String, Problem> {
        Ok(digest::hex(&self.authority()?.pin()))
    }

    fn authority(&self) -> Result<Authority, Problem> {
        Authority::open(&self.folder).map_err(|error| {
            tracing::error!(%error, "nothing can be signed");
            Problem::unavailable("the authority that signs cannot be read just now", 2)
        })
    }

    fn sign(
        &self,
        authority: &Authority,
        request: &str,
        node: &NodeName,
        now: i64,
    ) -> Result<SignedCertificate, Problem> {
        let now = DateTime::<Utc>::from_timestamp_micros(now).unwrap_or_default();
        let signed = authority.sign(request, &Identity::Node(node.clone()), self.valid_for, now);
        signed.map_err(|error| match error {
            PkiError::Request(_) => {
                let expected = "a certificate signing request in PEM";
                Problem::invalid_field(FieldError::new("request", error.to_string()).expected(expected))
            }
            error => {
                tracing::error!(%error, "a certificate cannot be signed");
                Problem::internal()
            }
        })
    }
}

/// The request of a node.
enum SigningRequest {}

estimand_api::described!(
    SigningRequest,
    [],
    serde_json::json!({
        "type": "object",
        "required": ["request"],
        "additionalProperties": false,
        "properties": {
            "request": {
                "description": "A certificate signing request in PEM, of which only the key is taken",
                "type": "string",
            },
        },
    })
);

/// Signs the certificate of a node: for a new one that shows a join token, and for one that renews its own.
#[utoipa::path(
    post,
    path = "/api/nodes/{node}/certificate",
    tag = "access",
    params(("node" = NodeName, Path, description = "The node that the certificate is for")),
    request_body(content = SigningRequest, description = "What is to be signed"),
    responses(
        (status = 201, description = "The certificate; a join token is used up", body = JoinAnswer),
        (status = 400, description = "The request is not valid", body = Problem),
        (status = 403, description = "What is shown is not for this node", body = Problem),
        (status = 409, description = "Another key speaks for this node, or no certificates are signed here", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn certificate(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BODY_BYTES>,
    access: ThinData<Access>,
) -> Result<HttpResponse, Failure> {
    let node = path_node(&req)?;
    let mut fields = Fields::new(parse_object(&body.0)?);
    let text = |value: &serde_json::Value| fields::string(value).map(str::to_owned);
    let request = fields.required("request", "a certificate signing request in PEM", text);
    fields.end_body()?;
    let Some(request) = request else { return Err(Problem::internal().into()) };
    // A signature needs a credential, also where everything else is open.
    let credential = admission::credential_of(&access.0, Role::Join, &req)?.ok_or_else(|| {
        unauthorized("a certificate is given for a join token: `Authorization: Bearer TOKEN`")
    })?;
    let joined = access.join(&node, &request, &credential, &caller.to_string()).await?;
    tracing::info!(%node, by = %caller, "a certificate was signed");
    let mut response = HttpResponse::Created();
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    Ok(response.json(joined))
}

impl Access {
    pub(crate) fn signer(&self) -> Result<&Signer, Problem> {
        self.0.signer.get().ok_or_else(|| {
            Problem::conflict(
                "no certificates are signed here: this service was started without `--tls DIR`, or there is no \
                 authority.key in that folder",
            )
        })
    }

    async fn join(
        &self,
        node: &NodeName,
        request: &str,
        credential: &Credential,
        by: &str,
    ) -> Result<JoinAnswer, Problem> {
        let signer = self.signer()?;
        let authority = signer.authority()?;
        check_may(credential, node)?;
        let _turn = self.0.turn.lock().await;
        self.load().await.map_err(|error| unreachable(&error))?;
        let now = self.0.clock.now_micros();
        let tokens = self.0.tokens.load_full();
        let signed = signer.sign(&authority, request, node, now)?;
        let key = digest::hex(&signed.certificate.key);
        let token = match credential.kind {
            CredentialKind::Token(token) if credential.grant == Grant::Join => {
                Some(tokens.to_join_with(&token, &key, now).ok_or_else(admission::unknown_token)?)
            }
            CredentialKind::Certificate(own)
                if credential.grant == Grant::Node && own != signed.certificate.key =>
            {
                return Err(forbidden(
                    "a certificate is renewed for its own key; for another one join again",
                ));
            }
            _ => None,
        };
        let before = tokens.of_key(&key);
        if before
            .is_some_and(|row| row.revoked_at.is_some() || row.node_name.as_deref() != Some(node.as_str()))
        {
            return Err(Problem::conflict("this key was revoked, or is another node's: make a new one"));
        }
        let others = tokens.certificates_for(node.as_str(), &key, now);
        // The key that has the name may ask again, because an answer may be lost.
        if credential.grant == Grant::Join && credential.node.is_none() && before.is_none() {
            check_free(node, &key, &tokens, now)?;
            self.check_unknown(node).await?;
        }
        if before.is_none() {
            tokens.check_room()?;
        }
        let end = signed.certificate.not_after;
        // A renewal keeps the labels; joining gives those of the token.
        let labels = token.or(before).and_then(|row| row.labels.clone());
        let (row, action) = match before {
            Some(row) => (TokenRow { expires_at: Some(end.timestamp_micros()), ..row.clone() }, "renewed"),
            None => (tokens::row_of_key(&key, node.as_str(), end.timestamp_micros(), by, now), "joined"),
        };
        let row = TokenRow { labels, ..row };
        // All of it or nothing, and nothing if another key joins with the token, or the key is revoked, at this moment.
        let unused = token.filter(|row| row.used_by.is_none());
        let live = unused.into_iter().chain(before).map(|row| row.id.clone()).collect();
        let used = unused.map(|row| TokenRow { used_by: Some(key), ..row.clone() });
        let over = used.map(|row| (row, "used")).into_iter();
        let over = over.chain(others.into_iter().map(|row| (row, "replaced")));
        let over = over.map(|(row, action)| (TokenRow { revoked_at: Some(now), ..row }, action));
        let rows = over.chain([(row, action)]).collect();
        let stored = self.store_unless_revoked(live, rows, by).await.map_err(|error| unreachable(&error))?;
        if !stored {
            return Err(Problem::unavailable("what was shown is used or revoked just now", 1));
        }
        Ok(JoinAnswer { certificate: signed.chain, authority: authority.pem().to_owned(), expires_at: end })
    }
}

impl Access {
    /// A name under which something is known is not given away, however its node made itself known.
    async fn check_unknown(&self, node: &NodeName) -> Result<(), Problem> {
        let name = node.clone();
        let known = self.0.worker.run(move |connection| connection.what_is_known_of(name.as_str()));
        match known.await.map_err(|error| unreachable(&error))? {
            None => Ok(()),
            Some(known) => Err(Problem::conflict(format!(
                "the node {node} has {known}: join with a token that was made for this node (--node {node})"
            ))),
        }
    }
}

/// Rejects a credential that is not good for a certificate of this node.
fn check_may(credential: &Credential, node: &NodeName) -> Result<(), Problem> {
    if let Some(own) = credential.node.as_deref()
        && own != node.as_str()
    {
        return Err(forbidden(format!("{} is for the node {own}, not for {node}", credential.description())));
    }
    match credential.grant {
        // A certificate is renewed again and again: it would outlive the token, and go on when that is revoked.
        Grant::Node if matches!(credential.kind, CredentialKind::Token(_)) => Err(forbidden(format!(
            "{} speaks for its node as it is; a certificate takes the role join",
            credential.description()
        ))),
        Grant::Join | Grant::Node | Grant::Operate => Ok(()),
        Grant::Read | Grant::Write | Grant::User => {
            Err(forbidden(format!("{} is for no node", credential.description())))
        }
    }
}

/// A name that something else speaks for is not given away.
fn check_free(node: &NodeName, key: &str, tokens: &Tokens, now: i64) -> Result<(), Problem> {
    match tokens.any_certificate_for(node.as_str(), key).or_else(|| tokens.token_for(node.as_str(), now)) {
        None => Ok(()),
        Some(other) => Err(Problem::conflict(format!(
            "`{other}` speaks for the node {node}, or did: join with a token that was made for this node (--node {node})"
        ))),
    }
}

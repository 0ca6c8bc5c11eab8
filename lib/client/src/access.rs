//! Tokens and the audit trail: the client's half.

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{Client, Error, Repeat};
use estimand_api::access::{AuditEntry, IssuedToken, JoinAnswer, NewToken, TokenView};
use estimand_api::names::NodeName;

impl Client {
    /// Makes a token; 409 if a live one has that name.
    pub async fn create_token(&self, new: &NewToken) -> Result<IssuedToken, Error> {
        let body = Bytes::from(Value::Object(new.to_map()).to_string());
        let url = self.url(&["api", "tokens"], &[]);
        let answer = self.send(Method::POST, url, Some(body), Repeat::OnlyIfNotTaken).await?;
        self.read(&answer)
    }

    /// All tokens, without their texts.
    pub async fn tokens(&self) -> Result<Vec<TokenView>, Error> {
        let answer = self.get(self.url(&["api", "tokens"], &[])).await?;
        self.read(&answer)
    }

    /// Revokes the live token of that name or id.
    pub async fn revoke_token(&self, name: &str) -> Result<TokenView, Error> {
        let url = self.url(&["api", "tokens", name], &[]);
        let answer = self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await?;
        self.read(&answer)
    }

    /// Has a request for a certificate (PEM) signed for a node.
    pub async fn sign_certificate(&self, node: &NodeName, request: &str) -> Result<JoinAnswer, Error> {
        let body = Bytes::from(json!({ "request": request }).to_string());
        let url = self.url(&["api", "nodes", node.as_str(), "certificate"], &[]);
        let answer = self.send(Method::POST, url, Some(body), Repeat::OnlyIfNotTaken).await?;
        self.read(&answer)
    }

    /// The audit trail, newest first.
    pub async fn audit(&self, limit: usize, before: Option<&str>) -> Result<Vec<AuditEntry>, Error> {
        let limit = limit.to_string();
        let mut query = vec![("limit", limit.as_str())];
        query.extend(before.map(|before| ("before", before)));
        let answer = self.get(self.url(&["api", "audit"], &query)).await?;
        self.read(&answer)
    }
}

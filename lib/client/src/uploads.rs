//! Uploaded files: sent to the registry, read by managers, and by agents from their manager.

use bytes::Bytes;
use estimand_api::names::NodeName;
use estimand_api::registration::Sha256;
use reqwest::Method;

use crate::{Client, Error, Payload, Repeat};

impl Client {
    /// Sends a file that a registration is to run.
    pub async fn upload(&self, content: Bytes) -> Result<(), Error> {
        let url = self.url(&["api", "uploads"], &[]);
        self.send_payload(Method::POST, url, Some(Payload::binary(content)), Repeat::Safe).await.map(drop)
    }

    /// A file, from the registry.
    pub async fn uploaded(&self, sha256: Sha256) -> Result<Bytes, Error> {
        let answer = self.get(self.url(&["api", "uploads", &sha256.to_string()], &[])).await?;
        Ok(answer.body)
    }

    /// A file that something on the node runs, from the manager.
    pub async fn node_upload(&self, node: &NodeName, sha256: Sha256) -> Result<Bytes, Error> {
        let sha256 = sha256.to_string();
        let answer = self.get(self.url(&["api", "nodes", node.as_str(), "uploads", &sha256], &[])).await?;
        Ok(answer.body)
    }
}

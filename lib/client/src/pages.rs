//! A selection of what is listed in pages: the part that lists of reservations and of studies have in common.

use url::Url;

use crate::Client;

/// A selection of reservations or studies, the newest first.
#[derive(Debug, Clone, Default)]
pub struct PageQuery {
    /// With commas between several; all if empty.
    pub states: String,
    pub user: Option<String>,
    /// The id of an entry; those that were made before it follow.
    pub before: Option<String>,
    pub limit: Option<u32>,
}

impl PageQuery {
    pub(crate) fn url(&self, client: &Client, path: &[&str]) -> Url {
        let limit = self.limit.map(|limit| limit.to_string());
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        pairs.extend(Some(("state", self.states.as_str())).filter(|(_, states)| !states.is_empty()));
        pairs.extend(self.user.as_deref().map(|user| ("user", user)));
        pairs.extend(self.before.as_deref().map(|before| ("before", before)));
        pairs.extend(limit.as_deref().map(|limit| ("limit", limit)));
        client.url(path, &pairs)
    }
}

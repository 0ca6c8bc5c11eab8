//! Resources and amounts of them: exact integers, such as processor time in thousandths or memory in bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name of a resource, as long as a label's key.
const MAX_RESOURCE_BYTES: usize = 63;

/// The name of a countable thing that nodes have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Resource(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the name of a resource: 1 to 63 of letters, digits and `._/-`, a letter or digit first"
)]
pub struct ResourceError(String);

impl Resource {
    pub fn parse(text: &str) -> Result<Resource, ResourceError> {
        let rest = |b: u8| b.is_ascii_alphanumeric() || b"._/-".contains(&b);
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        match first && text.len() <= MAX_RESOURCE_BYTES && text.bytes().all(rest) {
            true => Ok(Resource(Arc::from(text))),
            false => Err(ResourceError(text.chars().take(2 * MAX_RESOURCE_BYTES).collect())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Resource {
    type Error = ResourceError;
    fn try_from(text: String) -> Result<Resource, ResourceError> {
        Resource::parse(&text)
    }
}

impl From<Resource> for String {
    fn from(resource: Resource) -> String {
        resource.0.as_ref().to_owned()
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

/// How much of which resources. A resource of which there is nothing is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Resource, u64>")]
pub struct Amounts(BTreeMap<Resource, u64>);

impl Amounts {
    /// Amounts by names. Names that no resource has are left out.
    pub fn named<'a>(amounts: impl IntoIterator<Item = (&'a str, u64)>) -> Amounts {
        let named =
            amounts.into_iter().map(|(name, amount)| Resource::parse(name).map(|name| (name, amount)));
        named.flatten().collect()
    }

    pub fn get(&self, resource: &Resource) -> u64 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Resource, u64)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more resource, or another amount of it.
    #[must_use]
    pub fn with(mut self, resource: Resource, amount: u64) -> Amounts {
        self.0.insert(resource, amount);
        Amounts::from(self.0)
    }
}

impl From<BTreeMap<Resource, u64>> for Amounts {
    fn from(mut amounts: BTreeMap<Resource, u64>) -> Amounts {
        amounts.retain(|_, amount| *amount > 0);
        Amounts(amounts)
    }
}

impl FromIterator<(Resource, u64)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (Resource, u64)>>(amounts: I) -> Amounts {
        Amounts::from(amounts.into_iter().collect::<BTreeMap<_, _>>())
    }
}

/// `cpu:2000, gpu:1`, as people write it.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (resource, amount) in self.iter() {
            write!(f, "{between}{resource}:{amount}")?;
            between = ", ";
        }
        Ok(())
    }
}

/// Amounts as one ledger counts them: each resource is a number there. Many tasks share one shape.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape(pub(crate) Arc<[(usize, u64)]>);

impl Shape {
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied()
    }
}

//! A registration on its way from the manager to an agent, which may be older than the registry.
//!
//! An unknown field of a registration is never ignored: it may be a limit, a digest or a privilege. Such a
//! registration is decoded all the same, with the reasons why it cannot be run, so that it stops neither the others
//! nor the conversation; and it is written back as it came, so that a newer agent finds it whole.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::fields;
use crate::names::DataName;
use crate::problem::Problem;
use crate::registration::RegistrationRecord;

/// The registration of an assignment or of a run by hand.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignedRegistration {
    Supported(Arc<RegistrationRecord>),
    Unsupported(Arc<UnsupportedRegistration>),
}

/// A registration that this version cannot read.
#[derive(Clone, PartialEq)]
pub struct UnsupportedRegistration {
    /// None if not even that can be read.
    pub data_name: Option<DataName>,
    pub version: u64,
    /// The fields that are not known or not right, each in a sentence without its value, which may be a secret.
    pub reasons: Vec<String>,
    /// As it came.
    registration: Map<String, Value>,
}

impl AssignedRegistration {
    pub fn from_map(map: Map<String, Value>) -> Self {
        match RegistrationRecord::from_map(map.clone()) {
            Ok(registered) => AssignedRegistration::Supported(Arc::new(registered)),
            Err(problem) => {
                AssignedRegistration::Unsupported(Arc::new(UnsupportedRegistration::new(map, &problem)))
            }
        }
    }

    pub fn data_name(&self) -> Option<&DataName> {
        match self {
            AssignedRegistration::Supported(registered) => Some(&registered.registration.data_name),
            AssignedRegistration::Unsupported(unsupported) => unsupported.data_name.as_ref(),
        }
    }

    pub fn version(&self) -> u64 {
        match self {
            AssignedRegistration::Supported(registered) => registered.version,
            AssignedRegistration::Unsupported(unsupported) => unsupported.version,
        }
    }

    pub fn supported(&self) -> Option<&Arc<RegistrationRecord>> {
        match self {
            AssignedRegistration::Supported(registered) => Some(registered),
            AssignedRegistration::Unsupported(_) => None,
        }
    }
}

impl UnsupportedRegistration {
    fn new(registration: Map<String, Value>, problem: &Problem) -> Self {
        let reason = |error: &crate::problem::FieldError| format!("`{}` {}", error.field, error.message);
        let reasons = match problem.errors.as_slice() {
            [] => vec![problem.detail.clone()],
            errors => errors.iter().map(reason).collect(),
        };
        let data_name = registration.get("dataName").and_then(|name| fields::data_name(name).ok());
        let version = registration.get("version").and_then(Value::as_u64).unwrap_or(0);
        UnsupportedRegistration { data_name, version, reasons, registration }
    }
}

/// Without the registration, which may have secrets.
impl fmt::Debug for UnsupportedRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnsupportedRegistration { data_name, version, reasons, .. } = self;
        write!(f, "UnsupportedRegistration({data_name:?}, version {version}: {reasons:?})")
    }
}

impl Serialize for AssignedRegistration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AssignedRegistration::Supported(registered) => registered.to_map().serialize(serializer),
            AssignedRegistration::Unsupported(unsupported) => unsupported.registration.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for AssignedRegistration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(AssignedRegistration::from_map)
    }
}

//! Registrations that this agent cannot read, because they are of a newer version of Estimand.
//!
//! None is run without the part that is not known: it may be a limit. An older version of it that serves goes on, as it
//! does while a new version fails.

use std::sync::Arc;

use estimand_api::assignment::UnsupportedRegistration;
use estimand_api::names::DataName;
use estimand_api::slot::{FAILING_AFTER, NextVersion, SlotActivity};

use super::Slots;
use super::slot::{Slot, VersionRole};
use super::version::EndMode;

/// The reason for people.
pub fn not_supported(unsupported: &UnsupportedRegistration) -> String {
    let agent = env!("CARGO_PKG_VERSION");
    let reasons = unsupported.reasons.join(", ");
    format!("this agent (version {agent}) does not support the registration: {reasons}; a newer agent may")
}

impl Slots {
    pub(super) fn refuse_unsupported(
        &mut self,
        name: &DataName,
        unsupported: &Arc<UnsupportedRegistration>,
        leased: bool,
    ) {
        let slot = self.slots.entry(name.clone()).or_insert_with(|| Slot::new(name.clone()));
        let trial = slot.close(VersionRole::Trial, EndMode::Gently);
        // Both sides of a change of the lease may not run.
        let other_lease = slot.serving.as_ref().is_some_and(|version| version.shared.leased != leased);
        let serving = if other_lease { slot.close(VersionRole::Serving, EndMode::Gently) } else { None };
        if slot.refuse(unsupported) {
            tracing::error!(%name, "{}", not_supported(unsupported));
        }
        for key in [trial, serving].into_iter().flatten() {
            self.end_version(key);
        }
        self.post(name, true);
    }
}

impl Slot {
    /// Shows that the desired version is not supported. Whether that is new.
    fn refuse(&mut self, unsupported: &Arc<UnsupportedRegistration>) -> bool {
        let (version, reason) = (unsupported.version, Some(not_supported(unsupported)));
        if self.serving.is_some() {
            self.status.next = Some(NextVersion { version, failures: FAILING_AFTER, last_error: reason });
        } else {
            (self.status.version, self.status.doing, self.status.last_error) =
                (version, SlotActivity::Refused, reason);
        }
        let before = self.unsupported.replace(Arc::clone(unsupported));
        before.is_none_or(|before| before != *unsupported)
    }

    /// The desired version is supported, or there is none.
    pub fn support(&mut self) {
        if self.unsupported.take().is_none() {
            return;
        }
        self.status.next = None;
        if self.serving.is_none() {
            (self.status.doing, self.status.last_error) = (SlotActivity::Pending, None);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::assignment::AssignedRegistration;
    use estimand_api::json::parse_object;

    use super::*;

    #[test]
    fn an_unsupported_registration_is_refused_by_name_and_without_its_values() {
        let body = br#"{"dataName":"a","cmd":"x","max-Time":1,"version":7,"limits":{"magic":"secret"}}"#;
        let assigned = AssignedRegistration::from_map(parse_object(body).unwrap());
        let AssignedRegistration::Unsupported(unsupported) = assigned else { panic!("{assigned:?}") };
        let mut slot = Slot::new(unsupported.data_name.clone().unwrap());
        assert!(slot.refuse(&unsupported) && !slot.refuse(&unsupported));
        slot.look(|_| None, true);
        assert_eq!((slot.status.doing, slot.status.version), (SlotActivity::Refused, 7));
        let reason = slot.status.last_error.clone().unwrap();
        assert!(reason.contains("`limits.magic` is not a known field"), "{reason}");
        assert!(!reason.contains("secret"), "{reason}");
        slot.support();
        slot.look(|_| None, true);
        assert_eq!(slot.status.doing, SlotActivity::Unleased);
    }
}

//! The step that is due for an attempt.

/// The next thing to do with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// It ends without having begun.
    Settle(Unbegun),
    /// A keeper is to run it, or to clear away what a former one left.
    Start,
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unbegun {
    Cancelled,
    LeaseOver,
    PromiseOver,
}

/// An attempt as it is found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub gone: bool,
    pub stop: bool,
    pub begun: bool,
    pub ended: bool,
    pub kept: bool,
    pub leased: bool,
    pub lease_holds: bool,
    pub was_leased: bool,
    pub promise_over: bool,
    pub awaits_inputs: bool,
}

/// The step that is due. Pure.
pub(super) fn step(look: &Look) -> Step {
    match look {
        Look { ended: true, gone: true, .. } => Step::Remove,
        Look { ended: true, .. } | Look { kept: true, .. } => Step::Nothing,
        // An attempt that has begun and has neither end nor keeper was left by one that was killed.
        Look { begun: true, .. } => Step::Start,
        Look { gone: true, .. } => Step::Remove,
        Look { stop: true, .. } => Step::Settle(Unbegun::Cancelled),
        Look { promise_over: true, .. } => Step::Settle(Unbegun::PromiseOver),
        Look { leased: true, lease_holds: false, was_leased: true, .. } => Step::Settle(Unbegun::LeaseOver),
        Look { leased: true, lease_holds: false, .. } | Look { awaits_inputs: true, .. } => Step::Nothing,
        Look { .. } => Step::Start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Look = Look {
        gone: false,
        stop: false,
        begun: false,
        ended: false,
        kept: false,
        leased: false,
        lease_holds: false,
        was_leased: false,
        promise_over: false,
        awaits_inputs: false,
    };

    #[test]
    fn each_attempt_takes_the_step_that_is_due() {
        let cancelled = Step::Settle(Unbegun::Cancelled);
        for (look, expected) in [
            (NEW, Step::Start),
            (Look { kept: true, ..NEW }, Step::Nothing),
            (Look { begun: true, kept: true, stop: true, gone: true, ..NEW }, Step::Nothing),
            (Look { stop: true, ..NEW }, cancelled),
            (Look { gone: true, ..NEW }, Step::Remove),
            (Look { gone: true, ended: true, begun: true, ..NEW }, Step::Remove),
            (Look { ended: true, begun: true, ..NEW }, Step::Nothing),
        ] {
            assert_eq!(step(&look), expected, "{look:?}");
        }
    }

    #[test]
    fn what_has_inputs_begins_when_they_are_here() {
        let look = Look { awaits_inputs: true, ..NEW };
        assert_eq!(step(&look), Step::Nothing);
        assert_eq!(step(&Look { stop: true, ..look }), Step::Settle(Unbegun::Cancelled));
        assert_eq!(step(&Look { gone: true, ..look }), Step::Remove);
        let lease_over = Look { leased: true, was_leased: true, ..look };
        assert_eq!(step(&lease_over), Step::Settle(Unbegun::LeaseOver));
        assert_eq!(step(&Look { begun: true, ..look }), Step::Start, "there is something to be cleared away");
    }

    #[test]
    fn what_has_not_begun_when_its_promise_is_over_never_does() {
        let over = Step::Settle(Unbegun::PromiseOver);
        for look in [NEW, Look { awaits_inputs: true, ..NEW }, Look { leased: true, ..NEW }] {
            assert_eq!(step(&Look { promise_over: true, ..look }), over, "{look:?}");
        }
        let cancelled = Look { promise_over: true, stop: true, ..NEW };
        assert_eq!(step(&cancelled), Step::Settle(Unbegun::Cancelled));
        assert_eq!(
            step(&Look { promise_over: true, kept: true, ..NEW }),
            Step::Nothing,
            "its keeper ends it"
        );
        assert_eq!(
            step(&Look { promise_over: true, begun: true, ..NEW }),
            Step::Start,
            "what is left is cleared away"
        );
    }

    /// Its keeper was killed: another one clears away what is left, also of what is to go.
    #[test]
    fn what_has_begun_without_an_end_is_cleared_away_first() {
        for look in
            [NEW, Look { gone: true, ..NEW }, Look { stop: true, ..NEW }, Look { leased: true, ..NEW }]
        {
            assert_eq!(step(&Look { begun: true, ..look }), Step::Start, "{look:?}");
        }
    }

    #[test]
    fn what_is_leased_begins_under_a_lease_and_never_after_one() {
        let leased = Look { leased: true, ..NEW };
        assert_eq!(step(&leased), Step::Nothing);
        assert_eq!(step(&Look { lease_holds: true, was_leased: true, ..leased }), Step::Start);
        assert_eq!(step(&Look { was_leased: true, ..leased }), Step::Settle(Unbegun::LeaseOver));
        assert_eq!(step(&Look { was_leased: true, ..NEW }), Step::Start, "not leased");
    }
}

//! A change that a service's single writer did not make, as a problem.

use estimand_api::problem::Problem;
use estimand_runtime::single_writer::SubmitError;

/// The problem of a request that brought no reply. `service` is the service's name for people, `taken_over` its
/// sentence for a store that another process has taken over.
pub fn submit_problem<Rejection>(
    error: SubmitError<Rejection>,
    service: &str,
    taken_over: &str,
    of_rejection: impl FnOnce(Rejection) -> Problem,
) -> Problem {
    let detail = match error {
        SubmitError::Rejected(rejection) => return of_rejection(rejection),
        SubmitError::OutcomeUnknown => {
            let detail = "the database does not answer, and whether this took effect is unknown: look, and send it \
                          again if not";
            return Problem::outcome_unknown(detail, 1);
        }
        SubmitError::Unreachable => "the database does not answer; nothing was done".to_owned(),
        SubmitError::NotStored => "the database did not take this; nothing of it was done".to_owned(),
        SubmitError::Broken => {
            "the connection to the database broke; nothing was done, send it again".to_owned()
        }
        SubmitError::TakenOver => {
            format!("{taken_over}; nothing was done, and nothing can be changed here any more")
        }
        SubmitError::Overloaded => "too many changes wait; nothing was done".to_owned(),
        SubmitError::Stopping => format!("the {service} is stopping; nothing was done"),
    };
    Problem::unavailable(detail, 1)
}

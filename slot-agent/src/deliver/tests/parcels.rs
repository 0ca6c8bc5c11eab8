//! The consequences of an answer.

use std::collections::BTreeMap;

use estimand_api::problem::{FieldError, Problem};
use estimand_api::value::BatchReceipt;
use estimand_client::Error;
use tokio::time::Instant;

use super::writes;
use crate::deliver::parcel::{Parcel, Verdict, judge};

#[track_caller]
fn check(problem: Problem, expected: &Verdict) {
    let writes = [writes("a", 1..=2), writes("b", 3..=3), writes("a", 4..=4)].concat();
    assert_eq!(judge(&Err(Error::Problem(Box::new(problem))), &writes), *expected);
}

fn refused(items: &[(usize, &str)]) -> Verdict {
    Verdict::Refused(
        items.iter().map(|(place, reason)| (*place, (*reason).to_owned())).collect::<BTreeMap<_, _>>(),
    )
}

#[test]
fn an_answer_says_what_to_do() {
    let error = |field: &str| FieldError::new(field, "is wrong");
    check(
        Problem::invalid(vec![error("[2].epoch"), error("[2].state"), error("[3]")]),
        &refused(&[(2, "epoch: is wrong; state: is wrong"), (3, "is wrong")]),
    );
    check(Problem::conflict("item [1]: bound"), &refused(&[(1, "bound"), (3, "bound")]));
    check(Problem::too_large("item [1]: large"), &refused(&[(1, "large")]));
    check(Problem::new(403, "x", "x", "item [2]: not its own"), &refused(&[(2, "not its own")]));
    check(Problem::too_large("the batch is"), &Verdict::Halve);
    // A place that was not sent is no help.
    check(Problem::invalid(vec![error("[4].epoch")]), &Verdict::Halve);
    check(Problem::invalid(vec![error("[x].epoch")]), &Verdict::Halve);
    check(Problem::unavailable("item [1]: later", 1), &Verdict::Again("item [1]: later (503)".to_owned()));
    let silence = || Error::Unreachable { url: "u".to_owned(), cause: "c".to_owned() };
    assert_eq!(judge(&Err(silence()), &writes("a", 1..=2)), Verdict::Less("u does not answer: c".to_owned()));
    check(Problem::new(408, "x", "x", "slow"), &Verdict::Again("slow (408)".to_owned()));
}

#[test]
fn writes_that_were_older_are_told_of_unless_they_were_delivered_before() {
    let done = || BatchReceipt { created: 0, replaced: 1, superseded: 1, older: vec![1, 9], revision: 1 };
    let batch = || [writes("a", 1..=1), writes("b", 2..=2)].concat();
    let older = |parcel: &mut Parcel| {
        parcel.settle(&Ok(done())).older.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut parcel = Parcel::new(batch(), 0, Instant::now());
    assert_eq!(older(&mut parcel), ["b"]);
    let silence = Error::Unreachable { url: "u".to_owned(), cause: "c".to_owned() };
    let mut again = Parcel::new(batch(), 0, Instant::now());
    again.settle(&Err(silence));
    assert_eq!(older(&mut again), [""; 0]);
    assert_eq!(older(&mut Parcel::from_segment(1, batch(), 2, Instant::now())), [""; 0]);
}

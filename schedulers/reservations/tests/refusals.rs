//! Requests without a price are refused with what would do, and nothing overflows.

#![allow(clippy::unwrap_used)]

use std::ops::RangeInclusive;
use std::sync::Arc;

use estimand_capacity::Amounts;
use estimand_reservations::predict::Nothing;
use estimand_reservations::{
    Answer, Bid, ElasticRequest, MAX_HORIZON, MAX_LIST, Money, PARTS, Pricing, Rate, Refusal, Request, Terms,
    TermsError,
};

mod common;

use common::{HORIZON, amounts, name, pricing, request, terms};

const HUGE: u64 = 1 << 63;

fn flat() -> Pricing {
    pricing(&vec![Vec::new(); HORIZON as usize], terms(4, 1))
}

fn refused(request: &Request) -> String {
    flat().quote(request).unwrap_err().to_string()
}

#[test]
fn each_refusal_says_what_would_do() {
    for (asked, expected) in [
        (request(0, 3, 1, 9), "the request asks for nothing: it needs an amount of at least 1 of a resource"),
        (request(1, 0, 1, 9), "the request lasts 0 ticks: it must last at least 1"),
        (request(5, 3, 1, 9), "5 of `cpu` are asked for, and there are 4: ask for at most 4"),
        (
            request(HUGE, 3, 1, 9),
            "9223372036854775808 of `cpu` are asked for, and there are 4: ask for at most 4",
        ),
        (
            request(1, HUGE, 1, u64::MAX),
            "the request lasts 9223372036854775808 ticks, and prices reach 16 ticks ahead: ask for at most 16",
        ),
        (
            request(1, 4, 3, 6),
            "4 ticks from 3 on are not over at 6: the earliest deadline that would do is 7",
        ),
        (
            request(1, 4, 9, 3),
            "4 ticks from 9 on are not over at 3: the earliest deadline that would do is 13",
        ),
        (
            request(1, 1, 5, 5),
            "1 ticks from 5 on are not over at 5: the earliest deadline that would do is 6",
        ),
        (
            request(1, 4, 14, 15),
            "4 ticks from 14 on are not over at 15: no deadline within the horizon would do",
        ),
        (
            request(1, 4, HUGE, HUGE + 2),
            "4 ticks from 9223372036854775808 on are not over at 9223372036854775810: no deadline within the horizon would do",
        ),
        (
            request(1, 4, 3, 17),
            "prices reach to tick 16, and the deadline is 17: ask for a deadline of at most 16",
        ),
        (
            request(1, 4, u64::MAX - 4, u64::MAX),
            "prices reach to tick 16, and the deadline is 18446744073709551615: ask for a deadline of at most 16",
        ),
    ] {
        assert_eq!(refused(&asked), expected);
    }
    let unknown = Request { amounts: [(name("gpu"), 1)].into_iter().collect(), ..request(1, 1, 0, 1) };
    assert_eq!(refused(&unknown), "`gpu` has no prices here; resources that have are cpu");
    assert_eq!(
        Pricing::new(0, 9).unwrap().quote(&request(1, 1, 0, 1)).unwrap_err().to_string(),
        "`cpu` has no prices here; resources that have are none"
    );
    let nothing = Request { amounts: Amounts::default(), ..request(1, 1, 0, 1) };
    assert_eq!(flat().quote(&nothing), Err(Refusal::Nothing));
}

#[test]
fn the_past_is_refused_and_what_was_promised_there_is_forgotten() {
    let mut pricing = flat();
    let quote = pricing.quote(&request(4, 6, 2, 8)).unwrap();
    assert!(pricing.promise(&quote));
    pricing.advance(5);
    let error = pricing.quote(&request(1, 1, 4, 9)).unwrap_err();
    assert_eq!(error.to_string(), "tick 4 is over: it is 5 now, so begin at 5 or later");
    assert_eq!((pricing.promised(&name("cpu"), 4), pricing.promised(&name("cpu"), 7)), (0, 4));
    assert_eq!((pricing.now(), pricing.end()), (5, 21));
    // A clock that jumps back changes nothing; one that jumps far ahead forgets everything.
    pricing.advance(3);
    assert_eq!(pricing.now(), 5);
    pricing.release(&quote);
    assert_eq!(pricing.promised(&name("cpu"), 7), 0);
    pricing.advance(u64::MAX - 3);
    assert_eq!(pricing.end(), u64::MAX);
    assert!(!pricing.promise(&quote));
    pricing.release(&quote);
}

#[test]
fn a_full_stretch_names_the_earliest_deadline_that_would_do() {
    let mut pricing = flat();
    let quote = pricing.quote(&request(3, 5, 2, 7)).unwrap();
    assert!(pricing.promise(&quote) && !pricing.promise(&quote), "only once is so much free");
    let full = "so much is not free at a stretch before 9: the earliest deadline that would do is 10";
    assert_eq!(pricing.quote(&request(2, 3, 1, 9)).unwrap_err().to_string(), full);
    assert!(pricing.quote(&request(2, 3, 1, 10)).is_ok());
    // Ticks of a window that is long enough may be taken, too.
    let tight = "5 ticks from 1 on are not over at 3: the earliest deadline that would do is 12";
    assert_eq!(pricing.quote(&request(2, 5, 1, 3)).unwrap_err().to_string(), tight);
    let never = pricing.quote(&request(2, 10, 1, 16)).unwrap_err().to_string();
    assert_eq!(never, "so much is not free at a stretch before 16: no deadline within the horizon would do");
}

#[test]
fn lists_and_elastic_requests_are_bounded() {
    let mut pricing = flat();
    assert_eq!(pricing.quote_all(&[]), Err(Refusal::ListLength(0)));
    let many = vec![request(1, 1, 0, 16); 10_000];
    assert_eq!(pricing.quote_all(&many), Err(Refusal::ListLength(10_000)));
    assert!(
        pricing
            .quote_all(&many[..MAX_LIST])
            .unwrap_err()
            .to_string()
            .starts_with("request 65 of the list: so much")
    );
    assert!(pricing.quote_all(&many[..64]).is_ok());
    let error = |workers, work| {
        let elastic = ElasticRequest { amounts: amounts(1), workers, work, from: 0, deadline: 16 };
        flat().quote_elastic(&elastic).map(|quote| quote.cost).map_err(|error| error.to_string())
    };
    assert!(error(0..=3, 5).unwrap_err().contains("give at least 1"));
    assert!(error(RangeInclusive::new(4, 3), 5).unwrap_err().contains("the greater number last"));
    assert!(error(1..=3, 0).unwrap_err().contains("at least 1"));
    assert!(error(1..=HUGE, 5).unwrap_err().contains("more than 1024"));
    assert!(error(HUGE..=HUGE + 3, HUGE).unwrap_err().contains("at most 4"));
    assert_eq!(error(1..=9, 16), Ok(Money::microcredits(16)));
    let huge =
        ElasticRequest { amounts: amounts(HUGE), workers: 2..=3, work: u64::MAX, from: 0, deadline: 16 };
    assert!(pricing.quote_elastic(&huge).is_err());
}

#[test]
fn a_bid_of_nothing_pays_nothing() {
    let mut pricing = flat();
    let bid = |value| Bid { request: request(1, 2, 0, 4), value: Money::microcredits(value) };
    assert!(
        matches!(pricing.reserve(&bid(1)), Ok(Answer::TooExpensive(quote)) if quote.cost == Money::microcredits(2))
    );
    assert_eq!(pricing.promised(&name("cpu"), 0), 0);
    assert!(matches!(pricing.reserve(&bid(2)), Ok(Answer::Accepted(_))));
    assert!(
        matches!(pricing.reserve(&bid(u64::MAX)), Ok(Answer::Accepted(quote)) if quote.cost == Money::microcredits(2))
    );
}

#[test]
fn terms_whose_sums_could_overflow_are_refused() {
    assert_eq!(Pricing::new(0, 0).err(), Some(TermsError::Horizon(0)));
    assert_eq!(Pricing::new(0, MAX_HORIZON + 1).err(), Some(TermsError::Horizon(MAX_HORIZON + 1)));
    let mut pricing = Pricing::new(0, 10).unwrap();
    let mut add = |resource: &str, capacity, floor, ceiling| {
        let [floor, ceiling] = [floor, ceiling].map(Rate::parts);
        let terms = Terms { capacity, floor, ceiling };
        pricing.add(name(resource), terms, Arc::new(Nothing::new(&terms))).map_err(|error| error.to_string())
    };
    assert!(
        add("a", 5, 3 * PARTS, 2 * PARTS)
            .unwrap_err()
            .contains("the floor of the price, 0.000003, is above its ceiling")
    );
    let too_much = add("a", HUGE, 0, u64::MAX).unwrap_err();
    assert!(too_much.contains("its ceiling can be at most 0"), "{too_much}");
    // Half of what can be counted.
    assert_eq!(add("a", PARTS / 20, 0, u64::MAX), Ok(()));
    assert!(add("a", 1, 0, 1).unwrap_err().contains("has prices already"));
    // The second resource may cost what the first one leaves.
    assert!(add("b", PARTS / 15, 0, u64::MAX).unwrap_err().contains("can be at most"));
    assert_eq!(add("b", PARTS / 20, 0, u64::MAX), Ok(()));
    assert!(pricing.set_capacity(&name("b"), PARTS / 10).is_err());
    assert!(pricing.set_capacity(&name("b"), 0).is_ok());
    let dear = Request { amounts: [(name("a"), 1_000)].into_iter().collect(), ..request(1, 10, 0, 10) };
    assert_eq!(pricing.quote(&dear).unwrap().cost, Money::ZERO);
}

#[test]
fn less_capacity_leaves_promises_and_nothing_free() {
    let mut pricing = flat();
    let quote = pricing.quote(&request(3, 2, 0, 2)).unwrap();
    assert!(pricing.promise(&quote));
    pricing.set_capacity(&name("cpu"), 2).unwrap();
    assert_eq!(pricing.promised(&name("cpu"), 0), 3);
    let refusal = pricing.quote(&request(1, 2, 0, 3)).unwrap_err();
    assert_eq!(refusal, Refusal::Full { deadline: 3, earliest: Some(4) });
}

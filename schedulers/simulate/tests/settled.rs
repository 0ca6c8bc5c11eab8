//! Reservations whose tasks begin late, fail, lose their node, end early or never: each is told and charged what its task had.
//! Its story is drawn first, and the events of the task follow from that; so the truth does not come from what is tested.
#![allow(clippy::unwrap_used)]

use estimand_api::task_stop::StopOrder;
use estimand_placement::Millis;
use estimand_placement::retries::{Ending, OnLoss, Retries};
use estimand_placement::state::{Actor, Event, Progress, Rules, State};
use estimand_placement::usage::{Tally, Term, Usage};
use estimand_reservations::{Delivery, EarlyEnd, Money, Settlement, fee};
use proptest::prelude::*;

const FROM: u64 = 1_000_000;
/// A retry comes after such a pause.
const PAUSE: u64 = 1_000;
const RETRIES: u32 = 3;

/// An attempt: how long nobody places it, how long its node does not begin it, and how it goes on from there.
#[derive(Debug, Clone)]
struct Attempt {
    unplaced: u64,
    unbegun: u64,
    runs: u64,
    then: Then,
}

#[derive(Debug, Clone)]
enum Then {
    /// It ends by itself.
    Succeeds,
    Fails,
    /// Its node is not heard of for so long, and it goes on there for a while.
    Silent(u64, u64),
    /// Its node is not heard of for so long, and then nothing can run there any more.
    Lost(u64),
    /// It runs until it is ended, and takes so long for that.
    Overruns(u64),
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let millis = || prop_oneof![Just(0), 0..1_500_u64, 0..30_000_u64];
    let then = prop_oneof![
        2 => Just(Then::Succeeds),
        2 => Just(Then::Fails),
        1 => (millis(), millis()).prop_map(|(silent, runs)| Then::Silent(silent, runs)),
        1 => millis().prop_map(Then::Lost),
        2 => (0..10_000_u64).prop_map(Then::Overruns),
    ];
    (millis(), millis(), millis(), then).prop_map(|(unplaced, unbegun, runs, then)| Attempt {
        unplaced,
        unbegun,
        runs,
        then,
    })
}

/// The task while its story is told.
struct StoryTask {
    progress: Progress,
    now: u64,
    term: Term,
    /// The truth, in milliseconds of the window.
    had: u64,
    missed: u64,
    ended: Option<u64>,
}

impl StoryTask {
    fn new(until: u64, fits: bool) -> StoryTask {
        let term = Term { window: Millis(FROM)..Millis(until), fits };
        StoryTask { progress: Progress::default(), now: FROM, term, had: 0, missed: 0, ended: None }
    }

    fn end(&self) -> u64 {
        self.term.window.end.0
    }

    fn tell(&mut self, cause: Event) {
        let before = self.progress.clone();
        let retries = Retries { count: RETRIES, back_off: PAUSE, max_back_off: PAUSE };
        let rules = Rules { retries, on_loss: OnLoss::Restart };
        let transition = self.progress.apply(&rules, Millis(self.now), cause, Actor::Scheduler);
        if let Some(transition) = transition.unwrap() {
            self.progress.usage = before.usage.after(&before, &transition.cause, transition.at, &self.term);
        }
        if self.progress.state.is_final() {
            self.ended.get_or_insert(self.now);
        }
    }

    /// Time passes; at the end of the window the task is told to end. Returns how much of it was in the window.
    fn pass(&mut self, time: u64) -> u64 {
        let before = self.now;
        let after = self.now + time;
        if before < self.end() && self.end() <= after && self.ended.is_none() {
            self.now = self.end();
            self.tell(Event::PromiseEnded { reason: String::new(), stop: StopOrder::default() });
        }
        self.now = after;
        after.min(self.end()) - before.min(self.end())
    }

    /// Time passes in which the task could run and does not. True if it is over then.
    fn wait(&mut self, time: u64) -> bool {
        self.missed += self.pass(time);
        self.ended.is_some()
    }

    /// It waits for a node; where none can run it, that is nobody's fault but its own.
    fn queue(&mut self, time: u64) -> bool {
        let passed = self.pass(time);
        self.missed += if self.term.fits { passed } else { 0 };
        self.ended.is_some()
    }

    fn run(&mut self, time: u64) {
        self.had += self.pass(time);
    }

    /// True if the story is over.
    fn attempt(&mut self, number: u32, story: &Attempt) -> bool {
        if self.queue(story.unplaced) {
            return true;
        }
        let attempt = number;
        self.tell(Event::Place { attempt, node: "n".to_owned() });
        let _ = self.wait(story.unbegun);
        if self.now >= self.end() {
            // Its node hears first that it is to end.
            self.tell(Event::End { attempt, ending: Ending::Cancelled, program: None, used: None });
            return true;
        }
        self.tell(Event::Start { attempt });
        self.run(story.runs);
        let ending = match story.then {
            Then::Succeeds => Ending::Exit(0),
            Then::Fails => Ending::Exit(1),
            Then::Overruns(lasts) => {
                self.run(self.end().saturating_sub(self.now) + lasts);
                Ending::Signal(9)
            }
            Then::Silent(silent, runs) => {
                self.tell(Event::NodeLost { attempt });
                self.run(silent);
                self.tell(Event::NodeBack { attempt });
                self.run(runs);
                Ending::Exit(1)
            }
            Then::Lost(silent) => {
                self.tell(Event::NodeLost { attempt });
                let _ = self.wait(silent);
                self.tell(Event::LeaseOver { attempt });
                return self.ended.is_some();
            }
        };
        self.tell(Event::End { attempt, ending, program: None, used: None });
        if self.progress.state == State::Queued {
            // The pause after a failure of its own.
            let _ = self.pass(PAUSE);
        }
        self.ended.is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_reservation_is_told_and_charged_what_its_task_had(
        seconds in 1_u64..60,
        price_of_a_second in 0_u64..100_000,
        stories in prop::collection::vec(attempt(), 0..6),
        fits in prop::bool::weighted(0.9),
    ) {
        let until = FROM + seconds * 1_000;
        let mut told = StoryTask::new(until, fits);
        let is_over = (1..).zip(&stories).any(|(number, story)| told.attempt(number, story));
        if !is_over {
            // Nobody places it again.
            let _ = told.queue(until.saturating_sub(told.now) + 1);
        }
        let ended = told.ended.expect("it ends with its window");
        let usage: Usage = told.progress.usage;
        prop_assert_eq!((usage.had.0, usage.missed.0), (told.had, told.missed), "{:?}", told.progress);
        prop_assert!((usage.had + usage.missed).0 <= seconds * 1_000);

        let mut tally = Tally::default();
        tally.add(&usage, Millis(ended));
        let missed = tally.missed.tick();
        prop_assert_eq!(missed, told.missed / 1_000);
        let given_back = (until / 1_000).saturating_sub(tally.ended.next_tick());
        let price = Money::microcredits(seconds * price_of_a_second);
        for early_end in [EarlyEnd::Refund, EarlyEnd::Keep] {
            let delivery = Delivery { promised: seconds, missed, given_back };
            let Settlement { payment, fee: kept, refund } = delivery.settle(price, early_end);
            let rest = match early_end {
                EarlyEnd::Refund => given_back.min(seconds - missed),
                EarlyEnd::Keep => 0,
            };
            let paid = (seconds - missed - rest) * price_of_a_second;
            prop_assert_eq!(payment.as_microcredits(), paid);
            prop_assert_eq!(kept, fee(Money::microcredits(rest * price_of_a_second)));
            prop_assert_eq!(paid + kept.as_microcredits() + refund.as_microcredits(), price.as_microcredits());
        }
    }
}

//! The machine of a task's states: each way through it by hand, then any events in any order.

#![allow(clippy::unwrap_used)]

use estimand_api::task_stop::StopOrder;
use estimand_api::task_usage::TaskUsage;
use estimand_placement::Millis;
use estimand_placement::dependency::{Awaited, On};
use estimand_placement::queue::TaskNumber;
use estimand_placement::retries::{Ending, OnLoss, Retries};
use estimand_placement::state::{Actor, Event, Progress, Refused, Rules, State, StopCause};
use proptest::prelude::*;

fn rules(retries: u32, on_loss: OnLoss) -> Rules {
    Rules { retries: Retries { count: retries, ..Retries::default() }, on_loss }
}

fn place(attempt: u32) -> Event {
    Event::Place { attempt, node: format!("n{attempt}") }
}

fn end(attempt: u32, ending: Ending) -> Event {
    Event::End { attempt, ending, program: None, used: None }
}

/// Applies events a minute apart.
fn after(rules: Rules, events: &[Event]) -> Progress {
    let mut progress = Progress::default();
    for (at, event) in events.iter().enumerate() {
        progress.apply(&rules, Millis(at as u64 * 60_000), event.clone(), Actor::Scheduler).unwrap();
    }
    progress
}

fn cancel() -> Event {
    Event::Cancel(StopOrder::default())
}

fn room_for(promise: &str, attempt: u32) -> Event {
    Event::MakeRoom { attempt, promise: promise.to_owned(), grace_ms: None, cut_from_ms: None }
}

fn promise_ended() -> Event {
    Event::PromiseEnded { reason: "over".to_owned(), stop: StopOrder::default() }
}

#[track_caller]
fn check(rules: Rules, events: &[Event], state: State, ending: Option<Ending>) {
    let progress = after(rules, events);
    assert_eq!((progress.state, progress.ending), (state, ending), "{events:?}");
}

#[test]
fn endings_are_told_apart() {
    let once = rules(0, OnLoss::Restart);
    let run = |ending: Ending| [place(1), Event::Start { attempt: 1 }, end(1, ending)];
    check(once, &run(Ending::Exit(0)), State::Succeeded, Some(Ending::Exit(0)));
    let failures = [
        Ending::Exit(3),
        Ending::Signal(9),
        Ending::OutOfMemory,
        Ending::TimedOut,
        Ending::ImageMissing,
        Ending::NotStarted("`rm` is not allowed here".into()),
    ];
    for ending in failures {
        check(once, &run(ending.clone()), State::Failed, Some(ending));
    }
    check(once, &run(Ending::Cancelled), State::Cancelled, Some(Ending::Cancelled));
}

#[test]
fn a_failure_is_tried_again_after_a_pause_and_not_for_ever() {
    let rules = rules(2, OnLoss::Restart);
    let mut progress = after(rules, &[place(1), end(1, Ending::Exit(1))]);
    assert_eq!((progress.state, progress.not_before), (State::Queued, Some(Millis(61_000))));
    let refused = progress.apply(&rules, Millis(60_500), place(2), Actor::Scheduler).unwrap_err();
    assert_eq!(refused, Refused::TooSoon { at: Millis(60_500), not_before: Millis(61_000) });
    let failing = |attempt| [place(attempt), end(attempt, Ending::Signal(6))];
    let events: Vec<Event> = (1..=3).flat_map(failing).collect();
    check(rules, &events, State::Failed, Some(Ending::Signal(6)));
    check(rules, &[place(1), end(1, Ending::ImageMissing)], State::Failed, Some(Ending::ImageMissing));
    let pauses: Vec<u64> = [0, 1, 8, 9, 63, 64, u32::MAX].map(|n| rules.retries.pause(n)).to_vec();
    assert_eq!(pauses, [1_000, 2_000, 256_000, 300_000, 300_000, 300_000, 300_000]);
}

#[test]
fn each_attempt_that_was_measured_counts() {
    let used = |attempt, seconds: u64| {
        let usage = TaskUsage { ran_us: seconds * 1_000_000, ..TaskUsage::default() };
        Event::End { attempt, ending: Ending::Signal(9), program: None, used: Some(Box::new(usage)) }
    };
    let events =
        [place(1), used(1, 3), place(2), end(2, Ending::Signal(9)), place(3), used(3, 4), used(3, 9)];
    let progress = after(rules(5, OnLoss::Restart), &events);
    let so_far = progress.used.as_deref().unwrap();
    assert_eq!((so_far.last.attempt, so_far.sum.attempts, so_far.sum.ran_us), (3, 2, 7_000_000));
    let stored = serde_json::to_string(&progress).unwrap();
    assert_eq!(serde_json::from_str::<Progress>(&stored).unwrap(), progress);

    // An end that a version of before stored has none, and is written as it was.
    let text = r#"{"event":"end","attempt":1,"ending":{"exit":0}}"#;
    let read: Event = serde_json::from_str(text).unwrap();
    assert_eq!(read, end(1, Ending::Exit(0)));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let before = after(rules(0, OnLoss::Restart), &[place(1), end(1, Ending::Exit(0))]);
    assert!(before.used.is_none() && !serde_json::to_string(&before).unwrap().contains("used"));
}

#[test]
fn what_makes_room_waits_again_and_uses_no_retry() {
    let once = rules(0, OnLoss::Restart);
    let room = |attempt| room_for("p", attempt);
    let start = Event::Start { attempt: 1 };
    for ending in [Ending::Cancelled, Ending::Signal(9), Ending::Exit(3), Ending::NodeLost] {
        let progress = after(once, &[place(1), start.clone(), room(1), end(1, ending)]);
        assert_eq!((progress.state, progress.failures, progress.not_before), (State::Queued, 0, None));
        assert_eq!(progress.stop, None);
    }
    let early = [place(1), start.clone(), room(1), end(1, Ending::Exit(0))];
    check(once, &early, State::Succeeded, Some(Ending::Exit(0)));
    let told = after(once, &[place(1), room(1), room(1)]);
    assert_eq!((told.state, told.is_stopping()), (State::Stopping, true));
    // A user who cancels it meanwhile does not want it again.
    let cancelled = [place(1), room(1), cancel(), end(1, Ending::Cancelled)];
    check(once, &cancelled, State::Cancelled, Some(Ending::Cancelled));
    let mine = [place(1), cancel(), room(1), end(1, Ending::Cancelled)];
    check(once, &mine, State::Cancelled, Some(Ending::Cancelled));
    let lost = [place(1), room(1), Event::NodeLost { attempt: 1 }, Event::LeaseOver { attempt: 1 }];
    check(once, &lost, State::Queued, Some(Ending::NodeLost));
    check(once, &[room(1)][..0], State::Queued, None);
}

fn order_of(grace_ms: impl Into<Option<u64>>, checkpoint: bool) -> StopOrder {
    StopOrder { grace_ms: grace_ms.into(), checkpoint }
}

#[test]
fn what_is_sent_back_to_the_queue_waits_again_and_uses_no_retry() {
    let once = rules(0, OnLoss::Restart);
    let sent_back = || Event::Yield(order_of(60_000, true));
    let start = Event::Start { attempt: 1 };
    for ending in [Ending::Cancelled, Ending::Signal(9), Ending::Exit(3), Ending::NodeLost] {
        let program = Some(Ending::Exit(0));
        let ends = Event::End { attempt: 1, ending, program: program.clone(), used: None };
        let progress = after(once, &[place(1), start.clone(), sent_back(), ends]);
        assert_eq!((progress.state, progress.failures, progress.not_before), (State::Queued, 0, None));
        assert_eq!(
            (progress.stop, progress.stop_order, progress.program),
            (None, StopOrder::default(), program)
        );
    }
    // The task was done before it was told.
    let done = [place(1), start, sent_back(), end(1, Ending::Exit(0))];
    check(once, &done, State::Succeeded, Some(Ending::Exit(0)));
    check(once, &[sent_back()], State::Queued, None);
    let cancelled = [place(1), cancel(), sent_back(), end(1, Ending::Cancelled)];
    check(once, &cancelled, State::Cancelled, Some(Ending::Cancelled));
    let cancelled = [place(1), sent_back(), cancel(), end(1, Ending::Cancelled)];
    check(once, &cancelled, State::Cancelled, Some(Ending::Cancelled));
    let lost = [place(1), Event::NodeLost { attempt: 1 }, sent_back(), Event::LeaseOver { attempt: 1 }];
    check(once, &lost, State::Queued, Some(Ending::NodeLost));
}

#[test]
fn a_later_order_makes_no_end_come_later() {
    let once = rules(0, OnLoss::Restart);
    let order_after = |events: &[Event]| {
        let progress = after(once, &[&[place(1), Event::Start { attempt: 1 }], events].concat());
        assert!(progress.is_stopping());
        progress.present_order()
    };
    let long = || Event::Cancel(order_of(3_600_000, true));
    assert_eq!(order_after(&[long()]), order_of(3_600_000, true));
    assert_eq!(order_after(&[long(), cancel()]), order_of(None, false));
    assert_eq!(order_after(&[cancel(), long()]), order_of(None, false));
    assert_eq!(order_after(&[long(), Event::Cancel(order_of(0, false)), cancel()]), order_of(0, false));
    // Room for a promise is made in time, whoever told it to end before.
    assert_eq!(order_after(&[room_for("p", 1)]), order_of(None, true));
    assert_eq!(order_after(&[long(), room_for("p", 1)]), order_of(20_000, true));
    assert_eq!(order_after(&[cancel(), room_for("p", 1)]), order_of(None, false));
    // Its promise ends while it saves its work.
    assert_eq!(order_after(&[Event::Yield(order_of(60_000, true)), promise_ended()]), order_of(20_000, true));
    assert_eq!(order_after(&[promise_ended()]), order_of(None, false));
}

#[test]
fn what_the_version_before_stored_is_read() {
    let event = |text: &str| serde_json::from_str::<Event>(text).unwrap();
    assert_eq!(event(r#"{"event":"cancel"}"#), cancel());
    assert_eq!(event(r#"{"event":"makeRoom","attempt":1,"promise":"p"}"#), room_for("p", 1));
    assert_eq!(event(r#"{"event":"promiseEnded","reason":"over"}"#), promise_ended());
    for (event, text) in [
        (cancel(), r#"{"event":"cancel"}"#),
        (Event::Yield(order_of(0, false)), r#"{"event":"yield","graceMs":0}"#),
        (
            Event::MakeRoom {
                attempt: 1,
                promise: "p".to_owned(),
                grace_ms: Some(20),
                cut_from_ms: Some(60),
            },
            r#"{"event":"makeRoom","attempt":1,"promise":"p","graceMs":20,"cutFromMs":60}"#,
        ),
        (Event::Cancel(order_of(5, true)), r#"{"event":"cancel","graceMs":5,"checkpoint":true}"#),
    ] {
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
        assert_eq!(serde_json::from_str::<Event>(text).unwrap(), event);
    }
    // The version before had told a task that makes room to save its work, without an order.
    let stopping = after(rules(0, OnLoss::Restart), &[place(1), room_for("p", 1)]);
    let before = Progress { stop_order: StopOrder::default(), ..stopping };
    assert!(!serde_json::to_string(&before).unwrap().contains("stopOrder"));
    assert_eq!(before.present_order(), order_of(None, true));
}

#[test]
fn a_task_ends_with_its_promise() {
    let often = rules(9, OnLoss::Restart);
    let over = promise_ended;
    let promise = || Some(Ending::Promise("over".to_owned()));
    check(often, &[over()], State::Cancelled, promise());
    let runs = [place(1), Event::Start { attempt: 1 }, over(), end(1, Ending::Cancelled)];
    check(often, &runs, State::Failed, promise());
    let done = [place(1), over(), end(1, Ending::Exit(0))];
    check(often, &done, State::Succeeded, Some(Ending::Exit(0)));
    let lost = [place(1), Event::NodeLost { attempt: 1 }, over(), Event::LeaseOver { attempt: 1 }];
    check(often, &lost, State::Failed, promise());
    let room = room_for("p", 1);
    check(often, &[place(1), room, over(), end(1, Ending::Cancelled)], State::Failed, promise());
    let cancelled = [place(1), cancel(), over(), end(1, Ending::Cancelled)];
    check(often, &cancelled, State::Cancelled, Some(Ending::Cancelled));
    check(often, &[place(1), end(1, Ending::Exit(0)), over()], State::Succeeded, Some(Ending::Exit(0)));
}

#[test]
fn a_cancelled_task_stops_wherever_it_is() {
    let rules = rules(5, OnLoss::Restart);
    let steps =
        [place(1), Event::Accept { attempt: 1 }, Event::Prepare { attempt: 1 }, Event::Start { attempt: 1 }];
    check(rules, &[cancel(), cancel()], State::Cancelled, Some(Ending::Cancelled));
    for reached in 1..=steps.len() {
        let mut events = steps[..reached].to_vec();
        events.extend([cancel(), Event::Start { attempt: 1 }]);
        check(rules, &events, State::Stopping, None);
        events.push(end(1, Ending::Signal(15)));
        check(rules, &events, State::Cancelled, Some(Ending::Signal(15)));
    }
    let done = [place(1), cancel(), end(1, Ending::Exit(0))];
    check(rules, &done, State::Succeeded, Some(Ending::Exit(0)));
    let lost = [place(1), Event::NodeLost { attempt: 1 }, cancel(), Event::LeaseOver { attempt: 1 }];
    check(rules, &lost, State::Cancelled, Some(Ending::NodeLost));
}

#[test]
fn a_lost_node_s_task_goes_on_there_or_elsewhere_and_never_both() {
    let lost = [place(1), Event::Start { attempt: 1 }, Event::NodeLost { attempt: 1 }];
    let mut progress = after(rules(0, OnLoss::Restart), &lost);
    let early = progress.apply(&rules(0, OnLoss::Restart), Millis(0), place(2), Actor::Scheduler);
    assert_eq!(early, Err(Refused::NotQueued { given: 2, current: 1, state: State::Lost }));
    let with = |last: Event| [lost.to_vec(), vec![last]].concat();
    let over = || with(Event::LeaseOver { attempt: 1 });
    check(rules(0, OnLoss::Restart), &over(), State::Queued, Some(Ending::NodeLost));
    check(rules(9, OnLoss::Fail), &over(), State::Failed, Some(Ending::NodeLost));
    check(rules(9, OnLoss::Wait), &over(), State::Lost, None);
    check(rules(0, OnLoss::Fail), &with(Event::NodeBack { attempt: 1 }), State::Running, None);
    check(rules(0, OnLoss::Fail), &with(end(1, Ending::Exit(0))), State::Succeeded, Some(Ending::Exit(0)));
    assert_eq!(after(rules(0, OnLoss::Restart), &over()).failures, 0, "a loss is no failure of the task");
}

/// A keeper that was killed, a lease that was over for a moment, a machine that was started anew.
#[test]
fn a_loss_that_the_node_reports_is_one_like_any_other() {
    let lost = [place(1), Event::Start { attempt: 1 }, end(1, Ending::NodeLost)];
    let progress = after(rules(0, OnLoss::Restart), &lost);
    assert_eq!(
        (progress.state, progress.failures, progress.not_before),
        (State::Queued, 0, Some(Millis(121_000)))
    );
    let again = [&lost[..], &[place(2), end(2, Ending::NodeLost)]].concat();
    let progress = after(rules(0, OnLoss::Restart), &again);
    assert_eq!(
        (progress.failures, progress.not_before),
        (0, Some(Millis(242_000))),
        "the pauses become longer"
    );
    check(rules(9, OnLoss::Fail), &lost, State::Failed, Some(Ending::NodeLost));
    // Its node is there, and what ran is not.
    check(rules(0, OnLoss::Wait), &lost, State::Failed, Some(Ending::NodeLost));
    check(rules(1, OnLoss::Wait), &lost, State::Queued, Some(Ending::NodeLost));
    let stopping = [place(1), cancel(), end(1, Ending::NodeLost)];
    check(rules(0, OnLoss::Restart), &stopping, State::Cancelled, Some(Ending::NodeLost));
}

#[test]
fn what_comes_late_of_an_earlier_attempt_changes_nothing() {
    let rules = rules(1, OnLoss::Restart);
    let second = [place(1), end(1, Ending::Exit(1)), place(2), Event::Start { attempt: 2 }];
    let expected = after(rules, &second);
    let late = [
        Event::Accept { attempt: 1 },
        Event::Start { attempt: 1 },
        end(1, Ending::Exit(0)),
        Event::NodeLost { attempt: 1 },
        Event::LeaseOver { attempt: 1 },
    ];
    for event in late {
        let mut progress = expected.clone();
        assert_eq!(
            progress.apply(&rules, Millis(500_000), event.clone(), Actor::Scheduler),
            Ok(None),
            "{event:?}"
        );
        assert_eq!(progress, expected);
    }
    let unknown =
        expected.clone().apply(&rules, Millis(500_000), Event::Start { attempt: 3 }, Actor::Scheduler);
    assert_eq!(unknown, Err(Refused::Unknown { given: 3, current: 2 }));
}

#[test]
fn a_task_waits_for_others_and_ends_when_it_can_never_run() {
    let rules = rules(3, OnLoss::Restart);
    let awaited = |number: u64, on: On| Awaited { number: TaskNumber(number), id: format!("t{number}"), on };
    let waiting =
        Progress { awaits: vec![awaited(1, On::Success), awaited(2, On::End)], ..Progress::default() };
    let heard = |progress: &Progress, number: u64, succeeded: bool, over: bool| {
        let (mut next, task) = (progress.clone(), format!("t{number}"));
        let event = Event::Dependency { number: TaskNumber(number), task, succeeded, over };
        let transition = next.apply(&rules, Millis(5), event.clone(), Actor::Scheduler).unwrap();
        assert_eq!(
            next.apply(&rules, Millis(6), event, Actor::Scheduler),
            Ok(None),
            "what is said twice is the same"
        );
        (next, transition.is_some())
    };
    let refused = waiting.clone().apply(&rules, Millis(5), place(1), Actor::Scheduler).unwrap_err();
    assert_eq!(refused, Refused::Awaits("t1".to_owned()));
    // A part of an array has ended, which is neither good nor bad yet.
    assert_eq!(heard(&waiting, 1, true, false), (waiting.clone(), false));
    assert_eq!(heard(&waiting, 2, false, false), (waiting.clone(), false));
    assert_eq!(heard(&waiting, 3, false, true), (waiting.clone(), false), "it does not wait for that one");
    let (one, _) = heard(&waiting, 2, false, true);
    assert_eq!((one.state, one.awaits.len()), (State::Queued, 1));
    let (ready, _) = heard(&one, 1, true, true);
    assert_eq!((ready.state, ready.awaits.len()), (State::Queued, 0));
    ready.clone().apply(&rules, Millis(5), place(1), Actor::Scheduler).unwrap().unwrap();
    let (never, _) = heard(&one, 1, false, false);
    assert_eq!((never.state, never.ending), (State::Cancelled, Some(Ending::Dependency("t1".to_owned()))));
    let mut cancelled = waiting;
    cancelled.apply(&rules, Millis(5), cancel(), Actor::Scheduler).unwrap().unwrap();
    assert_eq!((cancelled.state, cancelled.awaits.len()), (State::Cancelled, 0));
}

#[test]
fn the_wire_has_the_paper_s_words() {
    let text = serde_json::to_string(&[State::Accepted, State::Preparing]).unwrap();
    assert_eq!(text, r#"["ACCEPTED","PREPARING"]"#);
    let event = serde_json::to_string(&end(1, Ending::Exit(3))).unwrap();
    assert_eq!(event, r#"{"event":"end","attempt":1,"ending":{"exit":3}}"#);
}

fn order() -> impl Strategy<Value = StopOrder> {
    let grace = prop_oneof![Just(None), Just(Some(0)), Just(Some(5_000)), Just(Some(3_600_000))];
    (grace, any::<bool>()).prop_map(|(grace_ms, checkpoint)| StopOrder { grace_ms, checkpoint })
}

fn event() -> impl Strategy<Value = Event> {
    let attempt = || 0..5_u32;
    let ending = prop_oneof![
        Just(Ending::Exit(0)),
        Just(Ending::Exit(1)),
        Just(Ending::Signal(9)),
        Just(Ending::Cancelled),
        Just(Ending::NodeLost),
        Just(Ending::ImageMissing)
    ];
    prop_oneof![
        3 => attempt().prop_map(place),
        2 => attempt().prop_map(|attempt| Event::Accept { attempt }),
        2 => attempt().prop_map(|attempt| Event::Start { attempt }),
        2 => (attempt(), ending).prop_map(|(attempt, ending)| end(attempt, ending)),
        1 => Just(cancel()),
        2 => attempt().prop_map(|attempt| Event::NodeLost { attempt }),
        1 => attempt().prop_map(|attempt| Event::NodeBack { attempt }),
        1 => attempt().prop_map(|attempt| Event::LeaseOver { attempt }),
        2 => attempt().prop_map(|attempt| room_for("p", attempt)),
        1 => Just(promise_ended()),
        2 => order().prop_map(Event::Yield),
        1 => order().prop_map(Event::Cancel),
    ]
}

proptest! {
    #[test]
    fn events_in_any_order_start_a_task_as_often_as_its_rules_say(
        events in proptest::collection::vec(event(), 0..80), retries in 0..3_u32,
        on_loss in prop_oneof![Just(OnLoss::Restart), Just(OnLoss::Fail), Just(OnLoss::Wait)],
    ) {
        let rules = rules(retries, on_loss);
        let mut progress = Progress::default();
        let (mut placed, mut restarted, mut displaced) = (0, 0, 0);
        for (at, event) in events.iter().enumerate() {
            let (before, at) = (progress.clone(), at as u64 * 1_000_000);
            let transition = progress.apply(&rules, Millis(at), event.clone(), Actor::Scheduler).unwrap_or(None);
            prop_assert_eq!(transition.is_none(), progress == before);
            prop_assert!(!before.state.is_final() || progress == before, "an end is final");
            if progress.attempt > before.attempt {
                prop_assert_eq!((before.state, progress.attempt), (State::Queued, before.attempt + 1));
                placed += 1;
            }
            let is_lost = progress.ending == Some(Ending::NodeLost);
            let queued_again = before.state.is_placed() && progress.state == State::Queued;
            let made_room = queued_again && matches!(before.stop, Some(StopCause::MakeRoom | StopCause::Yield));
            displaced += u32::from(made_room);
            restarted += u32::from(is_lost && queued_again && !made_room && progress.failures == before.failures);
            let again = progress.clone();
            let _ = progress.apply(&rules, Millis(at), event.clone(), Actor::Scheduler);
            prop_assert_eq!(&progress, &again, "what is said twice is the same");
        }
        prop_assert!(placed <= 1 + retries + restarted + displaced);
        prop_assert!(on_loss == OnLoss::Restart || restarted == 0);
    }
}

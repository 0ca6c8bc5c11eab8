//! The end of a reservation: what its task had is paid, what it missed is not, and what is given back costs a twentieth.

use super::*;

fn state_of(state: PromiseState) -> usize {
    PromiseState::ALL.iter().position(|known| *known == state).unwrap()
}

fn heard(revision: u64, state: PromiseState, tasks: PromiseTasks) -> Step {
    Step::Hear { of: 1, revision, state: state_of(state), tasks: Some(tasks) }
}

/// One task, which had and missed so many seconds; over, if it has ended.
fn tasks(had: u64, missed: u64, ended: Option<u64>) -> PromiseTasks {
    let is_over = ended.is_some();
    PromiseTasks {
        open: u32::from(!is_over),
        silent: 0,
        over: u32::from(is_over),
        had_milliseconds: had * 1_000,
        missed_milliseconds: missed * 1_000,
        ended,
    }
}

/// The state, what was given back to the user and what is the operator's.
#[track_caller]
fn outcome(world: &World) -> (State, u64, u64) {
    world.check();
    let table = world.state.table();
    let balance = |account: &str| table.credits.balance(account).as_microcredits();
    (table.get(1).unwrap().state(), balance("user 1") - 900, balance(INCOME))
}

#[test]
fn a_promise_that_is_over_is_paid_for_what_its_task_had() {
    for (known, expected) in [
        (tasks(100, 0, Some(1_200)), (State::Over, 0, 100)),
        (tasks(0, 100, Some(1_200)), (State::Over, 100, 0)),
        (tasks(70, 30, Some(1_205)), (State::Over, 30, 70)),
        // It could not begin for a reason of its own.
        (tasks(0, 0, Some(1_200)), (State::Over, 0, 100)),
        // It was asked to leave, and had not begun.
        (tasks(0, 100, Some(1_190)), (State::Over, 100, 0)),
        // The reservation service was away when it ended.
        (tasks(60, 0, Some(1_160)), (State::Over, 38, 62)),
    ] {
        let mut world = promised();
        world.take(Step::Wait { seconds: 201 });
        world.take(heard(8, PromiseState::Over, known));
        assert_eq!(outcome(&world), expected, "{known:?}");
        let guarantee = crate::http::views::record(world.state.table().get(1).unwrap()).guarantee.unwrap();
        let missed = known.missed_milliseconds / 1_000;
        assert_eq!(guarantee.kept, Some(missed == 0));
        assert_eq!(
            (guarantee.had_seconds, guarantee.missed_seconds),
            (Some(known.had_milliseconds / 1_000), missed)
        );
    }
}

#[test]
fn payment_waits_for_the_end_of_its_task() {
    let mut world = promised();
    world.take(Step::Wait { seconds: 201 });
    world.take(heard(8, PromiseState::Over, tasks(100, 0, None)));
    assert_eq!(outcome(&world), (State::Active, 0, 0));
    let mut silent = promised();
    silent.take(Step::Wait { seconds: 201 });
    silent.take(heard(8, PromiseState::Over, tasks(40, 60, None)));
    world.take(heard(9, PromiseState::Over, tasks(100, 0, Some(1_209))));
    assert_eq!(outcome(&world), (State::Over, 0, 100));
    // Its node was never heard of again: what is known counts.
    silent.take(Step::LookAtTasks { of: 1, tasks: None });
    assert_eq!(outcome(&silent), (State::Over, 60, 40));
}

#[test]
fn a_task_that_never_came_to_the_task_service_costs_nothing() {
    let mut world = World::new();
    for step in [
        Step::Grant { user: 1, amount: 1_000, key: None },
        Step::Open { user: 1, prices: vec![100], key: None },
        Step::Promise { of: 1 },
        Step::Wait { seconds: 201 },
        heard(8, PromiseState::Over, PromiseTasks::default()),
    ] {
        world.take(step);
    }
    assert_eq!(outcome(&world), (State::Over, 100, 0));
}

#[test]
fn a_service_without_tallies_is_paid_by_the_plan() {
    let mut world = promised();
    world.take(Step::Hear { of: 1, revision: 8, state: state_of(PromiseState::Over), tasks: None });
    assert_eq!(outcome(&world), (State::Over, 0, 100));
}

#[test]
fn the_end_of_its_task_gives_the_rest_back() {
    for (wait, ended, expected) in [
        (150, 1_140, (State::Over, 57, 43)),
        // It is heard of later than it happened.
        (190, 1_140, (State::Over, 57, 43)),
        // Somebody cancelled the task before its time.
        (50, 1_040, (State::Cancelled, 95, 5)),
    ] {
        let mut world = promised();
        world.take(Step::Wait { seconds: wait });
        let known = tasks(40, 0, Some(ended));
        world.take(heard(8, PromiseState::Active, known));
        assert_eq!(outcome(&world).0, State::Active, "it is looked whether that is so");
        assert!(world.state.table().untold().next().is_some());
        world.take(Step::LookAtTasks { of: 1, tasks: Some(known) });
        assert_eq!(outcome(&world), expected, "after {wait} s");
        assert!(world.state.table().get(1).unwrap().progress.is_to_release);
    }
}

#[test]
fn cancelling_costs_a_twentieth_of_what_is_left() {
    for (wait, refund) in [(0, 95), (99, 95), (100, 94), (150, 46), (199, 0)] {
        let mut world = promised();
        world.take(Step::Wait { seconds: wait });
        world.take(Step::Cancel { of: 1, in_full: false });
        assert_eq!(outcome(&world), (State::Cancelled, refund, 100 - refund), "after {wait} s");
        assert!(world.state.table().get(1).unwrap().progress.is_to_release);
    }
    // Time that was missed before is not paid either.
    let mut late = promised();
    late.take(Step::Wait { seconds: 150 });
    late.take(heard(8, PromiseState::Active, tasks(10, 40, None)));
    late.take(Step::Cancel { of: 1, in_full: false });
    assert_eq!(outcome(&late), (State::Cancelled, 86, 14));
}

/// The ledger is asked for the promise of the reservation.
fn looked_up(world: &mut World, found: Option<(u64, PromiseState, PromiseTasks)>) {
    let id = world.state.table().get(1).unwrap().promise_id();
    let record = found.map(|(revision, state, tasks)| PromiseRecord {
        tasks: Some(tasks),
        ..promise(id, state_of(state), revision, 1_100, 1_200)
    });
    world.decide(LookedUp { number: 1, record });
}

#[test]
fn a_promise_that_the_ledger_has_forgotten_is_over() {
    let mut world = promised();
    world.take(Step::Wait { seconds: 150 });
    world.take(heard(8, PromiseState::Active, tasks(30, 20, None)));
    world.take(Step::Wait { seconds: 60 });
    assert!(world.state.table().overdue(1_199).next().is_none());
    assert_eq!(world.state.table().overdue(1_200).count(), 1);
    looked_up(&mut world, None);
    assert_eq!(outcome(&world).0, State::Active, "its task had not ended when it was heard of last");
    assert!(
        world.state.table().overdue(u64::MAX).next().is_none()
            && world.state.table().untold().next().is_some()
    );
    world.take(Step::LookAtTasks { of: 1, tasks: None });
    assert_eq!(outcome(&world), (State::Over, 20, 80));
    assert!(world.state.table().overdue(u64::MAX).next().is_none());

    let mut ended = promised();
    ended.take(Step::Wait { seconds: 201 });
    looked_up(&mut ended, None);
    assert_eq!(
        outcome(&ended),
        (State::Over, 0, 100),
        "it is paid by the plan where nothing was heard of tasks"
    );

    let mut lost = promised();
    lost.take(Step::Wait { seconds: 150 });
    looked_up(&mut lost, None);
    assert_eq!(outcome(&lost), (State::Broken, 100, 0), "a promise that is gone before its end was lost");
}

#[test]
fn an_end_that_was_not_heard_of_is_found() {
    let mut world = promised();
    world.take(Step::Wait { seconds: 201 });
    looked_up(&mut world, Some((2, PromiseState::Active, tasks(100, 0, None))));
    looked_up(&mut world, Some((1, PromiseState::Broken, tasks(0, 0, None))));
    assert_eq!(outcome(&world).0, State::Promised, "it lives, or the answer is an old one");
    // The answer to the order had the revision with which it ended.
    looked_up(&mut world, Some((2, PromiseState::Over, tasks(80, 20, Some(1_200)))));
    assert_eq!(outcome(&world), (State::Over, 20, 80));
}

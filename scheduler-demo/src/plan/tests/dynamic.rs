//! How much the dynamic policy gives to whom.

use super::*;
use crate::plan::{Action, DynamicPolicy, DynamicSettings, Policy};

fn dynamic(of: &[(u64, f64)], settings: DynamicSettings) -> DynamicPolicy {
    let members = of.iter().enumerate().map(|(i, (_, rate))| (name(i), *rate)).collect();
    let sizes: Vec<u64> = of.iter().map(|(items, _)| *items).collect();
    DynamicPolicy::new(members, in_order(&sizes), settings).unwrap()
}

fn give(node: usize, items: std::ops::Range<ItemId>) -> Action {
    Action::Give { node, items: items.collect() }
}

#[test]
fn chunks_are_half_of_a_fair_share_of_what_is_left() {
    let mut policy = dynamic(&[(75, 3.0), (25, 1.0)], DynamicSettings::default());
    // 100 · 3/4 / 2, then (100 - 38) · 1/4 / 2, rounded up.
    assert_eq!(policy.started(0), [give(0, 0..38)]);
    assert_eq!(policy.started(1), [give(1, 75..83)]);
    let mut coarse =
        dynamic(&[(75, 3.0), (25, 1.0)], DynamicSettings { min_chunk: 20, ..DynamicSettings::default() });
    coarse.started(0);
    assert_eq!(coarse.started(1), [give(1, 75..95)]);
}

#[test]
fn a_node_without_a_part_left_takes_the_end_of_the_last_ones() {
    let mut policy = dynamic(&[(2, 1.0), (10, 1.0), (20, 1.0)], DynamicSettings::default());
    policy.started(0);
    assert_eq!(policy.done(0, &[0, 1], 2.0), [give(0, 27..32)]);
}

#[test]
fn the_tail_is_stolen_so_that_both_end_together() {
    let all = DynamicSettings { min_chunk: 12, ..DynamicSettings::default() };
    let mut policy = dynamic(&[(12, 1.0), (0, 2.0)], all);
    assert_eq!(policy.started(0), [give(0, 0..12)]);
    let stolen: Vec<ItemId> = (4..12).collect();
    assert_eq!(
        policy.started(1),
        [Action::TakeBack { node: 0, items: stolen.clone() }, Action::Give { node: 1, items: stolen }]
    );
}

#[test]
fn a_last_item_is_begun_anew_only_where_that_is_far_faster() {
    let mut near = dynamic(&[(1, 1.0), (0, 1.9)], DynamicSettings::default());
    near.started(0);
    assert_eq!(near.started(1), []);
    let mut far = dynamic(&[(1, 1.0), (0, 2.0)], DynamicSettings::default());
    far.started(0);
    assert_eq!(far.started(1), [Action::TakeBack { node: 0, items: vec![0] }, give(1, 0..1)]);
    // The slow one was faster than it looked: the other need not do it any more.
    assert_eq!(far.done(0, &[0], 1.0), [Action::TakeBack { node: 1, items: vec![0] }, Action::Finished]);
    assert_eq!(far.merged(), [Some(0)]);
}

#[test]
fn measurements_set_the_unit_of_capabilities() {
    let mut policy =
        dynamic(&[(50, 0.5), (50, 1.0)], DynamicSettings { smoothing: 0.5, ..DynamicSettings::default() });
    policy.started(0);
    assert_eq!(policy.rates(), [0.5, 1.0]);
    policy.done(0, &[0, 1, 2, 3], 1.0);
    assert_eq!(policy.rates(), [4.0, 8.0]);
    policy.done(0, &[4, 5], 1.0);
    assert_eq!(policy.rates(), [3.0, 6.0]);
    policy.lost(0);
    assert_eq!(policy.rates(), [0.0, 6.0]);
}

#[test]
fn a_node_that_comes_again_is_as_fast_as_it_was() {
    let mut policy = dynamic(&[(50, 1.0), (50, 1.0)], DynamicSettings::default());
    policy.started(0);
    policy.done(0, &[0, 1, 2], 1.0);
    policy.lost(0);
    assert_eq!(policy.joined(&name(0), 2.0), (0, vec![]));
    assert_eq!(policy.rates(), [3.0, 1.5]);
    assert_eq!(policy.joined("another", 2.0), (2, vec![]));
    assert_eq!(policy.rates(), [3.0, 1.5, 3.0]);
}

#[test]
fn invalid_settings_are_rejected() {
    for (ahead_seconds, smoothing) in [(f64::NAN, 0.5), (-1.0, 0.5), (0.0, 0.0), (0.0, 1.1), (0.0, f64::NAN)]
    {
        let settings = DynamicSettings { ahead_seconds, smoothing, ..DynamicSettings::default() };
        let refused = DynamicPolicy::new(Vec::new(), Vec::new(), settings);
        assert!(matches!(refused, Err(Error::Setting { .. })), "{settings:?}");
    }
}

#[test]
fn silence_lowers_a_speed_for_a_while() {
    let mut policy =
        dynamic(&[(50, 1.0), (50, 1.0)], DynamicSettings { smoothing: 0.5, ..DynamicSettings::default() });
    policy.started(0);
    policy.started(1);
    policy.done(0, &[0], 1.0);
    policy.done(1, &[50], 1.0);
    for _ in 0..20 {
        policy.done(0, &[], 1.0);
    }
    assert_eq!(policy.rates(), [0.05, 1.0]);
    // One in 25 seconds.
    policy.done(0, &[1], 5.0);
    assert_eq!(policy.rates(), [0.52, 1.0]);
}

#[test]
fn the_next_chunk_comes_ahead_of_time_if_configured() {
    let mut policy =
        dynamic(&[(100, 1.0)], DynamicSettings { ahead_seconds: 2.0, ..DynamicSettings::default() });
    assert_eq!(policy.started(0), [give(0, 0..50)]);
    let most: Vec<ItemId> = (0..47).collect();
    assert_eq!(policy.done(0, &most, 47.0), []);
    assert_eq!(policy.done(0, &[47], 1.0), [give(0, 50..75)]);
}

#[test]
fn a_node_without_capability_gets_nothing_while_others_have_some() {
    let mut policy = dynamic(&[(0, 0.0), (10, 1.0)], DynamicSettings::default());
    assert_eq!(policy.started(0), []);
    assert_eq!(policy.lost(1), [give(0, 0..5)]);
}

//! A node is kept for a task that waits too long: it gets its room in the end, and what fits beside it is not kept out.

use std::collections::BTreeSet;

use estimand_placement::obstacle::{Obstacle, obstacle};
use estimand_placement::outline::PlanOutline;
use estimand_placement::queue::rank;

use super::*;

#[test]
fn a_large_task_is_not_kept_out_for_ever() {
    let mut cluster = cluster(&[4]);
    let mut queue = Queue::default();
    let small = request(&mut cluster, 1000, Policy::Queue);
    let large = request(&mut cluster, 4000, Policy::Queue);
    queue.push(TaskNumber(0), Millis(0), 0, &small);
    let first = place_waiting(&mut cluster, &mut queue, Millis(0), 0);
    queue.push(TaskNumber(1), Millis(1), 0, &large);
    assert!(place_waiting(&mut cluster, &mut queue, Millis(1), 0).is_empty());
    queue.push(TaskNumber(2), Millis(2), 0, &small);
    let second = place_waiting(&mut cluster, &mut queue, Millis(2), 0);
    assert_eq!(names(&second), [(2, "n0")], "so far it may pass by");
    queue.push(TaskNumber(3), Millis(PATIENCE), 0, &small);
    assert!(place_waiting(&mut cluster, &mut queue, Millis(PATIENCE + 1), 0).is_empty(), "the node is kept");
    for ended in first.iter().chain(&second) {
        end(&mut cluster, ended, PATIENCE);
    }
    let third = place_waiting(&mut cluster, &mut queue, Millis(PATIENCE + 2), 0);
    assert_eq!(names(&third), [(1, "n0")]);
    end(&mut cluster, &third[0], PATIENCE + 2);
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, Millis(PATIENCE + 3), 0)), [(3, "n0")]);
}

#[test]
fn a_node_is_kept_no_longer_than_it_is_waited_for() {
    let mut cluster = cluster(&[4]);
    let mut queue = Queue::default();
    let small = request(&mut cluster, 1000, Policy::Queue);
    let large = request(&mut cluster, 4000, Policy::Queue);
    queue.push(TaskNumber(0), Millis(0), 0, &small);
    place_waiting(&mut cluster, &mut queue, Millis(0), 0);
    queue.push(TaskNumber(1), Millis(0), 0, &large);
    queue.push(TaskNumber(2), Millis(PATIENCE), 0, &small);
    assert!(place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 0).is_empty(), "the node is kept");
    assert!(queue.remove(TaskNumber(1)), "it is cancelled");
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 0)), [(2, "n0")]);
}

/// A node with four processors and 256 places.
fn one_node() -> Cluster {
    let mut cluster = Cluster::new(Ledger::new(0));
    put(&mut cluster, "n0", LabelMap::new(), &[("cpu", 4000), ("tasks", 256)]);
    cluster
}

/// A request for processors, and a place.
fn asking(cluster: &mut Cluster, cpu: u64, policy: Policy) -> Request {
    let asked = amounts(&[("cpu", cpu), ("tasks", 1)]);
    Request::new(&mut cluster.ledger, asked, Selector::default(), policy)
}

#[test]
fn what_fits_beside_the_one_that_waits_is_not_kept_out() {
    let mut cluster = one_node();
    let mut queue = Queue::default();
    let [nothing, one, two, three] =
        [0, 1000, 2000, 3000].map(|cpu| asking(&mut cluster, cpu, Policy::Estimated));
    queue.push(TaskNumber(0), Millis(0), 0, &three);
    let first = place_waiting(&mut cluster, &mut queue, Millis(0), 0);
    queue.push(TaskNumber(1), Millis(0), 0, &two);
    assert!(place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 0).is_empty(), "the node is kept");
    (100..355).for_each(|task| queue.push(TaskNumber(task), Millis(PATIENCE), 0, &nothing));
    let placed = place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 0);
    assert_eq!(placed.len(), 255, "the place of the task that runs will be that of the one that waits");
    end(&mut cluster, &placed[0], PATIENCE + 1);
    end(&mut cluster, &placed[1], PATIENCE + 1);
    place_waiting(&mut cluster, &mut queue, Millis(PATIENCE + 1), 0);
    // Three processors are used, and two are needed for the one that waits: one more task of one processor fits beside it.
    (400..402).for_each(|task| queue.push(TaskNumber(task), Millis(PATIENCE), 0, &one));
    let beside = place_waiting(&mut cluster, &mut queue, Millis(PATIENCE + 2), 0);
    assert_eq!(names(&beside), [(400, "n0")]);
    end(&mut cluster, &first[0], PATIENCE + 3);
    let last = place_waiting(&mut cluster, &mut queue, Millis(PATIENCE + 4), 0);
    assert_eq!(names(&last)[0], (1, "n0"), "its two processors are free");
}

#[test]
fn processors_are_kept_for_a_policy_that_waits_for_one() {
    let mut cluster = one_node();
    let mut queue = Queue::default();
    let (waits, shares) =
        [Policy::Queue, Policy::Estimated].map(|policy| asking(&mut cluster, 0, policy)).into();
    (0..4).for_each(|task| queue.push(TaskNumber(task), Millis(0), 0, &shares));
    let mut running = place_waiting(&mut cluster, &mut queue, Millis(0), 0);
    queue.push(TaskNumber(4), Millis(0), 0, &waits);
    (5..9).for_each(|task| queue.push(TaskNumber(task), Millis(PATIENCE), 0, &shares));
    running.extend(place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 0));
    let later: Vec<u64> = running[4..].iter().map(|decision| decision.task.0).collect();
    assert_eq!(later, [5, 6, 7], "a processor is left once those of before have ended");
    running[..4].iter().for_each(|ended| end(&mut cluster, ended, PATIENCE));
    let next = place_waiting(&mut cluster, &mut queue, Millis(PATIENCE + 1), 0);
    assert_eq!(names(&next), [(4, "n0"), (8, "n0")]);
}

proptest! {
    /// However many small tasks come, the oldest has room as soon as those that ran when its node was kept have ended. And
    /// nothing waits that fits beside it.
    #[test]
    fn the_oldest_gets_its_node_in_the_end(
        small in proptest::collection::vec((0..4_u64, 0..7_usize, 1..6_u64), 120),
        size in 3..5_u64,
        which in 0..7_usize,
    ) {
        const MINUTE: u64 = 60_000;
        const LONGEST: u64 = 5;
        let mut cluster = cluster(&[4, 4]);
        let mut queue = Queue::default();
        let mut running: Vec<(u64, Decision)> = Vec::new();
        let mut waiting: Vec<(TaskNumber, u64, Request)> = Vec::new();
        let oldest = TaskNumber(0);
        let mut placed_at = None;
        for (step, tasks) in small.chunks(4).enumerate() {
            let (step, now) = (step as u64, step as u64 * MINUTE);
            let (ended, still): (Vec<_>, Vec<_>) = running.into_iter().partition(|(until, _)| *until <= step);
            ended.iter().for_each(|(_, decision)| end(&mut cluster, decision, now));
            running = still;
            for (place, (cpu, policy, _)) in tasks.iter().enumerate() {
                let request = request(&mut cluster, 1000 * cpu, Policy::ALL[*policy]);
                waiting.push((TaskNumber(1 + step * 4 + place as u64), now, request));
            }
            if step == 1 {
                waiting.push((oldest, now - MINUTE, request(&mut cluster, 1000 * size, Policy::ALL[which])));
            }
            for (task, submitted_at, request) in &waiting {
                queue.push(*task, Millis(*submitted_at), 0, request);
            }
            for decision in place_waiting(&mut cluster, &mut queue, Millis(now), 1) {
                waiting.retain(|(task, ..)| *task != decision.task);
                placed_at = placed_at.or((decision.task == oldest).then_some(step));
                let length = small[decision.task.0 as usize % small.len()].2;
                running.push((step + length, decision));
            }
            let plan = PlanOutline::new(&cluster, &queue, BTreeSet::new());
            for (task, submitted_at, request) in &waiting {
                let obstacle = obstacle(&plan, request, rank(*task, Millis(*submitted_at), 0));
                prop_assert!(obstacle.is_some(), "{task:?} waits, and there is room for it");
                let kept = matches!(obstacle, Some(Obstacle::Kept { .. }));
                let takes_nothing = request.amounts.is_empty() && Policy::ALL[which] != Policy::Queue;
                prop_assert!(!kept || !takes_nothing || placed_at.is_some(), "{task:?} fits beside it");
            }
        }
        let placed_at = placed_at.expect("the oldest waits for ever");
        prop_assert!(placed_at <= PATIENCE / MINUTE + LONGEST, "placed after {placed_at} minutes");
    }
}

//! A node is kept for a task that waits too long: it gets its room in the end, and what fits beside it is not kept out.

use estimand_tasks::core::planner::PATIENCE;

use super::*;

#[test]
fn a_large_task_is_not_kept_out_for_ever() {
    let (mut cluster, mut queue) = (cluster(&[4]), Queue::default());
    let small = request(&mut cluster, 1000, Policy::Queue);
    let large = request(&mut cluster, 4000, Policy::Queue);
    queue.push(TaskNumber(0), 0, 0, &small);
    let first = place_waiting(&mut cluster, &mut queue, 0, 0);
    queue.push(TaskNumber(1), 1, 0, &large);
    assert!(place_waiting(&mut cluster, &mut queue, 1, 0).is_empty());
    queue.push(TaskNumber(2), 2, 0, &small);
    let second = place_waiting(&mut cluster, &mut queue, 2, 0);
    assert_eq!(names(&second), [(2, "n0")], "so far it may pass by");
    queue.push(TaskNumber(3), PATIENCE, 0, &small);
    assert!(place_waiting(&mut cluster, &mut queue, PATIENCE + 1, 0).is_empty(), "the node is kept");
    for ended in first.iter().chain(&second) {
        end(&mut cluster, ended, PATIENCE);
    }
    let third = place_waiting(&mut cluster, &mut queue, PATIENCE + 2, 0);
    assert_eq!(names(&third), [(1, "n0")]);
    end(&mut cluster, &third[0], PATIENCE + 2);
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, PATIENCE + 3, 0)), [(3, "n0")]);
}

#[test]
fn a_node_is_kept_no_longer_than_it_is_waited_for() {
    let (mut cluster, mut queue) = (cluster(&[4]), Queue::default());
    let small = request(&mut cluster, 1000, Policy::Queue);
    let large = request(&mut cluster, 4000, Policy::Queue);
    queue.push(TaskNumber(0), 0, 0, &small);
    place_waiting(&mut cluster, &mut queue, 0, 0);
    queue.push(TaskNumber(1), 0, 0, &large);
    queue.push(TaskNumber(2), PATIENCE, 0, &small);
    assert!(place_waiting(&mut cluster, &mut queue, PATIENCE, 0).is_empty(), "the node is kept");
    assert!(queue.remove(TaskNumber(1)), "it is cancelled");
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, PATIENCE, 0)), [(2, "n0")]);
}

/// A node with four processors and 256 places.
fn one_node() -> Cluster {
    let mut cluster = Cluster::new(Ledger::new(0));
    cluster.set_node("n0", LabelMap::new(), &amounts(&[("cpu", 4000), ("tasks", 256)]));
    cluster
}

/// A request for processors, and a place.
fn asking(cluster: &mut Cluster, cpu: u64, policy: Policy) -> Request {
    let asked = amounts(&[("cpu", cpu), ("tasks", 1)]);
    Request::new(&mut cluster.ledger, asked, Selector::default(), policy)
}

#[test]
fn what_fits_beside_the_one_that_waits_is_not_kept_out() {
    let (mut cluster, mut queue) = (one_node(), Queue::default());
    let [nothing, one, two, three] =
        [0, 1000, 2000, 3000].map(|cpu| asking(&mut cluster, cpu, Policy::Estimated));
    queue.push(TaskNumber(0), 0, 0, &three);
    let first = place_waiting(&mut cluster, &mut queue, 0, 0);
    queue.push(TaskNumber(1), 0, 0, &two);
    assert!(place_waiting(&mut cluster, &mut queue, PATIENCE, 0).is_empty(), "the node is kept");
    (100..355).for_each(|task| queue.push(TaskNumber(task), PATIENCE, 0, &nothing));
    let placed = place_waiting(&mut cluster, &mut queue, PATIENCE, 0);
    assert_eq!(placed.len(), 255, "the place of the task that runs will be that of the one that waits");
    end(&mut cluster, &placed[0], PATIENCE + 1);
    end(&mut cluster, &placed[1], PATIENCE + 1);
    place_waiting(&mut cluster, &mut queue, PATIENCE + 1, 0);
    // Three processors are used, and two are needed for the one that waits: one more task of one processor fits beside it.
    (400..402).for_each(|task| queue.push(TaskNumber(task), PATIENCE, 0, &one));
    let beside = place_waiting(&mut cluster, &mut queue, PATIENCE + 2, 0);
    assert_eq!(names(&beside), [(400, "n0")]);
    end(&mut cluster, &first[0], PATIENCE + 3);
    let last = place_waiting(&mut cluster, &mut queue, PATIENCE + 4, 0);
    assert_eq!(names(&last)[0], (1, "n0"), "its two processors are free");
}

#[test]
fn processors_are_kept_for_a_policy_that_waits_for_one() {
    let (mut cluster, mut queue) = (one_node(), Queue::default());
    let (waits, shares) =
        [Policy::Queue, Policy::Estimated].map(|policy| asking(&mut cluster, 0, policy)).into();
    (0..4).for_each(|task| queue.push(TaskNumber(task), 0, 0, &shares));
    let mut running = place_waiting(&mut cluster, &mut queue, 0, 0);
    queue.push(TaskNumber(4), 0, 0, &waits);
    (5..9).for_each(|task| queue.push(TaskNumber(task), PATIENCE, 0, &shares));
    running.extend(place_waiting(&mut cluster, &mut queue, PATIENCE, 0));
    let later: Vec<u64> = running[4..].iter().map(|decision| decision.task.0).collect();
    assert_eq!(later, [5, 6, 7], "a processor is left once those of before have ended");
    running[..4].iter().for_each(|ended| end(&mut cluster, ended, PATIENCE));
    let next = place_waiting(&mut cluster, &mut queue, PATIENCE + 1, 0);
    assert_eq!(names(&next), [(4, "n0"), (8, "n0")]);
}

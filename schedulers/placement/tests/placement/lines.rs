//! Lines: tasks with equal requests stand in one, and somebody may submit very many different ones.

use estimand_testkit::growth::is_linear;

use super::*;

fn with_label(cluster: &mut Cluster, nodes: &str) -> Request {
    Request::new(&mut cluster.ledger, Amounts::default(), nodes.parse().unwrap(), Policy::default())
}

/// So many tasks, each with labels of its own that no node has.
fn lines(count: usize) -> (Cluster, Queue) {
    let (mut cluster, mut queue) = (cluster(&[8, 8]), Queue::default());
    for number in 0..count as u64 {
        let request = with_label(&mut cluster, &format!("{}=a{number}", "label".repeat(10)));
        queue.push(TaskNumber(number), Millis(number), 0, &request);
    }
    (cluster, queue)
}

/// A pass looked through all lines for the next one: some thousand tasks of one user kept everybody's waiting.
#[test]
fn a_pass_grows_with_the_lines_and_not_with_their_square() {
    let pass = |now: u64| {
        move |(cluster, queue): &(Cluster, Queue)| {
            let (mut cluster, mut queue) = (cluster.clone(), queue.clone());
            assert!(place_waiting(&mut cluster, &mut queue, Millis(now), 1).is_empty());
            assert!(place_waiting(&mut cluster, &mut queue, Millis(now), 1).is_empty());
            queue.heads().len()
        }
    };
    is_linear("a pass", |units| Box::new(lines(units)), pass(0));
    is_linear("a pass after long", |units| Box::new(lines(units)), pass(2 * PATIENCE));
}

#[test]
fn a_task_behind_very_many_others_is_placed_in_its_turn() {
    let (mut cluster, mut queue) = lines(2_000);
    let possible = with_label(&mut cluster, "n=1");
    let last = with_label(&mut cluster, "");
    queue.push(TaskNumber(5_000), Millis(500), 0, &possible);
    queue.push(TaskNumber(5_001), Millis(400), 0, &last);
    queue.push(TaskNumber(5_002), Millis(600), 0, &last);
    let placed = place_waiting(&mut cluster, &mut queue, Millis(1), 1);
    assert_eq!(placed.iter().map(|one| one.task.0).collect::<Vec<_>>(), [5_001, 5_000, 5_002]);
    assert_eq!((queue.len(), queue.heads().len()), (2_000, 2_000));
    assert!(queue.remove(TaskNumber(0)));
    assert_eq!(queue.heads()[0].rank.1, TaskNumber(1));
}

/// Also one that no node could be kept for.
#[test]
fn a_task_that_waits_for_labels_begins_when_a_node_gets_them() {
    let (mut cluster, mut queue) = (cluster(&[8]), Queue::default());
    let request = with_label(&mut cluster, "zone=a");
    queue.push(TaskNumber(1), Millis(0), 0, &request);
    for now in [0, 2 * PATIENCE, 2 * PATIENCE] {
        assert!(place_waiting(&mut cluster, &mut queue, Millis(now), 1).is_empty());
    }
    let labels = LabelMap::from([("zone".to_owned(), "a".to_owned())]);
    put(&mut cluster, "n0", labels, &[("cpu", 8_000)]);
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, Millis(2 * PATIENCE), 1)), [(1, "n0")]);
}

/// The same where the node is full at that moment: it is kept for the task.
#[test]
fn a_node_that_gets_the_labels_is_kept_for_a_task_that_has_waited_long() {
    let (mut cluster, mut queue) = (cluster(&[1]), Queue::default());
    let one =
        Request::new(&mut cluster.ledger, amounts(&[("cpu", 1000)]), Selector::default(), Policy::Queue);
    let zone = "zone=a".parse().unwrap();
    let there = Request::new(&mut cluster.ledger, amounts(&[("cpu", 1000)]), zone, Policy::Queue);
    queue.push(TaskNumber(1), Millis(0), 0, &one);
    let first = place_waiting(&mut cluster, &mut queue, Millis(0), 1);
    queue.push(TaskNumber(2), Millis(0), 0, &there);
    assert!(place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 1).is_empty(), "no node is for it");
    put(&mut cluster, "n0", LabelMap::from([("zone".to_owned(), "a".to_owned())]), &[("cpu", 1_000)]);
    queue.push(TaskNumber(3), Millis(0), 1, &one);
    assert!(place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 1).is_empty(), "it is full");
    end(&mut cluster, &first[0], PATIENCE);
    assert!(queue.remove(TaskNumber(3)));
    queue.push(TaskNumber(4), Millis(PATIENCE), 0, &one);
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, Millis(PATIENCE), 1)), [(2, "n0")]);
}

use super::*;

fn name(text: &str) -> DataName {
    DataName::parse(text).unwrap()
}

fn node(text: &str) -> NodeName {
    NodeName::parse(text).unwrap()
}

/// On each line a holder, `a delivered 1`, or `a delivered 1 unfit`; or a candidate and its load, `a 3`. Either may
/// be `failing` or `unsuitable`.
fn check(count: usize, others: usize, holders: &[&str], candidates: &[&str], keep: &[&str], add: &[&str]) {
    let words = |line: &&str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let suitability = |words: &[String]| match words.last().unwrap().as_str() {
        "failing" => Suitability::Failing,
        "unsuitable" => Suitability::Unsuitable,
        _ => Suitability::Suitable,
    };
    let holding: Vec<_> = holders.iter().map(words).collect();
    let nodes: Vec<_> = holding.iter().map(|words| node(&words[0])).collect();
    let holders: Vec<_> = holding
        .iter()
        .zip(&nodes)
        .map(|(words, node)| Holder {
            node,
            standing: match words[1].as_str() {
                "delivered" => Standing::Delivered,
                "withdrawn" => Standing::Withdrawn,
                _ => Standing::Planned,
            },
            moves: words[2].parse().unwrap(),
            fits: words.last().unwrap() != "unfit",
            suitability: suitability(words),
        })
        .collect();
    let free: Vec<_> = candidates
        .iter()
        .map(words)
        .map(|words| (node(&words[0]), words[1].parse().unwrap(), suitability(&words)))
        .collect();
    let name = name("n");
    let demand = Demand { name: &name, count, holders: &holders, others };
    let candidate = |(node, load, suitability)| Candidate { node, suitability, load };
    let plan = place(&demand, free.iter().map(|(node, load, suits)| candidate((node, *load, *suits))));
    let text = |nodes: &[NodeName]| nodes.iter().map(|node| node.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!((text(&plan.keep), text(&plan.add)), {
        let text = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect::<Vec<_>>();
        (text(keep), text(add))
    });
}

#[test]
fn least_loaded_nodes_come_first() {
    check(2, 0, &[], &["a 2", "b 0", "c 1"], &[], &["b", "c"]);
    check(3, 0, &["a delivered 1"], &["b 5", "c 4", "d 6"], &["a"], &["c", "b"]);
}

#[test]
fn nodes_fewer_than_asked_for_are_all_used() {
    check(5, 0, &["a delivered 1"], &["b 0"], &["a"], &["b"]);
    check(1, 0, &[], &[], &[], &[]);
}

#[test]
fn an_instance_on_a_fitting_node_stays_although_others_have_less_load() {
    check(1, 0, &["a delivered 7"], &["b 0"], &["a"], &[]);
}

#[test]
fn the_oldest_instances_stay_when_there_are_too_many() {
    check(1, 0, &["a delivered 3", "b delivered 2", "c delivered 4"], &[], &["b"], &[]);
    check(0, 0, &["a delivered 3"], &["b 0"], &[], &[]);
}

#[test]
fn a_withdrawn_instance_counts_until_it_is_gone() {
    check(1, 0, &["a delivered 1 unfit"], &["b 0"], &[], &[]);
    check(1, 0, &["a withdrawn 1 unfit"], &["b 0"], &[], &[]);
    check(2, 0, &["a withdrawn 1 unfit"], &["b 0", "c 1"], &[], &["b"]);
    check(2, 1, &["a delivered 1"], &["b 0"], &["a"], &[]);
}

#[test]
fn a_withdrawn_instance_comes_back_only_if_all_that_may_run_have_room() {
    check(1, 0, &["a withdrawn 1"], &["b 0"], &["a"], &[]);
    check(1, 0, &["a withdrawn 1", "b withdrawn 2"], &[], &[], &[]);
    check(2, 0, &["a delivered 1", "b withdrawn 2"], &["c 0"], &["a", "b"], &[]);
    check(2, 0, &["a delivered 1", "b withdrawn 2", "c withdrawn 3 unfit"], &[], &["a"], &[]);
    check(1, 1, &["a withdrawn 1"], &[], &[], &[]);
}

#[test]
fn a_planned_instance_gives_way() {
    check(1, 0, &["a planned 2"], &["b 0"], &["a"], &[]);
    check(1, 0, &["a planned 2 unfit"], &["b 0"], &[], &["b"]);
    check(1, 0, &["a withdrawn 1 unfit", "b planned 2"], &["c 0"], &[], &[]);
    check(2, 0, &["a delivered 1", "b planned 2", "c planned 3"], &[], &["a", "b"], &[]);
}

#[test]
fn a_node_that_cannot_run_it_is_chosen_last() {
    check(1, 0, &[], &["a 0 unsuitable", "b 7"], &[], &["b"]);
    check(1, 0, &[], &["a 0 unsuitable", "b 7 failing"], &[], &["b"]);
    check(2, 0, &[], &["a 0 unsuitable", "b 0 failing", "c 7"], &[], &["c", "b"]);
    check(1, 0, &[], &["a 0 unsuitable"], &[], &["a"]);
}

#[test]
fn an_instance_leaves_a_node_that_cannot_run_it_for_one_that_may() {
    check(1, 0, &["a delivered 1 unsuitable"], &["b 9"], &[], &[]);
    check(1, 0, &["a withdrawn 1 unsuitable"], &["b 9"], &[], &[]);
    check(1, 0, &[], &["a 0 unsuitable", "b 9"], &[], &["b"]);
    check(1, 0, &["a planned 1 unsuitable"], &["b 9"], &[], &["b"]);
    check(1, 0, &["a delivered 1 unsuitable"], &["b 0 unsuitable"], &["a"], &[]);
    check(1, 0, &["a withdrawn 1 unsuitable"], &["b 0 unsuitable"], &["a"], &[]);
    check(1, 0, &["a delivered 1 failing"], &["b 0"], &["a"], &[]);
}

#[test]
fn instances_on_nodes_that_cannot_run_them_leave_only_as_far_as_others_are_free() {
    let two = ["a delivered 1 unsuitable", "b delivered 2 unsuitable"];
    check(2, 0, &two, &["c 0"], &["a"], &[]);
    check(2, 0, &["a delivered 1 unsuitable", "b withdrawn 2 unsuitable"], &["c 0"], &["a"], &[]);
    check(2, 0, &["a withdrawn 1 unsuitable", "b delivered 2 unsuitable"], &["c 0"], &["b"], &[]);
    check(2, 0, &two, &["c 0", "d 0 unsuitable"], &["a"], &[]);
    // The free node is for the instance that is missing.
    check(2, 0, &["a delivered 1 unsuitable"], &["c 0"], &["a"], &["c"]);
    check(1, 0, &two, &[], &["a"], &[]);
    check(1, 0, &["a delivered 1 unsuitable", "b delivered 2"], &[], &["b"], &[]);
}

#[test]
fn names_spread_over_equal_nodes() {
    let nodes: Vec<_> = (0..10).map(|index| node(&format!("node-{index}"))).collect();
    let mut loads = [0_usize; 10];
    for index in 0..1000 {
        let name = name(&format!("name_{index}"));
        let demand = Demand { name: &name, count: 1, holders: &[], others: 0 };
        let plan = place(
            &demand,
            nodes.iter().map(|node| Candidate { node, suitability: Suitability::Suitable, load: 0 }),
        );
        loads[nodes.iter().position(|node| *node == plan.add[0]).unwrap()] += 1;
    }
    assert!(loads.iter().all(|load| (60..140).contains(load)), "{loads:?}");
}

#[test]
fn the_order_of_equal_nodes_is_the_same_in_every_version() {
    assert_eq!(rendezvous("node_capability", "node-1"), 9_957_829_962_461_112_305);
}

use super::*;

fn name(text: &str) -> DataName {
    DataName::parse(text).unwrap()
}

fn node(text: &str) -> NodeName {
    NodeName::parse(text).unwrap()
}

/// `a shown 1`, or `a shown 1 unfit`, on each line: who holds; `a 3`: a candidate and its load.
fn check(count: usize, others: usize, holders: &[&str], candidates: &[&str], keep: &[&str], add: &[&str]) {
    let words = |line: &&str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let holding: Vec<_> = holders.iter().map(words).collect();
    let nodes: Vec<_> = holding.iter().map(|words| node(&words[0])).collect();
    let held: Vec<_> = holding
        .iter()
        .zip(&nodes)
        .map(|(words, node)| Holder {
            node,
            standing: match words[1].as_str() {
                "shown" => Standing::Shown,
                "held" => Standing::Held,
                _ => Standing::Planned,
            },
            moves: words[2].parse().unwrap(),
            fits: words.len() == 3,
        })
        .collect();
    let free: Vec<_> =
        candidates.iter().map(words).map(|words| (node(&words[0]), words[1].parse().unwrap())).collect();
    let name = name("n");
    let ask = Ask { name: &name, count, holders: &held, others };
    let plan = place(&ask, free.iter().map(|(node, load)| Candidate { node, load: *load }));
    let text = |nodes: &[NodeName]| nodes.iter().map(|node| node.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!((text(&plan.keep), text(&plan.add)), {
        let text = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect::<Vec<_>>();
        (text(keep), text(add))
    });
}

#[test]
fn the_least_loaded_come_first() {
    check(2, 0, &[], &["a 2", "b 0", "c 1"], &[], &["b", "c"]);
    check(3, 0, &["a shown 1"], &["b 5", "c 4", "d 6"], &["a"], &["c", "b"]);
}

#[test]
fn fewer_nodes_than_asked_for_is_as_many_as_there_are() {
    check(5, 0, &["a shown 1"], &["b 0"], &["a"], &["b"]);
    check(1, 0, &[], &[], &[], &[]);
}

#[test]
fn who_fits_stays_whatever_the_others_would_offer() {
    check(1, 0, &["a shown 7"], &["b 0"], &["a"], &[]);
}

#[test]
fn when_there_are_too_many_the_oldest_stay() {
    check(1, 0, &["a shown 3", "b shown 2", "c shown 4"], &[], &["b"], &[]);
    check(0, 0, &["a shown 3"], &["b 0"], &[], &[]);
}

#[test]
fn what_is_taken_away_counts_until_it_is_gone() {
    check(1, 0, &["a shown 1 unfit"], &["b 0"], &[], &[]);
    check(1, 0, &["a held 1 unfit"], &["b 0"], &[], &[]);
    check(2, 0, &["a held 1 unfit"], &["b 0", "c 1"], &[], &["b"]);
    check(2, 1, &["a shown 1"], &["b 0"], &["a"], &[]);
}

#[test]
fn what_was_taken_away_comes_back_only_if_all_who_may_run_have_room() {
    check(1, 0, &["a held 1"], &["b 0"], &["a"], &[]);
    check(1, 0, &["a held 1", "b held 2"], &[], &[], &[]);
    check(2, 0, &["a shown 1", "b held 2"], &["c 0"], &["a", "b"], &[]);
    check(2, 0, &["a shown 1", "b held 2", "c held 3 unfit"], &[], &["a"], &[]);
    check(1, 1, &["a held 1"], &[], &[], &[]);
}

#[test]
fn what_was_only_planned_gives_way() {
    check(1, 0, &["a planned 2"], &["b 0"], &["a"], &[]);
    check(1, 0, &["a planned 2 unfit"], &["b 0"], &[], &["b"]);
    check(1, 0, &["a held 1 unfit", "b planned 2"], &["c 0"], &[], &[]);
    check(2, 0, &["a shown 1", "b planned 2", "c planned 3"], &[], &["a", "b"], &[]);
}

#[test]
fn names_spread_over_equal_nodes() {
    let nodes: Vec<_> = (0..10).map(|index| node(&format!("node-{index}"))).collect();
    let mut loads = [0_usize; 10];
    for index in 0..1000 {
        let name = name(&format!("name_{index}"));
        let ask = Ask { name: &name, count: 1, holders: &[], others: 0 };
        let plan = place(&ask, nodes.iter().map(|node| Candidate { node, load: 0 }));
        loads[nodes.iter().position(|node| *node == plan.add[0]).unwrap()] += 1;
    }
    assert!(loads.iter().all(|load| (60..140).contains(load)), "{loads:?}");
}

#[test]
fn equals_are_told_apart_the_same_way_in_every_version() {
    assert_eq!(rendezvous("node_capability", "node-1"), 9_957_829_962_461_112_305);
}

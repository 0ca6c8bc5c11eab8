//! Nodes, placements and leadership, on SQLite, PostgreSQL and MariaDB alike.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Barrier;
use std::thread;

use common::Place;
use estimand_store::{
    ClusterGroup, Connection, Error, Key, Lead, LeadRow, NodeRow, NodeRowRef, PlacementRef, PlacementRow,
};

on_every_store!(
    nodes_and_placements_are_kept,
    a_node_goes_with_its_placements,
    a_large_cluster_is_written_and_deleted_whole,
    a_lead_is_taken_as_it_was_seen,
    a_leader_that_beats_is_not_followed,
    a_released_lead_is_over,
    of_many_at_once_one_leads,
    nothing_of_an_old_leader_is_written,
    a_commit_and_a_takeover_exclude_each_other,
);

const ROLE: &str = "manager";

fn node(node_name: &str, boot: i64) -> NodeRowRef<'_> {
    NodeRowRef {
        node_name,
        labels: "{}",
        facts: "{}",
        agent: "a1",
        boot,
        cordoned: false,
        lost: false,
        seen_at: boot,
        created_at: 1,
        given_labels: (boot > 1).then_some("{\"operator\":{\"zone\":\"a\"}}"),
    }
}

fn placement<'a>(data_name: &'a str, node_name: &'a str, moves: i64) -> PlacementRef<'a> {
    PlacementRef { data_name, node_name, moves, placed_at: 7 }
}

fn owned(row: &NodeRowRef<'_>) -> NodeRow {
    NodeRow {
        node_name: row.node_name.to_owned(),
        labels: row.labels.to_owned(),
        facts: row.facts.to_owned(),
        agent: row.agent.to_owned(),
        boot: row.boot,
        cordoned: row.cordoned,
        lost: row.lost,
        seen_at: row.seen_at,
        created_at: row.created_at,
        given_labels: row.given_labels.map(str::to_owned),
    }
}

fn placed(row: &PlacementRef<'_>) -> PlacementRow {
    PlacementRow {
        data_name: row.data_name.to_owned(),
        node_name: row.node_name.to_owned(),
        moves: row.moves,
        placed_at: row.placed_at,
    }
}

fn seen(connection: &mut Connection) -> LeadRow {
    connection.read_lead(ROLE).unwrap().unwrap()
}

/// Takes the leadership, from another holder if there is one.
fn lead(connection: &mut Connection) -> Lead {
    let before = connection.read_lead(ROLE).unwrap();
    connection.take_lead(ROLE, before.as_ref(), "somebody", "http://h:1").unwrap().unwrap()
}

/// A leadership that is over writes nothing.
fn is_over<T>(result: Result<T, Error>, lead: &Lead) -> bool {
    result.is_err_and(
        |error| matches!(error, Error::Fenced { owner, epoch } if owner == lead.role && epoch == lead.epoch),
    )
}

fn nodes_and_placements_are_kept(place: &Place) {
    let mut connection = place.open();
    let lead = lead(&mut connection);
    let (long, data) = ("x".repeat(253), "d".repeat(128));
    let labels = format!("{{\"zone\":\"grüße\u{1F980}\\u0000\",\"pad\":\"{}\"}}", "x".repeat(100_000));
    let first =
        NodeRowRef { labels: &labels, facts: "{\"cores\":4}", cordoned: true, lost: true, ..node("N1", 1) };
    let put_nodes = [first, node("n1", i64::MAX), node(&long, i64::MIN)];
    let put_placements = [placement(&data, &long, 2), placement("cpu", "n1", 0), placement("Cpu", "n1", 1)];
    let group =
        ClusterGroup { put_nodes: &put_nodes, put_placements: &put_placements, ..ClusterGroup::default() };
    connection.commit_cluster(&lead, &group).unwrap();
    // Once more, as after an attempt of unknown outcome.
    connection.commit_cluster(&lead, &group).unwrap();
    assert_eq!(connection.load_nodes().unwrap(), put_nodes.map(|row| owned(&row)));
    let [long_one, cpu, upper] = put_placements.map(|row| placed(&row));
    assert_eq!(connection.load_placements().unwrap(), [upper.clone(), cpu, long_one.clone()]);

    let (newer, moved) = (node("N1", 2), placement("Cpu", "N1", 2));
    let group = ClusterGroup {
        delete_placements: &[
            Key { data_name: "cpu", node_name: "n1" },
            Key { data_name: "Cpu", node_name: "never" },
        ],
        put_nodes: &[newer],
        put_placements: &[moved],
        ..ClusterGroup::default()
    };
    connection.commit_cluster(&lead, &group).unwrap();
    drop(connection);
    let mut connection = place.open();
    assert_eq!(connection.load_nodes().unwrap()[0], owned(&newer));
    assert_eq!(connection.load_placements().unwrap(), [placed(&moved), upper, long_one]);
}

fn a_node_goes_with_its_placements(place: &Place) {
    let mut connection = place.open();
    let lead = lead(&mut connection);
    let put_nodes = ["a", "b", "c"].map(|name| node(name, 1));
    let put_placements = ["a", "b", "c"].map(|name| placement("x", name, 1));
    let group =
        ClusterGroup { put_nodes: &put_nodes, put_placements: &put_placements, ..ClusterGroup::default() };
    connection.commit_cluster(&lead, &group).unwrap();
    // One comes back in the same change, without its earlier placement.
    let group = ClusterGroup {
        delete_nodes: &["a", "b", "never"],
        put_nodes: &[node("b", 2)],
        put_placements: &[placement("y", "b", 3)],
        ..ClusterGroup::default()
    };
    connection.commit_cluster(&lead, &group).unwrap();
    assert_eq!(connection.load_nodes().unwrap(), [node("b", 2), node("c", 1)].map(|row| owned(&row)));
    let left = [placement("x", "c", 1), placement("y", "b", 3)];
    assert_eq!(connection.load_placements().unwrap(), left.map(|row| placed(&row)));
}

fn a_large_cluster_is_written_and_deleted_whole(place: &Place) {
    let mut connection = place.open();
    let lead = lead(&mut connection);
    let names: Vec<_> = (0..10_000).map(|n| format!("node-{n:05}")).collect();
    let put_nodes: Vec<_> = names.iter().zip(1..).map(|(name, boot)| node(name, boot)).collect();
    let put_placements: Vec<_> =
        names.iter().flat_map(|name| [placement("a", name, 0), placement("b", name, 0)]).collect();
    let group =
        ClusterGroup { put_nodes: &put_nodes, put_placements: &put_placements, ..ClusterGroup::default() };
    connection.commit_cluster(&lead, &group).unwrap();
    assert_eq!(connection.load_nodes().unwrap(), put_nodes.iter().map(owned).collect::<Vec<_>>());
    assert_eq!(connection.load_placements().unwrap().len(), 20_000);

    let delete_placements: Vec<_> =
        names.iter().map(|name| Key { data_name: "a", node_name: name }).collect();
    let group = ClusterGroup { delete_placements: &delete_placements, ..ClusterGroup::default() };
    connection.commit_cluster(&lead, &group).unwrap();
    let left = connection.load_placements().unwrap();
    assert_eq!((left.len(), left.iter().all(|row| row.data_name == "b")), (10_000, true));

    let delete_nodes: Vec<_> = names[1..].iter().map(String::as_str).collect();
    let group = ClusterGroup { delete_nodes: &delete_nodes, ..ClusterGroup::default() };
    connection.commit_cluster(&lead, &group).unwrap();
    assert_eq!(connection.load_nodes().unwrap(), [owned(&put_nodes[0])]);
    assert_eq!(connection.load_placements().unwrap(), [placed(&put_placements[1])]);
}

fn a_lead_is_taken_as_it_was_seen(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    assert_eq!(one.read_lead(ROLE).unwrap(), None);
    let never = LeadRow { epoch: 1, beat: 1, holder: String::new(), address: String::new() };
    assert_eq!(one.take_lead(ROLE, Some(&never), "x", "http://x").unwrap(), None);
    assert_eq!(one.read_lead(ROLE).unwrap(), None, "an attempt in vain leaves no row");

    let first = one.take_lead(ROLE, None, "one", "http://one").unwrap().unwrap();
    assert_eq!(first, Lead { role: ROLE.to_owned(), epoch: 1 });
    let row = seen(&mut other);
    assert_eq!((row.epoch, &*row.holder, &*row.address), (1, "one", "http://one"));
    assert_eq!(other.take_lead(ROLE, None, "other", "http://other").unwrap(), None);
    assert_eq!(seen(&mut other), row, "an attempt in vain changes nothing");

    let second = other.take_lead(ROLE, Some(&row), "other", "http://other").unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    assert!(is_over(one.beat_lead(&first), &first));
    assert!(is_over(one.release_lead(&first), &first));
    assert_eq!(one.take_lead(ROLE, Some(&row), "one", "http://one").unwrap(), None);
    let row = seen(&mut one);
    assert_eq!((row.epoch, &*row.holder, &*row.address), (2, "other", "http://other"));

    let elsewhere = one.take_lead("another role", None, "one", "").unwrap().unwrap();
    assert_eq!(elsewhere.epoch, 1);
    one.beat_lead(&elsewhere).unwrap();
    other.beat_lead(&second).unwrap();
}

fn a_leader_that_beats_is_not_followed(place: &Place) {
    let (mut leader, mut standby) = (place.open(), place.open());
    let lead = lead(&mut leader);
    let mut last = seen(&mut standby);
    for commits in [false, true] {
        if commits {
            leader.commit_cluster(&lead, &ClusterGroup::default()).unwrap();
        } else {
            leader.beat_lead(&lead).unwrap();
        }
        assert_eq!(standby.take_lead(ROLE, Some(&last), "standby", "").unwrap(), None);
        let now = seen(&mut standby);
        assert!(now.beat > last.beat && now.epoch == last.epoch);
        last = now;
    }
    standby.take_lead(ROLE, Some(&last), "standby", "").unwrap().unwrap();
    assert!(seen(&mut standby).beat > last.beat);
}

fn a_released_lead_is_over(place: &Place) {
    let mut connection = place.open();
    let old = lead(&mut connection);
    connection.release_lead(&old).unwrap();
    let row = seen(&mut connection);
    assert_eq!((row.epoch, &*row.holder, &*row.address), (old.epoch, "", ""));
    assert!(is_over(connection.beat_lead(&old), &old));
    assert!(is_over(connection.release_lead(&old), &old));
    let group = ClusterGroup { put_nodes: &[node("late", 1)], ..ClusterGroup::default() };
    assert!(is_over(connection.commit_cluster(&old, &group), &old));
    assert_eq!(connection.load_nodes().unwrap(), []);
    let new = connection.take_lead(ROLE, Some(&row), "next", "").unwrap().unwrap();
    assert_eq!(new.epoch, old.epoch + 1);
}

fn of_many_at_once_one_leads(place: &Place) {
    const WHO: [&str; 4] = ["a", "b", "c", "d"];
    drop(place.open());
    let start = Barrier::new(WHO.len());
    let rounds: Vec<Vec<Option<Lead>>> = thread::scope(|scope| {
        let threads: Vec<_> = WHO
            .iter()
            .map(|who| {
                let start = &start;
                scope.spawn(move || {
                    let mut connection = Connection::open(&place.url).unwrap();
                    (0..10)
                        .map(|_| {
                            start.wait();
                            let row = connection.read_lead(ROLE).unwrap();
                            start.wait();
                            connection.take_lead(ROLE, row.as_ref(), who, "").unwrap()
                        })
                        .collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for round in 0..10 {
        let epochs: Vec<_> =
            rounds.iter().filter_map(|all| all[round].as_ref()).map(|won| won.epoch).collect();
        assert_eq!(epochs, [round as i64 + 1]);
    }
    let last = WHO.iter().zip(&rounds).find(|(_, all)| all[9].is_some()).unwrap();
    assert_eq!(seen(&mut place.open()).holder, *last.0, "who was told so is who leads");
}

fn nothing_of_an_old_leader_is_written(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    let old = lead(&mut one);
    let kept = ClusterGroup {
        put_nodes: &[node("a", 1)],
        put_placements: &[placement("x", "a", 1)],
        ..ClusterGroup::default()
    };
    one.commit_cluster(&old, &kept).unwrap();
    let new = lead(&mut other);
    let late = ClusterGroup {
        delete_nodes: &["a"],
        put_nodes: &[node("late", 1)],
        put_placements: &[placement("late", "late", 1)],
        ..ClusterGroup::default()
    };
    assert!(is_over(one.commit_cluster(&old, &late), &old));
    other
        .commit_cluster(&new, &ClusterGroup { put_nodes: &[node("b", 1)], ..ClusterGroup::default() })
        .unwrap();
    let names: Vec<_> = one.load_nodes().unwrap().into_iter().map(|row| row.node_name).collect();
    assert_eq!(names, ["a", "b"], "the connection is usable, and nothing of the late commit is there");
    assert_eq!(one.load_placements().unwrap(), [placed(&kept.put_placements[0])]);
}

/// The first of both makes the other fail, and the stored nodes agree.
fn a_commit_and_a_takeover_exclude_each_other(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    let mut current = lead(&mut one);
    let names: Vec<_> = (0..300).map(|n| format!("n{n}")).collect();
    for boot in 1..=20 {
        let put_nodes: Vec<_> = names.iter().map(|name| node(name, boot)).collect();
        let row = seen(&mut other);
        let start = Barrier::new(2);
        let (committed, taken) = thread::scope(|scope| {
            let committing = scope.spawn(|| {
                start.wait();
                one.commit_cluster(
                    &current,
                    &ClusterGroup { put_nodes: &put_nodes, ..ClusterGroup::default() },
                )
            });
            start.wait();
            let taken = other.take_lead(ROLE, Some(&row), "other", "").unwrap();
            (committing.join().unwrap(), taken)
        });
        let nodes = other.load_nodes().unwrap();
        let stored = nodes.iter().filter(|row| row.boot == boot).count();
        match taken {
            None => {
                committed.unwrap();
                assert_eq!(stored, names.len());
            }
            Some(new) => {
                assert!(is_over(committed, &current));
                assert_eq!(stored, 0);
                current = new;
            }
        }
    }
}

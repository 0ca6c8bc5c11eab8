//! Copies resolved and transfers put in items.

use proptest::prelude::*;

use super::*;
use crate::plan::{Holdings, Item, partition, pick_items};

fn item(name: &str, on: &[&str]) -> Item {
    Item { name: name.to_owned(), on: on.iter().map(|node| (*node).to_owned()).collect() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_item_with_less_choice_goes_first() {
    let items = vec![item("1", &["a", "b"]), item("2", &["a", "b"]), item("3", &["a"]), item("4", &["a"])];
    let holdings = Holdings::resolve(names(&["b", "a"]), items).unwrap();
    assert_eq!((holdings.first(0), holdings.first(1)), (&[2, 3][..], &[0, 1][..]));
    assert_eq!((holdings.load("a"), holdings.load("b"), holdings.load("z")), (2, 2, 0));
}

#[test]
fn an_item_without_a_holder_goes_to_the_node_with_the_fewest() {
    let items = vec![item("1", &["a"]), item("2", &["a"]), item("3", &["gone"]), item("4", &[])];
    let holdings = Holdings::resolve(names(&["a", "b"]), items).unwrap();
    assert_eq!((holdings.nowhere(), holdings.first(0), holdings.first(1)), (2, &[0, 1][..], &[2, 3][..]));
}

#[test]
fn duplicate_names_are_rejected() {
    let twice = Holdings::resolve(names(&["a"]), vec![item("1", &[]), item("1", &["a"])]);
    assert_eq!(twice.unwrap_err(), Error::DuplicateItem { item: "1".to_owned() });
    let twice = Holdings::resolve(names(&["a", "a"]), Vec::new());
    assert_eq!(twice.unwrap_err(), Error::DuplicateNode { node: "a".to_owned() });
}

#[test]
fn items_with_a_copy_on_the_receiver_move_first() {
    let own_of_a = ["3", "4"].map(|name| item(name, &["a"]));
    let own_of_b = ["5", "6", "7", "8"].map(|name| item(name, &["b"]));
    let both = ["1", "2"].map(|name| item(name, &["b", "a"]));
    let items = [own_of_a.to_vec(), own_of_b.to_vec(), both.to_vec()].concat();
    let holdings = Holdings::resolve(names(&["a", "b"]), items).unwrap();
    assert_eq!(holdings.first(0), [0, 1, 2, 3]);
    let moving = |capability| {
        let plan = partition(&problem(vec![Node::new("a", 4, 1.0), Node::new("b", 4, capability)]));
        let item_plan = pick_items(&plan, &holdings).unwrap();
        (item_plan.transfers.concat(), item_plan.fetched)
    };
    assert_eq!(moving(3.0), (vec![0, 1], 0));
    assert_eq!(moving(7.0), (vec![0, 1, 3], 1));
}

#[test]
fn a_plan_of_other_loads_is_rejected() {
    let holdings = Holdings::resolve(names(&["node-0000"]), vec![item("1", &[])]).unwrap();
    let plan = partition(&problem(nodes(&[(2, 1.0)])));
    let error = pick_items(&plan, &holdings).unwrap_err().to_string();
    assert!(error.ends_with("node node-0000 has 2 items in it, and 1 at first"), "{error}");
}

proptest! {
    #[test]
    fn items_are_a_partition_in_any_order(
        capabilities in prop::collection::vec(capability(), 1..8),
        on in prop::collection::vec(prop::collection::vec(0usize..9, 0..4), 0..60),
        keys in prop::collection::vec(any::<u32>(), 60),
    ) {
        let all: Vec<String> = (0..capabilities.len()).map(name).collect();
        let items: Vec<Item> = on
            .iter()
            .enumerate()
            .map(|(i, on)| Item { name: format!("{i:03}"), on: on.iter().map(|node| name(*node)).collect() })
            .collect();
        let mut mixed: Vec<(u32, Item)> = keys.into_iter().zip(items.clone()).collect();
        mixed.sort_by_key(|(key, _)| *key);
        let mut mixed: Vec<Item> = mixed.into_iter().map(|(_, item)| item).collect();
        mixed.iter_mut().for_each(|item| item.on.reverse());
        let holdings = Holdings::resolve(all.clone(), items).unwrap();
        let other = Holdings::resolve(all.into_iter().rev().collect(), mixed).unwrap();

        let with = |holdings: &Holdings| -> Vec<Node> {
            let load = |i| holdings.load(&name(i));
            capabilities.iter().enumerate().map(|(i, c)| Node::new(name(i), load(i), *c)).collect()
        };
        let plan = partition(&problem(with(&holdings)));
        let item_plan = pick_items(&plan, &holdings).unwrap();
        prop_assert_eq!(&pick_items(&partition(&problem(with(&other))), &other).unwrap(), &item_plan);

        let mut done: Vec<ItemId> = item_plan.parts.concat();
        done.sort_unstable();
        prop_assert!(done.iter().copied().eq(0..on.len() as ItemId));
        let sizes: Vec<u64> = item_plan.parts.iter().map(|part| part.len() as u64).collect();
        prop_assert_eq!(sizes, targets(&plan));
        for (one, items) in plan.transfers.iter().zip(&item_plan.transfers) {
            prop_assert_eq!(one.count, items.len() as u64);
            for item in items {
                prop_assert!(holdings.first(one.from).contains(item) && item_plan.parts[one.to].contains(item));
            }
        }
        prop_assert!(item_plan.fetched <= plan.moved() + holdings.nowhere());
    }
}

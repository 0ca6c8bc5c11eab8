//! The inputs of registrations as a graph, which must stay without cycles.
//!
//! Pure. Data names without a registration are leaves: their values are written from outside. A data name that is
//! bound to another one in the data service is a leaf as well, since bindings change without the registry.

use std::collections::{HashMap, VecDeque};

use estimand_api::names::DataName;

/// The shortest cycle that would be closed if `name` read `inputs`: from `name` back to `name`.
///
/// `inputs_of` gives the inputs of the other names. The inputs that `name` has until now do not matter.
pub fn cycle<'g>(
    name: &'g DataName,
    inputs: &'g [DataName],
    inputs_of: impl Fn(&DataName) -> &'g [DataName],
) -> Option<Vec<&'g DataName>> {
    // Breadth first, and without recursion: a chain may be as long as there are registrations.
    let mut reader_of: HashMap<&DataName, &DataName> = HashMap::new();
    let mut queue = VecDeque::from([(name, inputs)]);
    while let Some((reader, inputs)) = queue.pop_front() {
        for input in inputs {
            if input == name {
                return Some(way_back(name, reader, &reader_of));
            }
            if let std::collections::hash_map::Entry::Vacant(place) = reader_of.entry(input) {
                place.insert(reader);
                queue.push_back((input, inputs_of(input)));
            }
        }
    }
    None
}

/// From `name` over its readers' inputs to `last`, which reads `name`.
fn way_back<'g>(
    name: &'g DataName,
    last: &'g DataName,
    reader_of: &HashMap<&'g DataName, &'g DataName>,
) -> Vec<&'g DataName> {
    let mut way = vec![name];
    let mut at = last;
    while at != name {
        way.push(at);
        at = reader_of[at];
    }
    way.push(name);
    way.reverse();
    way
}

/// `a → b → a`.
pub fn show(way: &[&DataName]) -> String {
    way.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    type Graph = BTreeMap<DataName, Vec<DataName>>;

    fn name(place: usize) -> DataName {
        DataName::parse(&format!("n{place}")).unwrap()
    }

    fn graph(edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::new();
        for (reader, input) in edges {
            graph.entry(name(*reader)).or_default().push(name(*input));
        }
        graph
    }

    fn found(graph: &Graph, from: usize, inputs: &[usize]) -> Option<String> {
        let (from, inputs) = (name(from), inputs.iter().map(|input| name(*input)).collect::<Vec<_>>());
        cycle(&from, &inputs, |of| graph.get(of).map_or(&[], Vec::as_slice)).map(|way| show(&way))
    }

    #[test]
    fn the_shortest_cycle_is_shown_in_the_direction_of_reading() {
        let graph = graph(&[(1, 2), (2, 3), (3, 0), (1, 3)]);
        assert_eq!(found(&graph, 0, &[1]).as_deref(), Some("n0 → n1 → n3 → n0"));
        assert_eq!(found(&graph, 0, &[9]), None);
        assert_eq!(found(&graph, 9, &[0, 1, 2, 3]), None);
    }

    #[test]
    fn a_very_long_chain_is_no_trouble() {
        let edges: Vec<_> = (0..10_000).map(|place| (place, place + 1)).collect();
        let way = found(&graph(&edges), 10_000, &[0]).unwrap();
        assert_eq!(way.matches('→').count(), 10_001);
    }

    /// True if `to` can be reached from `from` in any number of steps: the slow and obvious way.
    fn reaches(graph: &Graph, from: &[DataName], to: &DataName) -> bool {
        let mut reached: BTreeSet<DataName> = from.iter().cloned().collect();
        loop {
            let more: Vec<_> = reached.iter().filter_map(|at| graph.get(at)).flatten().cloned().collect();
            let before = reached.len();
            reached.extend(more);
            if reached.len() == before {
                return reached.contains(to);
            }
        }
    }

    proptest! {
        #[test]
        fn a_cycle_is_found_exactly_if_there_is_one(
            edges in proptest::collection::vec((0..12usize, 0..12usize), 0..40),
            inputs in proptest::collection::btree_set(0..12usize, 0..4),
        ) {
            let (mut graph, own) = (graph(&edges), name(0));
            graph.remove(&own);
            let inputs: Vec<_> = inputs.into_iter().map(name).collect();
            let way = cycle(&own, &inputs, |of| graph.get(of).map_or(&[], Vec::as_slice));
            prop_assert_eq!(way.is_some(), reaches(&graph, &inputs, &own));
            let Some(way) = way else { return Ok(()) };
            prop_assert_eq!((way[0], way[way.len() - 1]), (&own, &own));
            for pair in way.windows(2) {
                let read = if pair[0] == &own { &inputs } else { &graph[pair[0]] };
                prop_assert!(read.contains(pair[1]), "{} does not read {}", pair[0], pair[1]);
            }
            prop_assert_eq!(way.iter().collect::<BTreeSet<_>>().len(), way.len() - 1);
        }
    }
}

//! The choice of connections that are given up when there are too many: pure.

use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// Those on which nobody has waited for that long at least, the longest idle first.
pub(super) fn longest_idle<T: Clone>(
    all: &[T],
    idle_for: impl Fn(&T) -> Option<Duration>,
    at_least: Duration,
    wanted: usize,
) -> Vec<T> {
    let idle = all.iter().filter_map(|one| Some((idle_for(one)?, one)));
    let mut idle: Vec<(Duration, &T)> = idle.filter(|(since, _)| *since >= at_least).collect();
    idle.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
    idle.into_iter().take(wanted).map(|(_, one)| one.clone()).collect()
}

/// One after the other from whoever has most by then: what is idle, the longest idle first, then the newest. `all` are in the
/// order in which they came, `owners` are theirs.
pub(super) fn of_largest<T: Clone, P: Ord + Copy>(
    all: &[T],
    owners: &[P],
    idle_for: impl Fn(&T) -> Option<Duration>,
    wanted: usize,
) -> Vec<T> {
    let mut of_each: BTreeMap<P, Vec<(Option<Duration>, &T)>> = BTreeMap::new();
    for (one, owner) in all.iter().zip(owners) {
        of_each.entry(*owner).or_default().push((idle_for(one), one));
    }
    // The last one of each is given up next: busy ones in the order in which they came, then idle ones.
    of_each.values_mut().for_each(|has| has.sort_by_key(|(idle, _)| *idle));
    let mut largest: BinaryHeap<(usize, P)> =
        of_each.iter().map(|(owner, has)| (has.len(), *owner)).collect();
    let mut chosen = Vec::new();
    while chosen.len() < wanted
        && let Some((count, owner)) = largest.pop()
        && let Some((_, next)) = of_each.get_mut(&owner).and_then(Vec::pop)
    {
        chosen.push(next.clone());
        largest.push((count - 1, owner));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_go_first_and_busy_ones_stay() {
        let idle = |one: &(&str, Option<u64>)| one.1.map(Duration::from_millis);
        let all =
            [("a", Some(3000)), ("busy", None), ("b", Some(9000)), ("young", Some(999)), ("c", Some(1000))];
        let choose = |wanted| -> Vec<&str> {
            let chosen = longest_idle(&all, idle, Duration::from_secs(1), wanted);
            chosen.into_iter().map(|one| one.0).collect()
        };
        assert_eq!(choose(2), ["b", "a"]);
        assert_eq!(choose(9), ["b", "a", "c"]);
        assert!(choose(0).is_empty());
    }

    #[test]
    fn whoever_has_most_gives_way_until_all_have_as_few() {
        let owners = ["x", "x", "y", "x", "y", "x", "z"];
        let all = [0, 1, 2, 3, 4, 5, 6];
        let busy = |wanted| of_largest(&all, &owners, |_| None, wanted);
        assert_eq!(busy(2), [5, 3]);
        assert_eq!(busy(4).len(), 4);
        assert!(!busy(4).contains(&6));
        assert_eq!(busy(99).len(), 7);
        let idle = |one: &usize| [1, 3, 6].contains(one).then(|| Duration::from_millis(90 - *one as u64));
        // Then the first two have as many.
        assert_eq!(of_largest(&all, &owners, idle, 3), [1, 3, 4]);
    }
}

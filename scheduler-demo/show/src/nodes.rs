//! The four nodes: how much of a processor each has, how busy it is with something else, and what it holds.
//!
//! Numbers alone. They are chosen so that the three estimates differ: the processors look the same, the load tells a
//! part of the truth, and only a run shows all of it.

/// One emulated node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: &'static str,
    /// Its processor time, in cores.
    pub cores: f64,
    /// The part of it that other load takes.
    pub busy: f64,
    /// Its percentage of the images.
    pub percent: usize,
}

/// Share of the cores that all nodes have together; the rest is for the services and for the user.
const OF_A_CORE: f64 = 0.65;
/// More would be more than one worker can use.
const MOST_SCALE: f64 = 2.0;

const NODES: [Node; 4] = [
    Node { name: "node-1", cores: 0.45, busy: 0.0, percent: 32 },
    Node { name: "node-2", cores: 0.35, busy: 0.25, percent: 28 },
    Node { name: "node-3", cores: 0.30, busy: 0.5, percent: 23 },
    Node { name: "node-4", cores: 0.25, busy: 0.2, percent: 17 },
];

/// The nodes on a machine of so many cores.
pub fn on(cores: usize) -> Vec<Node> {
    let all: f64 = NODES.iter().map(|node| node.cores).sum();
    let scale = (OF_A_CORE * cores as f64 / all).min(MOST_SCALE);
    NODES.into_iter().map(|node| Node { cores: node.cores * scale, ..node }).collect()
}

/// All their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    NODES.into_iter().map(|node| node.name)
}

impl Node {
    /// The cores that are left for a worker.
    pub fn free(&self) -> f64 {
        self.cores * (1.0 - self.busy)
    }
}

/// How many of the images each node holds: all of them, each once.
pub fn holdings(nodes: &[Node], images: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = nodes.iter().map(|node| images * node.percent / 100).collect();
    let given: usize = counts.iter().sum();
    if let Some(last) = counts.last_mut() {
        *last += images - given;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_estimates_differ_as_the_story_says() {
        let nodes = on(2);
        let free: Vec<f64> = nodes.iter().map(Node::free).collect();
        let all: f64 = free.iter().sum();
        // The slowest node decides: what it is given, over what it can do.
        let over = |given: &dyn Fn(&Node) -> f64| {
            let sum: f64 = nodes.iter().map(given).sum();
            let times = nodes.iter().map(|node| given(node) / sum / node.free());
            times.fold(0.0, f64::max) * all
        };
        let [equal, by_load, by_history] =
            [over(&|_| 1.0), over(&|node| 1.0 - node.busy), over(&|node| node.free())];
        assert!((1.7..1.85).contains(&equal), "{equal}");
        assert!((1.3..1.45).contains(&by_load), "{by_load}");
        assert!((by_history - 1.0).abs() < 1e-9, "{by_history}");
    }

    #[test]
    fn a_larger_machine_has_larger_nodes_up_to_a_whole_core() {
        let total = |cores| on(cores).iter().map(|node| node.cores).sum::<f64>();
        assert!((total(2) - 1.3).abs() < 1e-9 && (total(1) - 0.65).abs() < 1e-9);
        assert!(on(64).iter().all(|node| node.cores <= 1.0));
    }

    #[test]
    fn each_image_is_held_once() {
        for images in [0, 1, 7, 40, 400, 1001] {
            assert_eq!(holdings(&on(2), images).iter().sum::<usize>(), images);
        }
        assert_eq!(holdings(&on(2), 400), [128, 112, 92, 68]);
    }
}

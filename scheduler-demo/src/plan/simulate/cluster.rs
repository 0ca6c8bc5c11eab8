//! Virtual nodes: their speeds over time, and the ideal time for them.

/// Items a second, in steps over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// From when, and how many; the first from 0, the times rising.
    steps: Vec<(f64, f64)>,
}

impl Speed {
    pub fn constant(rate: f64) -> Speed {
        Speed { steps: vec![(0.0, rate.max(0.0))] }
    }

    /// From then on another speed. Steps before a later one that is there already are of no use and are dropped.
    #[must_use]
    pub fn then(mut self, from: f64, rate: f64) -> Speed {
        self.steps.retain(|(at, _)| *at < from);
        self.steps.push((from.max(0.0), rate.max(0.0)));
        self
    }

    fn at(&self, time: f64) -> f64 {
        let passed = self.steps.partition_point(|(from, _)| *from <= time);
        self.steps[..passed].last().map_or(0.0, |(_, rate)| *rate)
    }

    /// When so many items are done that are begun then; infinity if never.
    pub(super) fn end_of(&self, start: f64, items: f64) -> f64 {
        let next = self.steps.partition_point(|(from, _)| *from <= start);
        let (mut now, mut left, mut rate) = (start, items, self.at(start));
        for (from, after) in &self.steps[next..] {
            let possible = (from - now) * rate;
            if possible >= left {
                break;
            }
            (now, left, rate) = (*from, left - possible, *after);
        }
        if rate > 0.0 { now + left / rate } else { f64::INFINITY }
    }
}

/// A node of a virtual cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualNode {
    pub name: String,
    /// Reported to the policy if the node joins later.
    pub capability: f64,
    pub speed: Speed,
    /// From joining to being ready.
    pub startup: f64,
    /// For each item that it does not hold.
    pub transfer: f64,
    /// When it joins; None if it is there from the start.
    pub joins: Option<f64>,
    pub dies: Option<f64>,
}

impl VirtualNode {
    /// A node that is there and ready from the start, of an unchanging speed which is known.
    pub fn new(name: impl Into<String>, rate: f64) -> VirtualNode {
        VirtualNode {
            name: name.into(),
            capability: rate,
            speed: Speed::constant(rate),
            startup: 0.0,
            transfer: 0.0,
            joins: None,
            dies: None,
        }
    }

    fn rate_at(&self, time: f64) -> f64 {
        let there = self.joins.is_none_or(|joins| joins <= time) && self.dies.is_none_or(|dies| time < dies);
        if there { self.speed.at(time) } else { 0.0 }
    }
}

/// The least time in which the nodes, as long as they are there, could do so many items if they could be cut to any
/// size and nothing but the work took time.
pub fn ideal(nodes: &[VirtualNode], items: f64) -> Option<f64> {
    let mut times: Vec<f64> = vec![0.0];
    for node in nodes {
        times.extend(node.speed.steps.iter().map(|(from, _)| *from));
        times.extend(node.joins.iter().chain(&node.dies));
    }
    times.sort_unstable_by(f64::total_cmp);
    let mut left = items;
    for (i, from) in times.iter().enumerate() {
        let rate: f64 = nodes.iter().map(|node| node.rate_at(*from)).sum();
        let possible = times.get(i + 1).map_or(f64::INFINITY, |to| to - from) * rate;
        if left <= 0.0 || (rate > 0.0 && possible >= left) {
            return Some(from + if rate > 0.0 { left / rate } else { 0.0 });
        }
        left -= if rate > 0.0 { possible } else { 0.0 };
    }
    None
}

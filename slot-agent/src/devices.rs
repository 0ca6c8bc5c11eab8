//! The devices of a node by their ids, and which attempt of a task holds which
//! ([179](../../docs/decisions/179-devices-have-ids.md)). Pure.
//!
//! The number that an attempt gets is the ledger's to say, and the ids the node's: no id is given twice. The folders of attempts
//! remember what is held, so that it outlives the agent.

use std::collections::{BTreeMap, BTreeSet};

/// The resource that an attempt holds devices of.
pub const GPU: &str = "gpu";
/// The variable with the ids of a task's devices, by resource.
const DEVICES_VARIABLE: &str = "ESTIMAND_TASK_DEVICES";
/// CUDA's own: the devices that a program sees. HIP heeds it, too.
const CUDA_VARIABLE: &str = "CUDA_VISIBLE_DEVICES";
/// The order of CUDA's indices: the driver's, which containers are given by, and not the fastest first.
const CUDA_ORDER: (&str, &str) = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID");

/// The ids of a node's GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DeviceIds {
    Listed(Vec<String>),
    /// Indices from 0 on, where the agent has a label that counts them.
    LabelledIndices,
    /// Indices from 0 on; the ledger alone knows how many, and whether there are any.
    #[default]
    Indices,
}

/// The GPUs of a node while their holders are counted.
#[derive(Debug)]
pub struct DeviceUnits<'a> {
    ids: &'a DeviceIds,
    held: BTreeMap<String, Vec<String>>,
}

/// The answer to an attempt that needs devices.
#[derive(Debug, PartialEq, Eq)]
pub enum DeviceGrant {
    Ids(Vec<String>),
    /// Others hold them still.
    NotYet,
    /// The node has only so many.
    Never(usize),
}

impl DeviceIds {
    /// The ids that the operator declares, else indices. The agent's own label bounds none, since the plane's counts more.
    pub fn of(declared: &BTreeMap<String, Vec<String>>, labels: &BTreeMap<String, String>) -> Self {
        match declared.get(GPU) {
            Some(ids) => DeviceIds::Listed(ids.clone()),
            None if labels
                .get(GPU)
                .and_then(|count| count.parse().ok())
                .is_some_and(|count: u64| count > 0) =>
            {
                DeviceIds::LabelledIndices
            }
            None => DeviceIds::Indices,
        }
    }

    /// True if the agent itself knows of GPUs here.
    pub fn are_known(&self) -> bool {
        *self != DeviceIds::Indices
    }

    fn has(&self, id: &str) -> bool {
        match self {
            DeviceIds::Listed(ids) => ids.iter().any(|known| known == id),
            DeviceIds::LabelledIndices | DeviceIds::Indices => id.parse::<u32>().is_ok(),
        }
    }

    /// The first that are not among `held`; fewer if there are no more.
    fn free(&self, held: &BTreeSet<&str>, count: usize) -> Vec<String> {
        let is_free = |id: &String| !held.contains(id.as_str());
        match self {
            DeviceIds::Listed(ids) => ids.iter().filter(|id| is_free(id)).take(count).cloned().collect(),
            DeviceIds::LabelledIndices | DeviceIds::Indices => {
                (0_u32..).map(|id| id.to_string()).filter(is_free).take(count).collect()
            }
        }
    }
}

impl<'a> DeviceUnits<'a> {
    pub fn new(ids: &'a DeviceIds) -> Self {
        DeviceUnits { ids, held: BTreeMap::new() }
    }

    /// An attempt holds these, as was written down.
    pub fn hold(&mut self, attempt: &str, ids: Vec<String>) {
        self.held.insert(attempt.to_owned(), ids);
    }

    /// An attempt of an agent that gave a count holds so many: the first ones, which the engine gave to each container.
    pub fn hold_first(&mut self, attempt: &str, count: usize) {
        let first = self.ids.free(&BTreeSet::new(), count);
        self.hold(attempt, first);
    }

    /// Gives an attempt so many, or those that it holds already.
    pub fn take(&mut self, attempt: &str, count: usize) -> DeviceGrant {
        if let DeviceIds::Listed(ids) = self.ids
            && ids.len() < count
        {
            return DeviceGrant::Never(ids.len());
        }
        if let Some(ids) = self.held.get(attempt)
            && ids.len() == count
            && ids.iter().all(|id| self.ids.has(id))
        {
            return DeviceGrant::Ids(ids.clone());
        }
        let others = self.held.iter().filter(|(holder, _)| *holder != attempt);
        let held: BTreeSet<&str> = others.flat_map(|(_, ids)| ids).map(String::as_str).collect();
        let free = self.ids.free(&held, count);
        if free.len() < count {
            return DeviceGrant::NotYet;
        }
        self.hold(attempt, free.clone());
        DeviceGrant::Ids(free)
    }
}

/// True for the id of a device that is a file of the node.
pub fn is_file(id: &str) -> bool {
    id.starts_with('/')
}

/// Tells a task its GPUs, but for variables that it sets itself. A container sees no others, and numbers them anew. A
/// process sees those alone, and none if it asked for none where the agent `knows_gpus`.
pub fn tell(env: &mut BTreeMap<String, String>, gpus: &[String], knows_gpus: bool, in_container: bool) {
    if !gpus.is_empty() {
        let devices = serde_json::json!({ GPU: gpus }).to_string();
        env.entry(DEVICES_VARIABLE.to_owned()).or_insert(devices);
    }
    if !in_container && (knows_gpus || !gpus.is_empty()) {
        // CUDA knows no paths.
        let visible: Vec<&str> = gpus.iter().map(String::as_str).filter(|id| !is_file(id)).collect();
        if visible.iter().any(|id| id.parse::<u32>().is_ok()) {
            env.entry(CUDA_ORDER.0.to_owned()).or_insert_with(|| CUDA_ORDER.1.to_owned());
        }
        env.entry(CUDA_VARIABLE.to_owned()).or_insert_with(|| visible.join(","));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn listed(ids: &[&str]) -> DeviceIds {
        DeviceIds::Listed(ids.iter().map(|id| (*id).to_owned()).collect())
    }

    fn ids(ids: &[&str]) -> DeviceGrant {
        DeviceGrant::Ids(ids.iter().map(|id| (*id).to_owned()).collect())
    }

    /// As an agent that is started anew finds them.
    fn found<'a>(known: &'a DeviceIds, place: &Path) -> DeviceUnits<'a> {
        let mut units = DeviceUnits::new(known);
        for entry in fs::read_dir(place).unwrap().flatten() {
            let held = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
            units.hold(entry.file_name().to_str().unwrap(), held);
        }
        units
    }

    #[test]
    fn no_device_is_given_twice_and_none_is_lost() {
        let known = listed(&["A", "B", "C", "D", "E"]);
        for seed in 0..200 {
            let place = tempfile::tempdir().unwrap();
            let mut random = fastrand::Rng::with_seed(seed);
            let mut model: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for _ in 0..40 {
                let attempt = random.u8(..8).to_string();
                let count = random.usize(1..4);
                if model.remove(&attempt).is_some() {
                    fs::remove_file(place.path().join(&attempt)).unwrap();
                    continue;
                }
                // Each take is by an agent that was started anew.
                let free = 5 - model.values().map(Vec::len).sum::<usize>();
                match found(&known, place.path()).take(&attempt, count) {
                    DeviceGrant::Ids(taken) => {
                        assert_eq!(taken.len(), count);
                        fs::write(place.path().join(&attempt), serde_json::to_vec(&taken).unwrap()).unwrap();
                        let again = found(&known, place.path()).take(&attempt, count);
                        assert_eq!(again, DeviceGrant::Ids(taken.clone()));
                        model.insert(attempt, taken);
                    }
                    DeviceGrant::NotYet => assert!(free < count, "{free} are free, and it needs {count}"),
                    DeviceGrant::Never(most) => panic!("{most}"),
                }
                let all: Vec<&String> = model.values().flatten().collect();
                let distinct: BTreeSet<&String> = all.iter().copied().collect();
                assert_eq!(distinct.len(), all.len(), "seed {seed}: {model:?}");
            }
        }
    }

    #[test]
    fn attempts_of_before_hold_the_first_ones_together() {
        let known = listed(&["A", "B", "C"]);
        let mut units = DeviceUnits::new(&known);
        units.hold_first("old.1", 1);
        units.hold_first("old.2", 2);
        assert_eq!(units.take("new.1", 1), ids(&["C"]));
        assert_eq!(units.take("new.2", 1), DeviceGrant::NotYet);
        assert_eq!(units.take("new.3", 4), DeviceGrant::Never(3));
        let mut units = DeviceUnits::new(&DeviceIds::Indices);
        units.hold_first("old.1", 2);
        assert_eq!(units.take("new.1", 2), ids(&["2", "3"]));
    }

    #[test]
    fn ids_that_the_node_has_no_more_are_not_given_again() {
        let known = listed(&["A", "B"]);
        let mut units = DeviceUnits::new(&known);
        units.hold("a.1", vec!["X".to_owned()]);
        assert_eq!(units.take("a.1", 1), ids(&["A"]));
        assert_eq!(units.take("b.1", 1), ids(&["B"]));
    }

    #[test]
    fn ids_are_declared_or_indices() {
        let label = |count: &str| BTreeMap::from([(GPU.to_owned(), count.to_owned())]);
        let declared = BTreeMap::from([(GPU.to_owned(), vec!["A".to_owned()])]);
        let none = BTreeMap::new();
        assert_eq!(DeviceIds::of(&declared, &label("1")), listed(&["A"]));
        assert_eq!(DeviceIds::of(&none, &label("2")), DeviceIds::LabelledIndices);
        for unknown in [label(""), label("0"), BTreeMap::new()] {
            assert_eq!(DeviceIds::of(&none, &unknown), DeviceIds::Indices);
        }
        assert!(listed(&["A"]).are_known() && DeviceIds::LabelledIndices.are_known());
        assert!(!DeviceIds::Indices.are_known());
    }

    #[test]
    fn a_task_is_told_its_devices_unless_it_says_itself() {
        let told = |given: &[(&str, &str)], gpus: &[&str], knows_gpus: bool, in_container: bool| {
            let gpus: Vec<String> = gpus.iter().map(|id| (*id).to_owned()).collect();
            let mut env =
                given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            tell(&mut env, &gpus, knows_gpus, in_container);
            env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let both = ["CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", r#"ESTIMAND_TASK_DEVICES={"gpu":["GPU-a","GPU-b"]}"#];
        assert_eq!(told(&[], &["GPU-a", "GPU-b"], true, false), both);
        assert_eq!(told(&[], &["GPU-a", "GPU-b"], true, true), both[1..]);
        let by_index = ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1"];
        assert_eq!(told(&[], &["1"], false, false)[..2], by_index);
        assert_eq!(told(&[], &[], true, false), ["CUDA_VISIBLE_DEVICES="]);
        assert!(told(&[], &[], true, true).is_empty() && told(&[], &[], false, false).is_empty());
        let own = [("CUDA_VISIBLE_DEVICES", "7")];
        assert_eq!(told(&own, &[], true, false), ["CUDA_VISIBLE_DEVICES=7"]);
        assert_eq!(told(&own, &["/dev/x"], true, false)[0], "CUDA_VISIBLE_DEVICES=7");
        assert_eq!(told(&[], &["/dev/x"], true, false)[0], "CUDA_VISIBLE_DEVICES=");
    }
}

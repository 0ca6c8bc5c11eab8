//! A resource as the source of points: its node, the prefix of its names, and the labels that it adds.

use std::collections::HashMap;

use estimand_api::names::NodeName;

use super::{Settings, naming};
use crate::attributes::{Labels, label_text, labels};
use crate::messages::Resource;

/// In this order: where a pod measures, `host.name` is the name of the pod.
const NODE_ATTRIBUTES: [&str; 2] = ["k8s.node.name", "host.name"];
const SERVICE_ATTRIBUTE: &str = "service.name";
/// The labels of a resource are a part of each of its series.
const MAX_LABEL_BYTES: usize = 1024;

pub struct Source {
    pub node: Result<NodeName, String>,
    pub prefix: Result<String, String>,
    pub labels: Labels,
    /// Two resources have the same number if all their attributes are the same.
    pub number: usize,
}

/// The numbers of the resources of a body.
#[derive(Default)]
pub struct Numbers(HashMap<String, usize>);

impl Source {
    pub fn new(resource: Option<Resource>, settings: &Settings, numbers: &mut Numbers) -> Self {
        let mut attributes = labels(&resource.unwrap_or_default().attributes);
        let next = numbers.0.len();
        let number = *numbers.0.entry(label_text(&attributes)).or_insert(next);
        let node = match NODE_ATTRIBUTES.iter().find_map(|name| attributes.get(*name)) {
            Some(node) => {
                NodeName::parse(node).map_err(|error| format!("is of a resource whose node {error}"))
            }
            None => settings.node.clone().ok_or_else(no_node),
        };
        let prefix = match (&settings.prefix, attributes.get(SERVICE_ATTRIBUTE)) {
            (Some(prefix), _) => Ok(prefix.clone()),
            (None, Some(service)) if !service.is_empty() => naming::service_prefix(service),
            (None, _) => Ok(naming::PREFIX.to_owned()),
        };
        attributes.retain(|name, _| settings.series_attributes.contains(name));
        let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        let prefix = match bytes > MAX_LABEL_BYTES {
            true => Err(format!(
                "the attributes of a resource that tell series apart have {bytes} bytes; expected at most \
                 {MAX_LABEL_BYTES}"
            )),
            false => prefix,
        };
        Source { node, prefix, labels: attributes, number }
    }
}

fn no_node() -> String {
    let [first, second] = NODE_ATTRIBUTES;
    format!(
        "is of a resource that names no node: it has neither the attribute `{second}` nor `{first}`. Set one: \
         OTEL_RESOURCE_ATTRIBUTES={second}=NODE for a program, the processor `resourcedetection` in a Collector"
    )
}

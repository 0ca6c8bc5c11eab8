//! Why a task fits no node of the cluster, however idle that is.

use std::fmt;

use estimand_api::resources;
use estimand_capacity::{Amounts, Resource};
use serde::Serialize;

use super::cluster::Cluster;
use super::request::Request;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Misfit {
    NoNodes,
    /// No node has the labels.
    NoLabels {
        nodes: String,
    },
    /// Some nodes claim the labels, which is not enough for secrets and inputs.
    OnlyClaimed {
        nodes: String,
    },
    /// No such node runs containers.
    NoContainers,
    /// No such node runs processes of users.
    NoUsers,
    /// No such node has that much of one resource.
    TooMuch {
        resource: Resource,
        asked: u64,
        most: u64,
    },
    /// Each amount is there somewhere, but on no node all of them.
    NotTogether {
        amounts: Amounts,
    },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NoNodes => f.write_str("needs a node; there is none"),
            Misfit::NoLabels { nodes } => {
                write!(f, "needs a node with the labels `{nodes}`; no node has them")
            }
            Misfit::OnlyClaimed { nodes } => write!(
                f,
                "has secrets or inputs and needs a node to which an operator or its credentials give the labels `{nodes}`; those \
                 that have them only claim them"
            ),
            Misfit::NoContainers => f.write_str(
                "needs a node that runs containers; none of those that it may be on does: their agents need `--docker`",
            ),
            Misfit::NoUsers => f.write_str(
                "is the task of a user and needs a node that runs those; each of those that it may be on would run it as its \
                 agent, whose files and token it could read: their agents need `--run-as USER`, or an operator's word that it \
                 may be so (`--allow-users-as-agent`); a task with an image needs neither",
            ),
            Misfit::TooMuch { resource, asked, most } => {
                let [asked, most] =
                    [asked, most].map(|amount| resources::amount(resource.as_str(), *amount));
                write!(f, "needs {resource}:{asked}; the most any node has is {most}")
            }
            Misfit::NotTogether { amounts } => {
                let one = |(resource, amount): (&Resource, u64)| {
                    format!("{resource}:{}", resources::amount(resource.as_str(), amount))
                };
                let all: Vec<String> = amounts.iter().map(one).collect();
                write!(f, "needs {}; no node has all of them", all.join(", "))
            }
        }
    }
}

/// The reason why a task can be on no node; none if it can.
pub fn misfit(cluster: &Cluster, request: &Request) -> Option<Misfit> {
    let mut matching = cluster.nodes().filter(|node| request.means(node)).peekable();
    if matching.peek().is_none() {
        let none = cluster.nodes().next().is_none();
        let claimed = cluster.nodes().any(|node| request.nodes.matches(&node.labels));
        let nodes = request.nodes.to_string();
        if cluster.nodes().any(|node| request.means_labels_of(node)) {
            return Some(if request.has_image { Misfit::NoContainers } else { Misfit::NoUsers });
        }
        return Some(match (none, claimed) {
            (true, _) => Misfit::NoNodes,
            (false, false) => Misfit::NoLabels { nodes },
            (false, true) => Misfit::OnlyClaimed { nodes },
        });
    }
    let mut most: Vec<(&Resource, u64, u64)> =
        request.amounts.iter().map(|(r, asked)| (r, asked, 0)).collect();
    for node in matching {
        let capacity = cluster.ledger.capacity(node.id);
        let mut fits = true;
        for (resource, asked, most) in &mut most {
            let has = capacity.get(resource);
            *most = has.max(*most);
            fits &= *asked <= has;
        }
        if fits {
            return None;
        }
    }
    let short = most.into_iter().find(|(_, asked, most)| most < asked);
    Some(match short {
        Some((resource, asked, most)) => Misfit::TooMuch { resource: resource.clone(), asked, most },
        None => Misfit::NotTogether { amounts: request.amounts.clone() },
    })
}

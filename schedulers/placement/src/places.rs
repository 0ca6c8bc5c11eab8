//! Places for tasks: the last sixteenth of them is kept for users who have few, so that nobody's tasks wait until one user's
//! end. Operators' tasks, and those on a promise, are not counted.
//!
//! Each node keeps its part, because a task may be on some nodes alone. Where a sixteenth of a node is less than a place, some of
//! the nodes keep one. Nothing else of a node is kept, so processors and devices stand idle for nobody.

use estimand_api::resources::PLACES;
use estimand_capacity::Standing;

use super::cluster::{Cluster, NodeView};
use super::request::Request;

/// The part of all places that is kept, one place at the least.
const KEPT_PART: u64 = 16;

impl Cluster {
    /// Has the nodes that run tasks of users keep their parts, as they are now.
    pub fn keep_places(&mut self) {
        let mut all = 0_u64;
        let mut most_kept = 0;
        for node in self.nodes.iter_mut().flatten() {
            let standing = self.ledger.standing(node.id);
            let has_places = standing == Standing::Up && node.runs_users();
            let before = all.div_ceil(KEPT_PART);
            all = all.saturating_add(if has_places { node.places } else { 0 });
            let kept = all.div_ceil(KEPT_PART) - before;
            if std::mem::replace(&mut node.kept, kept) != kept {
                // Nothing is freed there, and still it is to be looked at anew.
                self.ledger.set_standing(node.id, standing);
            }
            most_kept = kept.max(most_kept);
        }
        self.places.all = all;
        self.places.most_kept = most_kept;
    }

    /// The place that a task would take is of the part that the node keeps for users who have less than that.
    pub fn keeps_out(&self, request: &Request, node: &NodeView) -> bool {
        let Some(user) = &request.user else { return false };
        self.places.of(user) >= node.kept && self.leaves_too_few(request, node)
    }

    fn leaves_too_few(&self, request: &Request, node: &NodeView) -> bool {
        let parts = self.ledger.idle_parts(node.id, &request.shape);
        let mut parts = request.amounts.iter().zip(parts);
        let places = parts.find(|((resource, _), _)| resource.as_str() == PLACES);
        places.is_some_and(|((_, asked), idle)| idle < node.kept.saturating_add(asked))
    }
}

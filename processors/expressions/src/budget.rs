//! The budget of one evaluation. Every node visited, every element touched and every byte built is paid for,
//! so an evaluation ends for any values.

use crate::error::Fault;

/// The most that an evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Nodes visited and elements touched.
    pub steps: u64,
    /// Bytes of strings, lists and maps built, whether or not they were let go again.
    pub bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { steps: 100_000, bytes: 1 << 20 }
    }
}

impl Budget {
    /// For an evaluation over a whole cluster: the usual, and some for each node.
    pub fn over(nodes: usize) -> Budget {
        let usual = Budget::default();
        Budget {
            steps: usual.steps.saturating_add((nodes as u64).saturating_mul(200)),
            bytes: usual.bytes.saturating_add(nodes.saturating_mul(1024)),
        }
    }

    #[inline]
    pub(crate) fn step(&mut self, at: u32, count: usize) -> Result<(), Box<Fault>> {
        match self.steps.checked_sub(count as u64) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(self.spent(at, "steps")),
        }
    }

    pub(crate) fn build(&mut self, at: u32, bytes: usize) -> Result<(), Box<Fault>> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => Err(self.spent(at, "memory")),
        }
    }

    /// Nothing is left afterwards, so that no other branch can go on.
    #[cold]
    fn spent(&mut self, at: u32, what: &str) -> Box<Fault> {
        *self = Budget { steps: 0, bytes: 0 };
        Fault::too_much(at, format!("the expression takes more {what} than it may"))
    }
}

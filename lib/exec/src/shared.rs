//! The connection to the launcher that all handles and cells of it share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::LauncherOptions;
use super::link::Link;
use super::protocol::ContainmentKind;

/// How long a run waits for a launcher that is being started anew.
const RUN_PATIENCE: Duration = Duration::from_secs(2);

/// The state that all handles and cells of a launcher share.
#[derive(Debug)]
pub(super) struct Shared {
    pub options: LauncherOptions,
    /// The mark of this agent's runs; each adds its number.
    pub token: String,
    pub state: watch::Sender<LinkState>,
    pub last_id: AtomicU64,
    pub containment: Mutex<ContainmentKind>,
}

#[derive(Debug, Clone)]
pub(super) enum LinkState {
    Up(Arc<Link>),
    /// A launcher died, and its processes are being ended.
    Clearing,
    /// Nothing is left, and there is no launcher.
    Down,
}

impl Shared {
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The connection, if there is one within a short time.
    pub async fn link(&self) -> Option<Arc<Link>> {
        if let LinkState::Up(link) = &*self.state.borrow() {
            return Some(link.clone());
        }
        let mut state = self.state.subscribe();
        let up = state.wait_for(|state| matches!(state, LinkState::Up(_)));
        match &*tokio::time::timeout(RUN_PATIENCE, up).await.ok()?.ok()? {
            LinkState::Up(link) => Some(link.clone()),
            LinkState::Clearing | LinkState::Down => None,
        }
    }
}

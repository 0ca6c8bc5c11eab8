//! Two requests to stop, of which the first one counts.
//!
//! The server's stop comes before its connections are drained: a request that waits must end then. The tasks' stop
//! comes last, and comes alone when there is no server.

use estimand_runtime::Stop;

#[derive(Debug, Clone)]
pub struct Stops {
    pub server: Stop,
    pub task: Stop,
}

impl Stops {
    pub async fn requested(&self) {
        tokio::select! {
            () = self.server.requested() => {}
            () = self.task.requested() => {}
        }
    }
}

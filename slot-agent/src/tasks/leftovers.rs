//! Removes containers of this agent that no attempt has any more: their folder is gone, or says that they have ended.
//!
//! An attempt has its folder for longer than its container, so nothing else is taken for a leftover. One comes to be when
//! somebody removes the folder while its keeper is dead, or when an engine refused the removal.

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::{Driver, Next, Rounds, Stop, Work};

use super::Tasks;
use super::folder::AttemptFolder;
use crate::containers::ContainerTerms;
use crate::containers::engine::{Engine, EngineError};

const LOOK_EVERY: Duration = Duration::from_secs(300);

impl Tasks {
    pub fn runs_containers(&self) -> bool {
        self.options.terms.containers.is_some()
    }

    /// Removes leftover containers.
    pub async fn clear_leftovers(self: &Arc<Self>, driver: Driver, stop: &Stop) {
        let mut driver = driver.every(LOOK_EVERY);
        driver.run(&mut Leftovers(Arc::clone(self)), &Rounds::new(), stop.requested()).await;
    }
}

struct Leftovers(Arc<Tasks>);

impl Work for Leftovers {
    type Error = EngineError;

    async fn round(&mut self) -> Result<Next, EngineError> {
        let Some(ContainerTerms { docker, agent, .. }) = &self.0.options.terms.containers else {
            return Ok(Next::End);
        };
        let engine = Engine::connect(&docker.socket).await?;
        for container in engine.labelled(agent).await? {
            let folder = AttemptFolder::at(self.0.options.folder.join(&container.attempt));
            if !folder.has("accepted.json") || matches!(folder.end(), Ok(Some(_))) {
                tracing::info!(task = container.attempt, "removes a container that no attempt has any more");
                engine.remove(&container.id).await?;
            }
        }
        Ok(Next::Period)
    }
}

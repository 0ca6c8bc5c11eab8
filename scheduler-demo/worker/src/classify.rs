//! One image's bytes to its label.

use std::path::Path;

use crate::decode::{DecodeError, decode};
use crate::network::{Network, NetworkError, Verdict};
use crate::tensor::{self, IMAGE_LEN};

/// A network, and the place where images are put before it.
pub struct Classifier {
    network: Network,
    input: Vec<f32>,
}

/// Why an image has no label. It is a fact about that image, and no reason to stop.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    #[error(transparent)]
    DecodeError(#[from] DecodeError),
    #[error(transparent)]
    Network(#[from] NetworkError),
}

impl Classifier {
    /// Images are taken one by one. Eight at a time go a quarter faster, for the full layers' weights come from memory
    /// once for all of them; but then a worker on a slow node would not react for seconds.
    pub fn load(model: &Path) -> Result<Self, NetworkError> {
        Ok(Classifier { network: Network::load(model, 1)?, input: vec![0.0; IMAGE_LEN] })
    }

    pub fn classify(&mut self, jpeg: &[u8]) -> Result<Verdict, ClassifyError> {
        tensor::fill(&decode(jpeg)?, &mut self.input);
        let verdicts = self.network.verdicts(&self.input)?;
        Ok(verdicts[0])
    }
}

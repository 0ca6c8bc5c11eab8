//! A network of an ONNX file, made ready to run on one thread.
//!
//! It takes images of 224 x 224 in batches of one size, chosen when it is loaded, and gives a score a class. What
//! runs it (tract) is known here only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract_onnx::prelude::*;

use crate::model::alexnet::EDGE;
use crate::tensor::IMAGE_LEN;

#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("{}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: String },
    #[error(
        "{} takes no image of 1 x 3 x {EDGE} x {EDGE} floats, or gives no row of class scores: {cause}",
        path.display()
    )]
    Unfit { path: PathBuf, cause: String },
    #[error("the network failed: {0}")]
    Run(String),
}

/// The most likely class of an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The class's index.
    pub label: usize,
    /// How likely it is, 0 to 1.
    pub score: f32,
}

pub struct Network {
    plan: Arc<TypedRunnableModel>,
    batch: usize,
    classes: usize,
}

impl Network {
    /// Reads and optimises the network; this takes seconds if it is large.
    pub fn load(path: &Path, batch: usize) -> Result<Self, NetworkError> {
        let unfit = |cause: String| NetworkError::Unfit { path: path.to_owned(), cause };
        let chain = |error: TractError| unfit(format!("{error:#}"));
        let model = onnx().model_for_path(path).map_err(|error| NetworkError::Unreadable {
            path: path.to_owned(),
            cause: format!("{error:#}"),
        })?;
        let input = f32::fact([batch, 3, EDGE, EDGE]);
        let model = model.with_input_fact(0, input.into()).map_err(chain)?;
        let model = model.into_typed().and_then(TypedModel::into_decluttered).map_err(chain)?;
        let output = model.output_fact(0).map_err(chain)?;
        let classes = match output.shape.as_concrete() {
            Some([rows, classes]) if *rows == batch && *classes > 0 => *classes,
            _ => return Err(unfit(format!("its output is {output:?}"))),
        };
        let plan = model.into_optimized().and_then(|model| model.into_runnable()).map_err(chain)?;
        Ok(Network { plan, batch, classes })
    }

    pub fn batch(&self) -> usize {
        self.batch
    }

    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The scores of a batch as the network gives them, a row of all classes an image.
    pub fn scores(&self, images: &[f32]) -> Result<Vec<f32>, NetworkError> {
        assert_eq!(images.len(), self.batch * IMAGE_LEN, "a batch has the size that was asked for");
        let run = || -> TractResult<Vec<f32>> {
            let input = Tensor::from_shape(&[self.batch, 3, EDGE, EDGE], images)?;
            let output = self.plan.run(tvec!(input.into_tvalue()))?;
            Ok(output[0].to_plain_array_view::<f32>()?.iter().copied().collect())
        };
        run().map_err(|error| NetworkError::Run(format!("{error:#}")))
    }

    /// The most likely class of each image of a batch.
    pub fn verdicts(&self, images: &[f32]) -> Result<Vec<Verdict>, NetworkError> {
        let scores = self.scores(images)?;
        Ok(scores.chunks_exact(self.classes).map(verdict).collect())
    }
}

/// Scores that are likelihoods already stay as they are; others become ones by the softmax.
fn verdict(scores: &[f32]) -> Verdict {
    let mut label = 0;
    for (class, score) in scores.iter().enumerate() {
        if *score > scores[label] {
            label = class;
        }
    }
    let sum: f64 = scores.iter().map(|score| f64::from(*score)).sum();
    let are_likelihoods = (sum - 1.0).abs() < 1e-3 && scores.iter().all(|score| (0.0..=1.0).contains(score));
    let score = if are_likelihoods {
        scores[label]
    } else {
        let best = f64::from(scores[label]);
        (1.0 / scores.iter().map(|score| (f64::from(*score) - best).exp()).sum::<f64>()) as f32
    };
    Verdict { label, score }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_score_is_found_and_made_a_likelihood() {
        let Verdict { label, score } = verdict(&[1.0, 3.0, 2.0]);
        let expected = 1.0 / ((-2f32).exp() + 1.0 + (-1f32).exp());
        assert_eq!(label, 1);
        assert!((score - expected).abs() < 1e-6);
        // Large scores don't overflow.
        assert_eq!(verdict(&[1000.0, 0.0]), Verdict { label: 0, score: 1.0 });
        // The first of equals.
        assert_eq!(verdict(&[4.0, 4.0]).label, 0);
    }

    #[test]
    fn likelihoods_are_not_made_likelihoods_again() {
        assert_eq!(verdict(&[0.25, 0.75]), Verdict { label: 1, score: 0.75 });
    }
}

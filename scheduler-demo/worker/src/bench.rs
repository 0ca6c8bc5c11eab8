//! The number of images a second that one core classifies, and the time of each step.
//!
//! A round takes every image once, from bytes that are in memory already. What is compared with something else
//! is compared round by round (`serve`): the caller puts the other program's rounds between them.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::decode::decode;
use crate::images::{self, ReadError};
use crate::network::{Network, NetworkError};
use crate::tensor::{self, IMAGE_LEN};

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("{place}: {cause}")]
    Folder { place: String, cause: io::Error },
    #[error("{place}: there is no .jpg in it")]
    NoImages { place: String },
    #[error("{name}: {cause}")]
    Unreadable { name: String, cause: ReadError },
    #[error("{name}: {cause}")]
    DecodeError { name: String, cause: crate::decode::DecodeError },
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// The first `count` JPEG files of a folder in the order of their names.
pub fn load(folder: &Path, count: usize) -> Result<Vec<Vec<u8>>, BenchError> {
    let place = folder.display().to_string();
    let unlisted = |cause| BenchError::Folder { place: place.clone(), cause };
    let entries = folder.read_dir().map_err(unlisted)?.collect::<io::Result<Vec<_>>>().map_err(unlisted)?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    paths.sort();
    paths.truncate(count);
    if paths.is_empty() {
        return Err(BenchError::NoImages { place });
    }
    let read = |path: &std::path::PathBuf| {
        images::read_file(path)
            .map_err(|cause| BenchError::Unreadable { name: path.display().to_string(), cause })
    };
    paths.iter().map(read).collect()
}

/// The times of one round.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    pub images: usize,
    pub decode_seconds: f64,
    pub resize_seconds: f64,
    pub inference_seconds: f64,
    /// Of all of it.
    pub seconds: f64,
}

impl Round {
    /// Images a second: decoding, resizing, inference, all of it.
    pub fn rates(&self) -> [f64; 4] {
        let seconds = [self.decode_seconds, self.resize_seconds, self.inference_seconds, self.seconds];
        seconds.map(|seconds| self.images as f64 / seconds)
    }
}

/// Classifies all images once, as many at a time as the network takes; those beyond the last full batch are left
/// out.
pub fn round(network: &Network, files: &[Vec<u8>]) -> Result<Round, BenchError> {
    let mut input = vec![0.0; network.batch() * IMAGE_LEN];
    let [mut decoding, mut resizing, mut inference] = [Duration::ZERO; 3];
    let mut images = 0;
    let began = Instant::now();
    for batch in files.chunks_exact(network.batch()) {
        for (jpeg, place) in batch.iter().zip(input.chunks_exact_mut(IMAGE_LEN)) {
            let start = Instant::now();
            let pixels = decode(jpeg)
                .map_err(|cause| BenchError::DecodeError { name: format!("image {images}"), cause })?;
            let decoded = Instant::now();
            tensor::fill(&pixels, place);
            decoding += decoded - start;
            resizing += decoded.elapsed();
            images += 1;
        }
        let start = Instant::now();
        network.verdicts(&input)?;
        inference += start.elapsed();
    }
    Ok(Round {
        images,
        decode_seconds: decoding.as_secs_f64(),
        resize_seconds: resizing.as_secs_f64(),
        inference_seconds: inference.as_secs_f64(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// A round for each line read, whose figures are a line of JSON; until there are no more lines.
pub fn serve(
    network: &Network,
    files: &[Vec<u8>],
    asked: impl BufRead,
    mut out: impl Write,
) -> Result<(), BenchError> {
    for line in asked.lines() {
        line?;
        let figures = serde_json::to_string(&round(network, files)?).map_err(io::Error::other)?;
        writeln!(out, "{figures}")?;
        out.flush()?;
    }
    Ok(())
}

/// The middle one, and from the first to the third quarter of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub quarters: (f64, f64),
}

impl Spread {
    /// Of at least one figure.
    pub fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let last = figures.len() - 1;
        let at = |share: f64| figures[(share * last as f64).round() as usize];
        Spread { median: at(0.5), quarters: (at(0.25), at(0.75)) }
    }
}

/// Runs rounds for each batch size in turn and prints a table.
pub fn table(
    model: &Path,
    files: &[Vec<u8>],
    batches: &[usize],
    rounds: usize,
    mut out: impl Write,
) -> Result<(), BenchError> {
    let mut networks = Vec::new();
    for batch in batches {
        let began = Instant::now();
        networks.push((Network::load(model, *batch)?, Vec::new()));
        writeln!(out, "batch {batch}: loaded in {:.1} s", began.elapsed().as_secs_f64())?;
    }
    // The first round of each warms up and doesn't count.
    for at in 0..=rounds {
        for (network, measured) in &mut networks {
            let figures = round(network, files)?;
            measured.extend((at > 0).then_some(figures));
        }
    }
    writeln!(out, "images/s of one thread: median (first to third quarter) of {rounds} rounds, interleaved")?;
    writeln!(out, "batch  {:>22}  {:>22}  {:>22}  {:>22}", "decode", "resize", "inference", "total")?;
    let mut best: Option<(usize, f64)> = None;
    for (network, measured) in &networks {
        let spreads = [0, 1, 2, 3].map(|part| Spread::of(measured.iter().map(|r| r.rates()[part]).collect()));
        let cells = spreads.map(|Spread { median, quarters }| {
            format!("{:>22}", format!("{median:.1} ({:.1}-{:.1})", quarters.0, quarters.1))
        });
        writeln!(out, "{:>5}  {}", network.batch(), cells.join("  "))?;
        if best.is_none_or(|(_, rate)| spreads[3].median > rate) {
            best = Some((network.batch(), spreads[3].median));
        }
    }
    if let (Some((batch, rate)), true) = (best, networks.len() > 1) {
        writeln!(out, "batch {batch} is best: {rate:.1} images/s")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_the_sorted_figures() {
        let spread = Spread::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(spread, Spread { median: 3.0, quarters: (2.0, 4.0) });
        assert_eq!(Spread::of(vec![7.0]), Spread { median: 7.0, quarters: (7.0, 7.0) });
    }
}

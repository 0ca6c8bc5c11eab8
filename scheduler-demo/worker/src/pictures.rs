//! Makes JPEG files of the sizes that ImageNet's have, for where no photographs can be downloaded.
//!
//! A picture is a sloping ground with clouds, some coloured shapes and grain: enough of each that decoding it costs
//! what a photograph costs, and that no two look the same. Only sums, products and roots are used, so that a seed
//! gives the same pictures on every machine.

use std::io;
use std::thread;

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageError};

use crate::decode::Pixels;
use crate::images::Images;
use crate::random::Random;

mod paint;

const WRITERS: usize = 32;
/// How much the compression keeps; what cameras usually do.
const QUALITY: u8 = 85;

/// The name of a picture's file.
pub fn name(index: usize) -> String {
    format!("img-{index:05}.jpg")
}

/// Makes pictures 0 up to `count` in a place; `copies` of each where that is an HDFS. Several are written at a time,
/// because an HDFS lets writers wait.
pub fn write(place: &Images, count: usize, seed: u64, copies: Option<u32>) -> io::Result<()> {
    let write_from = |first: usize| {
        for index in (first..count).step_by(WRITERS) {
            place.write(&name(index), &jpeg(seed, index)?, copies).map_err(io::Error::other)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS.min(count)).map(|first| scope.spawn(move || write_from(first))).collect();
        let join = |writer: thread::ScopedJoinHandle<'_, io::Result<()>>| {
            writer.join().unwrap_or_else(|_| Err(io::Error::other("a picture could not be painted")))
        };
        writers.into_iter().try_for_each(join)
    })
}

/// The file of one picture.
pub fn jpeg(seed: u64, index: usize) -> io::Result<Vec<u8>> {
    let picture = picture(seed, index);
    let mut bytes = Vec::with_capacity(128 * 1024);
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
    let (width, height) = (picture.width as u32, picture.height as u32);
    encoder.encode(&picture.rgb, width, height, ExtendedColorType::Rgb8).map_err(|error| match error {
        ImageError::IoError(error) => error,
        other => io::Error::other(other),
    })?;
    Ok(bytes)
}

/// The pixels of one picture.
pub fn picture(seed: u64, index: usize) -> Pixels {
    let mut random = Random::of_part(seed, index as u64);
    let (width, height) = size(&mut random);
    let rgb = paint::paint(width, height, &mut random);
    Pixels { width, height, rgb }
}

/// Most are 500 x 375, some upright, some of other sizes.
fn size(random: &mut Random) -> (usize, usize) {
    let (long, short) = match random.unit() {
        share if share < 0.6 => (500, 375),
        share if share < 0.8 => (500, 333),
        _ => (random.between(400.0, 640.0) as usize, random.between(300.0, 400.0) as usize),
    };
    match random.unit() < 0.25 {
        true => (short, long),
        false => (long, short),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::decode::decode;

    #[test]
    fn pictures_are_the_same_for_a_seed_and_differ_otherwise() {
        assert_eq!(jpeg(7, 3).unwrap(), jpeg(7, 3).unwrap());
        assert_ne!(jpeg(7, 3).unwrap(), jpeg(7, 4).unwrap());
        assert_ne!(jpeg(7, 3).unwrap(), jpeg(8, 3).unwrap());
    }

    #[test]
    fn pictures_have_the_size_of_photographs() {
        for index in 0..12 {
            let bytes = jpeg(7, index).unwrap();
            assert!((40_000..=140_000).contains(&bytes.len()), "{} bytes", bytes.len());
            let pixels = decode(&bytes).unwrap();
            let (long, short) = (pixels.width.max(pixels.height), pixels.width.min(pixels.height));
            assert!((400..=640).contains(&long) && (300..=400).contains(&short), "{long} x {short}");
        }
    }

    #[test]
    fn decoding_gives_what_was_painted() {
        let painted = picture(7, 0);
        let decoded = decode(&jpeg(7, 0).unwrap()).unwrap();
        let pairs = painted.rgb.iter().zip(&decoded.rgb);
        let off: f64 = pairs.map(|(one, other)| f64::from(one.abs_diff(*other))).sum();
        let mean = off / painted.rgb.len() as f64;
        assert!(mean < 8.0, "{mean}");
    }
}

//! JPEG bytes to pixels.
//!
//! An incomplete image is rejected with a reason: half a photograph would get a label that says nothing about the
//! photograph. No input makes this panic or take more memory than [`MAX_PIXELS`] allow.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// Of one image; three bytes each, and as much again while decoding.
pub const MAX_PIXELS: usize = 100_000_000;
/// The longest edge that the format can name.
const MAX_EDGE: usize = 65_535;

/// Red, green and blue in turn, a row after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pixels {
    pub width: usize,
    pub height: usize,
    pub rgb: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("it is no JPEG: it does not begin with FF D8")]
    NotJpeg,
    #[error("it has {width} x {height} pixels, more than the {MAX_PIXELS} that are taken")]
    TooLarge { width: usize, height: usize },
    #[error("its JPEG is broken or cut off: {0}")]
    Broken(String),
}

/// Grey and CMYK images become RGB.
pub fn decode(bytes: &[u8]) -> Result<Pixels, DecodeError> {
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return Err(DecodeError::NotJpeg);
    }
    if !has_end(bytes) {
        return Err(DecodeError::Broken("its end is missing".to_owned()));
    }
    // The decoder is in safe Rust for the most part, and a file that makes it panic costs that image only.
    catch_unwind(AssertUnwindSafe(|| decode_jpeg(bytes)))
        .unwrap_or_else(|_| Err(DecodeError::Broken("the decoder gave up on it".to_owned())))
}

fn decode_jpeg(bytes: &[u8]) -> Result<Pixels, DecodeError> {
    // Otherwise what is missing would be filled with grey.
    let strict = DecoderOptions::default().set_strict_mode(true);
    let options =
        strict.jpeg_set_out_colorspace(ColorSpace::RGB).set_max_width(MAX_EDGE).set_max_height(MAX_EDGE);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let broken = |error: zune_jpeg::errors::DecodeErrors| DecodeError::Broken(one_line(&error.to_string()));
    decoder.decode_headers().map_err(broken)?;
    let (width, height) =
        decoder.dimensions().ok_or_else(|| DecodeError::Broken("it has no size".to_owned()))?;
    if width * height > MAX_PIXELS {
        return Err(DecodeError::TooLarge { width, height });
    }
    let rgb = decoder.decode().map_err(broken)?;
    if rgb.len() != width * height * 3 || rgb.is_empty() {
        return Err(DecodeError::Broken(format!("{} bytes for {width} x {height} pixels", rgb.len())));
    }
    Ok(Pixels { width, height, rgb })
}

/// True if the marker of an image's end follows the last marker before pixels. The decoder does without it, and makes up
/// missing last rows. Pixels never look like a marker; a preview within the file has
/// both, but before the image.
fn has_end(bytes: &[u8]) -> bool {
    let is = |marker: [u8; 2]| move |pair: &[u8]| pair == marker;
    let end = bytes.windows(2).rposition(is([0xff, 0xd9]));
    end.is_some_and(|end| !bytes[end..].windows(2).any(is([0xff, 0xda])))
}

/// The reason becomes part of a line of results.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

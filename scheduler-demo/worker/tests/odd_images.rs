//! JPEG files that are not as usual. `odd/` was made with Pillow: a gradient with a red box and a blue disc, as RGB,
//! progressive RGB, grey and Adobe's inverted CMYK; the pixels expected here are those that Pillow shows.

#![allow(clippy::unwrap_used)]

use estimand_worker::decode::{DecodeError, Pixels, decode};
use estimand_worker::random::Random;

const PLAIN: &[u8] = include_bytes!("odd/plain.jpg");
const PROGRESSIVE: &[u8] = include_bytes!("odd/progressive.jpg");
const GREY: &[u8] = include_bytes!("odd/grey.jpg");
const CMYK: &[u8] = include_bytes!("odd/cmyk.jpg");

/// Decoders differ by a few steps where colour is stored more coarsely than light.
const TOLERANCE: u8 = 6;

fn check(jpeg: &[u8], expected: [[u8; 3]; 4]) {
    let Pixels { width, height, rgb } = decode(jpeg).unwrap();
    assert_eq!((width, height), (64, 48));
    for ((x, y), expected) in [(2, 45), (20, 20), (46, 26), (62, 2)].into_iter().zip(expected) {
        let got = &rgb[(y * width + x) * 3..][..3];
        let is_near = got.iter().zip(expected).all(|(got, expected)| got.abs_diff(expected) <= TOLERANCE);
        assert!(is_near, "{got:?} instead of {expected:?} at {x}, {y}");
    }
}

#[test]
fn colours_are_those_that_others_see() {
    check(PLAIN, [[6, 226, 94], [248, 32, 17], [26, 58, 237], [249, 10, 129]]);
    check(PROGRESSIVE, [[6, 226, 94], [248, 32, 17], [26, 58, 237], [249, 10, 129]]);
}

#[test]
fn grey_becomes_three_equal_colours() {
    check(GREY, [[145; 3], [95; 3], [69; 3], [95; 3]]);
    let pixels = decode(GREY).unwrap();
    assert!(pixels.rgb.chunks_exact(3).all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2]));
}

#[test]
fn inks_become_colours() {
    check(CMYK, [[8, 225, 94], [250, 30, 20], [20, 60, 240], [248, 10, 128]]);
}

#[test]
fn a_truncated_image_is_rejected_at_any_length() {
    for (what, jpeg) in [("plain", PLAIN), ("progressive", PROGRESSIVE), ("grey", GREY), ("cmyk", CMYK)] {
        for len in 0..jpeg.len() {
            let outcome = decode(&jpeg[..len]);
            assert!(outcome.is_err(), "{len} of {} bytes of {what} were taken for a whole image", jpeg.len());
        }
    }
}

#[test]
fn bytes_after_the_image_are_ignored() {
    let jpeg = [PLAIN, b"\0\0something else"].concat();
    assert_eq!(decode(&jpeg), decode(PLAIN));
    // A preview's end within a file is not the file's end.
    let preview = [&[0xff, 0xe1, 0, 8, 0xff, 0xda, 1, 2, 0xff, 0xd9][..]; 1].concat();
    let jpeg = [&PLAIN[..2], &preview, &PLAIN[2..]].concat();
    assert_eq!(decode(&jpeg), decode(PLAIN));
    assert!(decode(&jpeg[..jpeg.len() - 20]).is_err());
}

#[test]
fn a_file_that_is_no_jpeg_is_rejected() {
    for bytes in [&b""[..], b"\x89PNG\r\n", b"\xff", b"hello"] {
        assert_eq!(decode(bytes), Err(DecodeError::NotJpeg));
    }
}

#[test]
fn an_enormous_image_is_rejected_before_it_takes_memory() {
    let mut jpeg = PLAIN.to_vec();
    let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert_eq!(decode(&jpeg), Err(DecodeError::TooLarge { width: 65_535, height: 65_535 }));
}

#[test]
fn damage_costs_one_image_at_most() {
    let mut random = Random::new(1);
    for jpeg in [PLAIN, PROGRESSIVE, GREY, CMYK] {
        for _ in 0..500 {
            let mut damaged = jpeg.to_vec();
            for _ in 0..1 + random.next() % 4 {
                // Not its size: that it takes long to refuse a large image is no finding.
                let at = random.next() as usize % damaged.len();
                damaged[at] = random.next() as u8;
            }
            if let Ok(Pixels { width, height, rgb }) = decode(&damaged) {
                assert_eq!(rgb.len(), width * height * 3);
            }
        }
    }
}

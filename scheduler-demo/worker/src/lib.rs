//! Classifies images with a network in ONNX form: the work that the scheduler demo partitions over nodes.
//!
//! An image goes through `images` (where its bytes lie), `decode` (JPEG to pixels), `tensor` (resized, cropped,
//! normalised) and `network` (inference), which `classify` puts together; none of these knows what a job is.
//! `work` is the part of a job that one node does; `model` and `pictures` make what can't be downloaded.
//!
//! One thread does the work: a worker stands for one core. Nothing that a single image contains ends a job.

pub mod bench;
pub mod classify;
pub mod decode;
pub mod images;
pub mod model;
pub mod network;
pub mod pictures;
pub mod random;
pub mod tensor;
pub mod work;

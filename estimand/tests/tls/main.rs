//! TLS as operators and attackers meet it: real processes, real certificates, and what must not work.
//!
//! Certificates are made by `estimand pki` itself, but for those that it would not make: expired ones, and those of an
//! authority that nobody knows.
#![allow(clippy::unwrap_used)]

mod plane;

mod apart;
mod certificates;
mod credentials;
mod joining;
mod no_authorities;
mod objections;
mod pages;
mod replacing;
mod wire;

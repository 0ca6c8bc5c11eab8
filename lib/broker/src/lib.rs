//! Brokers of messages that others run: RabbitMQ, where each message is confirmed, and Redis.
//!
//! A connection that failed is not used again; when to open another one is up to the caller. Knows no other crate of
//! Estimand.

pub mod amqp;
mod bounded_replies;
pub mod redis;

/// The properties of a message, and the type of its headers.
pub use lapin::BasicProperties as Properties;

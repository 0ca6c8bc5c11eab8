//! Services as a part of a platform: what happens to tasks is published to a real RabbitMQ, and services are registered with a
//! real Eureka, and values are exported to another plane, whichever of them is killed meanwhile; and proxies stand in front of
//! services.

#![allow(clippy::unwrap_used)]

mod eureka;
mod metrics;
mod paper;
mod proxies;
mod rabbitmq;
mod reader;

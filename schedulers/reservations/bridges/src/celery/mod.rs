//! The starts of reservations as messages for Celery workers.
//!
//! `message` makes the message of a start (pure), `broker` is where it goes, and `publisher` the loop that publishes each when
//! its time has come.
//!
//! A message leaves a mark at the broker, together with itself. Before it is published the mark is looked for: so a start
//! whose outcome is unknown, because this process or the broker was killed, is found out and not published twice.

mod broker;
mod message;
mod publisher;

pub use broker::CeleryBroker;
pub use publisher::publish;

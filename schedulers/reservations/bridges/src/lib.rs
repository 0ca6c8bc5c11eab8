//! Bridges of the reservation service to programs of others: `lines` takes reservations over plain TCP, `celery` publishes
//! their starts for workers of Celery. The service knows neither.

mod celery;
mod lines;

pub use celery::{CeleryBroker, publish as publish_starts};
pub use lines::{Connect, serve as serve_lines};

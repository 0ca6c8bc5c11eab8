//! A part of a process that serves requests: a service, or the access control in front of all of them.

use std::sync::Arc;

use estimand_runtime::Metrics;
use estimand_runtime::metrics::Pieces;

use crate::routes::Routes;

/// Implemented by every service, so that a process needs to know no more of it than how it is started.
pub trait ServedPart: Send + Sync {
    /// The requests that it answers.
    fn routes(&self) -> Routes;

    /// Writes its figures in Prometheus' text form.
    fn write_figures(&self, _text: &mut String) {}

    /// Its figures that are long, in pieces.
    fn long_figures(&self) -> Pieces {
        Box::new(std::iter::empty())
    }
}

/// The routes of all parts, the first ones tried first; none if there are no parts. Their figures become sources of
/// `metrics`.
pub fn serve_parts(parts: Vec<Box<dyn ServedPart>>, metrics: &Metrics) -> Option<Routes> {
    let routes = parts.iter().map(|part| part.routes()).reduce(Routes::merge);
    for part in parts {
        let part: Arc<dyn ServedPart> = Arc::from(part);
        let long = Arc::clone(&part);
        metrics.source(Box::new(move |text| part.write_figures(text)));
        metrics.long_source(Box::new(move || long.long_figures()));
    }
    routes
}

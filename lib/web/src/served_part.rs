//! A part of a process that serves requests: a service, or the access control in front of all of them.

use std::sync::Arc;

use estimand_runtime::Metrics;
use estimand_runtime::metrics::Pieces;

use crate::routes::Routes;
use crate::share_report::{Reporter, ShareReport};
use crate::shares::Users;

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

    /// Says what each user has of the things that it keeps, and the bounds of those and of the live things that it counts.
    fn report_shares(&self, _report: &mut ShareReport) {}
}

/// The routes of all parts, the first ones tried first; none if there are no parts. Their figures become sources of
/// `metrics`, and so do the shares of users.
pub fn serve_parts(parts: Vec<Box<dyn ServedPart>>, users: &Users, metrics: &Metrics) -> Option<Routes> {
    let routes = parts.iter().map(|part| part.routes()).reduce(Routes::merge)?;
    let parts: Arc<[Arc<dyn ServedPart>]> = parts.into_iter().map(Arc::from).collect();
    for part in parts.iter() {
        let short = Arc::clone(part);
        let long = Arc::clone(part);
        metrics.source(Box::new(move |text| short.write_figures(text)));
        metrics.long_source(Box::new(move || long.long_figures()));
    }
    let reporter = Reporter { parts, users: users.clone() };
    let routes = routes.merge(reporter.routes());
    metrics.source(Box::new(move |text| reporter.write_figures(text)));
    Some(routes)
}

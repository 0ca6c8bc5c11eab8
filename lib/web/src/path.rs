//! Names in paths. Names are ASCII that needs no encoding; the router has decoded a name that is encoded all the same.

use actix_web::HttpRequest;
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;

/// The segment `{node}`.
pub fn path_node(req: &HttpRequest) -> Result<NodeName, Problem> {
    NodeName::parse(segment(req, "node")).map_err(|error| Problem::invalid_field(error.at("node")))
}

/// The segment `{dataName}`.
pub fn path_name(req: &HttpRequest) -> Result<DataName, Problem> {
    DataName::parse(segment(req, "dataName")).map_err(|error| Problem::invalid_field(error.at("dataName")))
}

/// Any segment; empty if the route has none of that name.
pub fn segment<'r>(req: &'r HttpRequest, name: &str) -> &'r str {
    req.match_info().get(name).unwrap_or_default()
}

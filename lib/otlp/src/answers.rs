//! The bodies of answers, in the encoding of the request.

use estimand_api::problem::Problem;
use prost::Message as _;
use serde_json::json;

use crate::encoding::Encoding;
use crate::messages::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse, Status};

/// The body of a success; `left_out` are the points that were not taken, and why.
pub fn partial_success(encoding: Encoding, left_out: Option<(u64, String)>) -> Vec<u8> {
    match encoding {
        Encoding::Json => match left_out {
            None => b"{}".to_vec(),
            Some((points, message)) => {
                let partial = json!({"rejectedDataPoints": points.to_string(), "errorMessage": message});
                json!({"partialSuccess": partial}).to_string().into_bytes()
            }
        },
        Encoding::Protobuf => {
            let partial_success = left_out.map(|(points, error_message)| ExportMetricsPartialSuccess {
                rejected_data_points: points.try_into().unwrap_or(i64::MAX),
                error_message,
            });
            ExportMetricsServiceResponse { partial_success }.encode_to_vec()
        }
    }
}

/// The body of a refusal.
pub fn status(encoding: Encoding, problem: &Problem) -> Vec<u8> {
    let (code, message) = (code(problem.status), problem.to_string());
    match encoding {
        Encoding::Json => json!({"code": code, "message": message}).to_string().into_bytes(),
        Encoding::Protobuf => Status { code, message }.encode_to_vec(),
    }
}

/// The points that were left out of an export that was taken, and why, by an answer in protobuf.
pub fn taken(body: &[u8]) -> Option<(i64, String)> {
    let partial = ExportMetricsServiceResponse::decode(body).ok()?.partial_success?;
    let says = partial.rejected_data_points > 0 || !partial.error_message.is_empty();
    says.then_some((partial.rejected_data_points, partial.error_message))
}

/// The reason in an answer in protobuf that refuses an export.
pub fn refused(body: &[u8]) -> Option<String> {
    Status::decode(body).ok().map(|status| status.message).filter(|message| !message.is_empty())
}

/// The code of gRPC that is nearest to a status of HTTP.
fn code(status: u16) -> i32 {
    match status {
        401 => 16,
        403 => 7,
        404 => 5,
        408 => 4,
        409 => 9,
        413 => 8,
        415 => 12,
        503 => 14,
        400..500 => 3,
        _ => 13,
    }
}

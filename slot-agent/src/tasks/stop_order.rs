//! The order to end an attempt, as its folder has it: marks, which a keeper of the version before knows alone, and beside them the
//! order itself if it says more.

use std::io;

use estimand_api::task_stop::StopOrder;
use estimand_runtime::files::write_whole;

use super::folder::AttemptFolder;

/// The mark of an attempt that is to end.
pub const STOP: &str = "stop";
/// The mark of one that is to save its work before that.
pub const CHECKPOINT: &str = "checkpoint";
const ORDER: &str = "stop.json";

/// The order to end; none before there is one.
pub fn read(folder: &AttemptFolder) -> io::Result<Option<StopOrder>> {
    if !folder.has(STOP) {
        return Ok(None);
    }
    let of_marks = || StopOrder { checkpoint: folder.has(CHECKPOINT), ..StopOrder::default() };
    Ok(Some(folder.read(ORDER)?.unwrap_or_else(of_marks)))
}

/// Writes an order, before it is marked that there is one. It may replace another one.
pub fn write(folder: &AttemptFolder, order: &StopOrder, is_first: bool) -> io::Result<()> {
    if !is_first || !order.is_plain() {
        write_whole(&folder.file(ORDER), &serde_json::to_vec(order)?, 0o600)?;
    }
    if is_first && order.checkpoint {
        folder.mark(CHECKPOINT)?;
    }
    Ok(())
}

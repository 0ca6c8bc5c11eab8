//! The room for lines of logs: a user's share of it. The oldest of the user's tasks that are over make room, with their logs;
//! if there are none, the line is dropped.

use std::collections::HashMap;
use std::sync::Arc;

use estimand_api::share::ShareKind;
use estimand_web::Users;

use super::delete::deletion;
use super::room::Leaving;
use crate::change::Change;
use crate::holdings::MAX_LOG_BYTES;
use crate::table::TaskTable;
use crate::task::Task;

pub struct LogRoom<'t> {
    table: &'t TaskTable,
    users: &'t Users,
    by_user: HashMap<String, UserRoom<'t>>,
}

struct UserRoom<'t> {
    /// None: as much as there is.
    limit: Option<u64>,
    used: u64,
    leaving: Leaving<'t>,
}

impl<'t> LogRoom<'t> {
    pub fn new(table: &'t TaskTable, users: &'t Users) -> Self {
        LogRoom { table, users, by_user: HashMap::new() }
    }

    /// Takes so many bytes, if there is room for them.
    pub fn takes(&mut self, user: Option<&str>, bytes: u64) -> bool {
        let Some(user) = user else { return true };
        let table = self.table;
        if !self.by_user.contains_key(user) {
            let limits = self.users.find(user).map(|user| user.limits());
            let limit = limits.map(|limits| limits.limit(ShareKind::Logs, MAX_LOG_BYTES));
            let used = table.holdings.of(Some(user)).map_or(0, |own| own.logs);
            let room = UserRoom { limit, used, leaving: Leaving::new(table) };
            self.by_user.insert(user.to_owned(), room);
        }
        let Some(room) = self.by_user.get_mut(user) else { return true };
        let fits = |gone: u64| room.limit.is_none_or(|limit| room.used + bytes <= limit.saturating_add(gone));
        if !fits(room.leaving.logs)
            && let Some(own) = table.holdings.of(Some(user))
        {
            let has_lines = |task: &Task| task.log.bytes > 0;
            room.leaving.take_those(own, has_lines, |gone| fits(gone.logs));
        }
        let fits = fits(room.leaving.logs);
        room.used += if fits { bytes } else { 0 };
        fits
    }

    /// The change, with the tasks that make room for it.
    pub fn make(self, change: Change) -> Change {
        let leaving = self.by_user.into_values().flat_map(|room| room.leaving.tasks.into_values());
        let leaving: Vec<Arc<Task>> = leaving.collect();
        let Change { deleted, deleted_arrays, .. } = deletion(self.table, leaving, change.at);
        Change { deleted, deleted_arrays, ..change }
    }
}

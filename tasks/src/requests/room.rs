//! The room for new tasks. Those that are over make room, their user's own oldest first; a user's share is filled by nobody
//! else's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use estimand_api::share::ShareKind;
use estimand_api::task_document::TaskDocument;

use super::delete::deletion;
use crate::change::{Change, Rejection};
use crate::core::queue::TaskNumber;
use crate::holdings::{Holding, MAX_BYTES, MAX_TASKS};
use crate::scope::Scope;
use crate::table::TaskTable;
use crate::task::{TASK_BYTES, Task};

/// The tasks of a submission.
pub struct NewTasks<'d> {
    user: Option<&'d str>,
    count: u64,
    bytes: u64,
}

impl<'d> NewTasks<'d> {
    pub fn of(document: &'d TaskDocument) -> Self {
        let count = document.count.map_or(1, u64::from);
        NewTasks { user: document.user.as_deref(), count, bytes: count * TASK_BYTES + document.weight() }
    }
}

/// The change by which tasks that are over make room for new ones.
pub fn room(table: &TaskTable, scope: &Scope, new: &NewTasks<'_>, at: i64) -> Result<Change, Rejection> {
    let nothing = Holding::default();
    let own = table.holdings.of(new.user).unwrap_or(&nothing);
    let share = |kind, used, more, bound| {
        scope.check_share(kind, used, more, bound).map_err(|full| Rejection::Share(Box::new(full)))
    };
    share(ShareKind::Tasks, own.open, new.count, MAX_TASKS as u64)?;
    let limit = scope.limit(ShareKind::Memory, MAX_BYTES).unwrap_or(u64::MAX);
    let mut leaving = Leaving::new(table);
    leaving.take(own, |gone| own.bytes - gone.bytes + new.bytes <= limit);
    share(ShareKind::Memory, own.bytes - leaving.bytes, new.bytes, MAX_BYTES)?;
    let kept = table.len() + usize::try_from(new.count).unwrap_or(usize::MAX);
    let bytes = table.holdings.bytes() + new.bytes;
    let fits = |gone: &Leaving<'_>| kept - gone.tasks.len() <= MAX_TASKS && bytes - gone.bytes <= MAX_BYTES;
    leaving.take(own, fits);
    if !fits(&leaving) {
        table.holdings.largest().into_iter().for_each(|holding| leaving.take(holding, fits));
    }
    match fits(&leaving) {
        true => Ok(deletion(table, leaving.tasks.into_values().collect(), at)),
        false => Err(Rejection::Full { tasks: table.len(), bytes: table.holdings.bytes() }),
    }
}

/// Tasks that are to be deleted, and what they take.
pub struct Leaving<'t> {
    table: &'t TaskTable,
    pub tasks: BTreeMap<TaskNumber, Arc<Task>>,
    of_arrays: HashMap<TaskNumber, u32>,
    bytes: u64,
    pub logs: u64,
}

impl<'t> Leaving<'t> {
    pub fn new(table: &'t TaskTable) -> Self {
        Leaving { table, tasks: BTreeMap::new(), of_arrays: HashMap::new(), bytes: 0, logs: 0 }
    }

    /// Takes the oldest of a user's tasks that are over, until it is enough or none is left.
    pub fn take(&mut self, of: &Holding, is_enough: impl Fn(&Self) -> bool) {
        self.take_those(of, |_| true, is_enough);
    }

    /// The same with some of them only.
    pub fn take_those(
        &mut self,
        of: &Holding,
        are_those: impl Fn(&Task) -> bool,
        is_enough: impl Fn(&Self) -> bool,
    ) {
        let table = self.table;
        for task in of.over().filter_map(|number| table.get(number)).filter(|task| are_those(task)) {
            if is_enough(self) {
                return;
            }
            self.add(task);
        }
    }

    fn add(&mut self, task: &Arc<Task>) {
        if self.tasks.insert(task.number, Arc::clone(task)).is_some() {
            return;
        }
        self.bytes += task.bytes();
        self.logs += task.log.bytes;
        let Some(array) = &task.array else { return };
        let gone = self.of_arrays.entry(array.number).or_default();
        *gone += 1;
        if *gone == self.table.kept_of_array(array.number) {
            self.bytes += array.document.weight();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use estimand_api::share::{LimitChanges, Limits};
    use estimand_web::{Principal, Users};

    use super::*;
    use crate::core::state::{Progress, State};
    use crate::task::{Array, LogEnd};

    fn document(user: &str, count: Option<u32>) -> Arc<TaskDocument> {
        let environment = [("V".to_owned(), "x".repeat(1000))].into();
        Arc::new(TaskDocument { user: Some(user.to_owned()), count, environment, ..TaskDocument::default() })
    }

    fn task(number: u64, document: &Arc<TaskDocument>, state: State) -> Task {
        Task {
            number: TaskNumber(number),
            id: format!("t{number}"),
            key: None,
            array: None,
            document: Arc::clone(document),
            image: None,
            progress: Progress { state, ..Progress::default() },
            why: None,
            log: LogEnd::default(),
            events: 0,
            submitted_at: 0,
            submitted_by: String::new(),
            ended_at: None,
        }
    }

    fn table(tasks: Vec<Task>) -> TaskTable {
        TaskTable::new(&TaskTable::default(), tasks, HashMap::new(), 0)
    }

    fn alice(kind: ShareKind, limit: u64) -> Scope {
        let (users, mut changes, mut limits) = (Users::default(), LimitChanges::default(), Limits::default());
        changes.set(kind, Some(limit));
        limits.change(&changes);
        users.set_limits(HashMap::from([("alice".to_owned(), limits)]));
        Scope::of(&Principal::named("token").of_user(users.find("alice")))
    }

    fn leaving(table: &TaskTable, scope: &Scope, new: &TaskDocument) -> Result<Vec<u64>, u16> {
        match room(table, scope, &NewTasks::of(new), 0) {
            Ok(change) => Ok(change.deleted.iter().map(|task| task.number.0).collect()),
            Err(Rejection::Share(problem)) => Err(problem.status),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_users_own_oldest_make_room_and_nobody_elses() {
        let (hers, his) = (document("alice", None), document("bob", None));
        let each = task(1, &hers, State::Queued).bytes();
        let over = |number, document| task(number, document, State::Succeeded);
        let table =
            table(vec![over(1, &his), over(2, &hers), task(3, &hers, State::Running), over(4, &hers)]);
        let leaves = |limit| leaving(&table, &alice(ShareKind::Memory, limit), &hers);
        assert_eq!(leaves(4 * each), Ok(vec![]));
        assert_eq!(leaves(3 * each), Ok(vec![2]));
        assert_eq!(leaves(2 * each), Ok(vec![2, 4]));
        assert_eq!(leaves(2 * each - 1), Err(409), "one that runs stays");
        assert_eq!(leaving(&table, &Scope::of(&Principal::named("operator")), &hers), Ok(vec![]));
    }

    #[test]
    fn an_array_counts_its_tasks_and_its_document_once() {
        let hers = document("alice", Some(3));
        let array = Arc::new(Array {
            number: TaskNumber(1),
            id: "a".to_owned(),
            key: None,
            document: Arc::clone(&hers),
            image: None,
            size: 3,
        });
        let member = |number, state| Task { array: Some(Arc::clone(&array)), ..task(number, &hers, state) };
        let members = [State::Running, State::Succeeded, State::Queued];
        let table = table((2..).zip(members).map(|(number, state)| member(number, state)).collect());
        let own = table.holdings.of(Some("alice")).unwrap();
        assert_eq!((own.open, own.bytes), (2, 3 * TASK_BYTES + hers.weight()));
        let may = |limit| leaving(&table, &alice(ShareKind::Tasks, limit), &hers);
        assert_eq!((may(5), may(4)), (Ok(vec![]), Err(409)));
    }

    #[test]
    fn nothing_is_left_counted_when_all_is_gone() {
        let hers = document("alice", None);
        let mut table = table(vec![task(1, &hers, State::Succeeded), task(2, &hers, State::Failed)]);
        let gone: Vec<Arc<Task>> = table.all().cloned().collect();
        table.apply(&deletion(&table, gone, 0));
        assert_eq!((table.holdings.bytes(), table.holdings.of(Some("alice")).is_none()), (0, true));
    }
}

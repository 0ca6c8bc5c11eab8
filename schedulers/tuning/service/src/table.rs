//! Studies in memory, with what finds them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use estimand_tuning::TrialNumber;
use estimand_web::Scope;

use crate::change::{Change, Edit};
use crate::study::Study;

#[derive(Debug, Clone, Default)]
pub struct Table {
    studies: BTreeMap<u64, Study>,
    ids: HashMap<String, u64>,
    deleted: BTreeSet<u64>,
    /// Bytes by user; of studies of nobody in particular under the empty name.
    bytes: HashMap<String, u64>,
    /// The highest number that a study ever had.
    pub highest: u64,
}

impl Table {
    pub fn new(studies: Vec<Study>, highest: u64) -> Table {
        let mut table = Table { highest, ..Table::default() };
        studies.into_iter().for_each(|study| table.insert(study));
        table
    }

    /// The number of studies that are seen.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn get(&self, number: u64) -> Option<&Study> {
        self.studies.get(&number)
    }

    /// The study of this id, if a caller sees it.
    pub fn find(&self, scope: &Scope, id: &str) -> Option<&Study> {
        self.of_id(id).filter(|study| scope.has_user(study.definition.user()))
    }

    pub fn of_id(&self, id: &str) -> Option<&Study> {
        self.get(*self.ids.get(id)?)
    }

    /// Studies before a number that are not deleted, the newest first.
    pub fn newest(&self, before: u64) -> impl Iterator<Item = &Study> {
        self.studies.range(..before).rev().map(|(_, study)| study).filter(|study| !study.progress.is_deleted)
    }

    pub fn all(&self) -> impl Iterator<Item = &Study> {
        self.studies.values().filter(|study| !study.progress.is_deleted)
    }

    /// The studies whose trials still go.
    pub fn deleted(&self) -> impl Iterator<Item = &Study> {
        self.deleted.iter().filter_map(|number| self.get(*number))
    }

    pub fn bytes_of(&self, user: Option<&str>) -> u64 {
        self.bytes.get(user.unwrap_or_default()).copied().unwrap_or(0)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.values().sum()
    }

    /// The bytes of each user.
    pub fn usages(&self) -> impl Iterator<Item = (&str, u64)> {
        self.bytes.iter().filter(|(user, _)| !user.is_empty()).map(|(user, bytes)| (user.as_str(), *bytes))
    }

    pub fn apply(&mut self, change: &Change) {
        change.0.iter().for_each(|edit| self.edit(edit));
    }

    fn edit(&mut self, edit: &Edit) {
        let number = edit.study();
        match edit {
            Edit::Made(definition) => {
                self.insert(Study::new(Arc::clone(definition), crate::study::StudyProgress::default()));
            }
            Edit::Study { progress, .. } => {
                if progress.is_deleted {
                    self.forget_id(number);
                    self.deleted.insert(number);
                }
                self.change(number, |study| study.progress = *progress);
            }
            Edit::Asked { trials, .. } => {
                self.change(number, |study| trials.iter().for_each(|trial| study.add(Arc::clone(trial))));
            }
            Edit::Reported { trial, report, at, .. } => {
                self.change(number, |study| study.report(*trial, *report, *at));
            }
            Edit::Stop { trial, .. } => self.change(number, |study| study.stop(*trial)),
            Edit::Ended { trial, progress, at, .. } => {
                self.change(number, |study| study.end(*trial, progress, *at));
            }
            Edit::Cut { from, .. } => self.change(number, |study| study.cut(*from)),
            Edit::Gone(_) => self.remove(number),
        }
    }

    /// Changes a study, and counts its bytes anew.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Study)) {
        let Some(study) = self.studies.get_mut(&number) else { return };
        let before = study.bytes;
        change(study);
        let user = study.definition.user().unwrap_or_default();
        if let Some(bytes) = self.bytes.get_mut(user) {
            *bytes = (*bytes + study.bytes).saturating_sub(before);
        }
    }

    fn insert(&mut self, study: Study) {
        let number = study.definition.number;
        self.highest = self.highest.max(number);
        if study.progress.is_deleted {
            self.deleted.insert(number);
        } else {
            self.ids.insert(study.definition.document.id.clone(), number);
        }
        let user = study.definition.user().unwrap_or_default().to_owned();
        *self.bytes.entry(user).or_default() += study.bytes;
        self.studies.insert(number, study);
    }

    /// Another study may have the id already, if this one is deleted.
    fn forget_id(&mut self, number: u64) {
        let Some(id) = self.studies.get(&number).map(|study| study.definition.document.id.clone()) else {
            return;
        };
        if self.ids.get(&id) == Some(&number) {
            self.ids.remove(&id);
        }
    }

    fn remove(&mut self, number: u64) {
        self.forget_id(number);
        self.deleted.remove(&number);
        let Some(study) = self.studies.remove(&number) else { return };
        let user = study.definition.user().unwrap_or_default();
        if let Some(bytes) = self.bytes.get_mut(user) {
            *bytes -= study.bytes.min(*bytes);
            if *bytes == 0 {
                self.bytes.remove(user);
            }
        }
    }

    /// True if changes that are stored are seen here. Of several states of one study the last one is, and nothing of one that
    /// is no more.
    pub fn has(&self, changes: &[Change]) -> bool {
        let mut judged = BTreeSet::new();
        let mut gone = BTreeSet::new();
        changes.iter().rev().flat_map(|change| change.0.iter().rev()).all(|edit| {
            let study = edit.study();
            match edit {
                Edit::Gone(_) => gone.insert(study) && self.get(study).is_none(),
                _ if gone.contains(&study) => true,
                Edit::Study { .. } if !judged.insert(study) => true,
                _ => self.get(study).is_some_and(|found| has_edit(found, edit)),
            }
        })
    }
}

fn has_edit(study: &Study, edit: &Edit) -> bool {
    let trial = |number: TrialNumber| study.trials.get(number);
    match edit {
        Edit::Made(_) => true,
        Edit::Study { progress, .. } => study.progress == *progress,
        Edit::Asked { trials, .. } => trials.iter().all(|one| {
            trial(one.number).is_some_and(|stored| stored.key == one.key && stored.asked_at == one.asked_at)
        }),
        Edit::Reported { trial: number, report, .. } => {
            trial(*number).is_some_and(|stored| stored.curve.reports().contains(report))
        }
        Edit::Stop { trial: number, .. } => trial(*number).is_some_and(|stored| stored.progress.stop),
        Edit::Ended { trial: number, progress, .. } => {
            trial(*number).is_some_and(|stored| stored.progress == *progress)
        }
        Edit::Cut { from, .. } => study.trials.next() <= *from,
        Edit::Gone(_) => false,
    }
}

//! Studies of tuning: the part of the client for those who look for good parameters, and for trials.

use bytes::Bytes;
use reqwest::Method;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Answer, Client, Error, PageQuery, Repeat};
use estimand_api::study::{
    ReportAnswer, StudyImportance, StudyPage, StudyRecord, TrialEnd, TrialPage, TrialQuestion, TrialRecord,
    TrialReport, TrialsAsked,
};

/// A selection of the trials of a study.
#[derive(Debug, Clone, Default)]
pub struct TrialQuery {
    /// With commas between several; all if empty.
    pub states: String,
    /// Trials with higher numbers than this.
    pub after: Option<u64>,
    pub limit: Option<u32>,
}

impl Client {
    /// Makes a study. One with the same id and document is the same study.
    pub async fn create_study(&self, document: &Map<String, Value>) -> Result<StudyRecord, Error> {
        self.read(&self.post_to_study(&[], Some(document)).await?)
    }

    /// A page of studies, the newest first.
    pub async fn studies(&self, query: &PageQuery) -> Result<StudyPage, Error> {
        self.read(&self.get(query.url(self, &["api", "studies"])).await?)
    }

    pub async fn study(&self, id: &str) -> Result<StudyRecord, Error> {
        self.read_of_study(&[id]).await
    }

    /// Lets a study propose nothing until it is resumed.
    pub async fn pause_study(&self, id: &str) -> Result<StudyRecord, Error> {
        self.read(&self.post_to_study::<()>(&[id, "pause"], None).await?)
    }

    pub async fn resume_study(&self, id: &str) -> Result<StudyRecord, Error> {
        self.read(&self.post_to_study::<()>(&[id, "resume"], None).await?)
    }

    /// Ends a study; its trials stay.
    pub async fn stop_study(&self, id: &str) -> Result<StudyRecord, Error> {
        self.read(&self.post_to_study::<()>(&[id, "stop"], None).await?)
    }

    /// Forgets a study, with all its trials.
    pub async fn delete_study(&self, id: &str) -> Result<(), Error> {
        let url = self.url(&["api", "studies", id], &[]);
        self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await.map(drop)
    }

    /// A page of the trials of a study, by ascending number.
    pub async fn trials(&self, id: &str, query: &TrialQuery) -> Result<TrialPage, Error> {
        let (after, limit) =
            (query.after.map(|after| after.to_string()), query.limit.map(|limit| limit.to_string()));
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        pairs.extend(Some(("state", query.states.as_str())).filter(|(_, states)| !states.is_empty()));
        pairs.extend(after.as_deref().map(|after| ("after", after)));
        pairs.extend(limit.as_deref().map(|limit| ("limit", limit)));
        self.read(&self.get(self.url(&["api", "studies", id, "trials"], &pairs)).await?)
    }

    /// A trial with its reports.
    pub async fn trial(&self, id: &str, number: u64) -> Result<TrialRecord, Error> {
        self.read_of_study(&[id, "trials", &number.to_string()]).await
    }

    /// Asks for trials. Asked again with the same key they are the same trials, so it is asked until there is an answer.
    pub async fn ask_trials(&self, id: &str, count: u64, key: &str) -> Result<TrialsAsked, Error> {
        let url = self.url(&["api", "studies", id, "ask"], &[]);
        self.read(&self.post_keyed(url, &TrialQuestion { count }, key).await?)
    }

    /// Reports a value of a trial on its way. The same report again is answered alike.
    pub async fn report_trial(
        &self,
        id: &str,
        number: u64,
        report: &TrialReport,
    ) -> Result<ReportAnswer, Error> {
        let path = [id, "trials", &number.to_string(), "report"];
        self.read(&self.post_to_study(&path, Some(report)).await?)
    }

    /// Tells the one result of a trial. The same result again changes nothing.
    pub async fn tell_trial(&self, id: &str, number: u64, end: &TrialEnd) -> Result<TrialRecord, Error> {
        let path = [id, "trials", &number.to_string(), "tell"];
        self.read(&self.post_to_study(&path, Some(end)).await?)
    }

    /// The best trial of a study with its reports; a problem with status 404 while none is complete.
    pub async fn best_trial(&self, id: &str) -> Result<TrialRecord, Error> {
        self.read_of_study(&[id, "best"]).await
    }

    /// The importance of each parameter of a study.
    pub async fn study_importance(&self, id: &str) -> Result<StudyImportance, Error> {
        self.read_of_study(&[id, "importance"]).await
    }

    async fn read_of_study<T: serde::de::DeserializeOwned>(&self, rest: &[&str]) -> Result<T, Error> {
        let path = [&["api", "studies"], rest].concat();
        self.read(&self.get(self.url(&path, &[])).await?)
    }

    /// Posts what may be posted twice.
    async fn post_to_study<B: Serialize>(&self, rest: &[&str], body: Option<&B>) -> Result<Answer, Error> {
        let path = [&["api", "studies"], rest].concat();
        let body = body.map(|body| Bytes::from(serde_json::to_vec(body).unwrap_or_default()));
        self.send(Method::POST, self.url(&path, &[]), body, Repeat::Safe).await
    }
}

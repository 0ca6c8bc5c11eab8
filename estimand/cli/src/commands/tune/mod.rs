//! `tune`: studies, and the trials of workers that are programs of their own.

mod document;

use estimand_api::study::{StudyRecord, TrialEnd, TrialParameters, TrialRecord, TrialReport};
use estimand_client::{PageQuery, TrialQuery};

use super::{Session, new_key};
use crate::arguments::tune::{
    AskArgs, CreateStudyArgs, ListStudiesArgs, ReportArgs, SomeStudiesArgs, StudyArgs, TellArgs, TrialsArgs,
    TuneAction, TuneArgs,
};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

/// Studies that are listed if nothing is said.
const LISTED: u32 = 50;

pub async fn tune(session: &mut Session, args: &TuneArgs) -> Result<(), Failure> {
    match &args.action {
        Some(TuneAction::Create(args)) => create(session, &args.own).await,
        Some(TuneAction::List(args)) => list(session, &args.own).await,
        Some(TuneAction::Show(args)) => show(session, &args.own).await,
        Some(TuneAction::Trials(args)) => trials(session, &args.own).await,
        Some(TuneAction::Best(args)) => best(session, &args.own).await,
        Some(TuneAction::Importance(args)) => importance(session, &args.own).await,
        Some(TuneAction::Ask(args)) => ask(session, &args.own).await,
        Some(TuneAction::Report(args)) => report(session, &args.own).await,
        Some(TuneAction::Tell(args)) => tell(session, &args.own).await,
        Some(TuneAction::Pause(args)) => change(session, &args.own, Change::Pause).await,
        Some(TuneAction::Resume(args)) => change(session, &args.own, Change::Resume).await,
        Some(TuneAction::Stop(args)) => change(session, &args.own, Change::Stop).await,
        Some(TuneAction::Delete(args)) => delete(session, &args.own).await,
        None => {
            let all = ListStudiesArgs { state: String::new(), user: None, limit: LISTED };
            list(session, &all).await
        }
    }
}

async fn create(session: &mut Session, args: &CreateStudyArgs) -> Result<(), Failure> {
    let study = session.client.create_study(&document::of(args)?).await?;
    if session.out.json {
        return Ok(session.out.pretty(&study)?);
    }
    Ok(session.out.line(&format!("study `{}` is {}, with seed {}", study.id, study.state, study.seed))?)
}

async fn list(session: &mut Session, args: &ListStudiesArgs) -> Result<(), Failure> {
    let query = PageQuery {
        states: args.state.clone(),
        user: args.user.clone(),
        before: None,
        limit: Some(args.limit),
    };
    let page = session.client.studies(&query).await?;
    if session.out.json {
        return Ok(session.out.pretty(&page)?);
    }
    if page.studies.is_empty() {
        remark("there are no such studies; `estimand tune create` makes one");
        return Ok(());
    }
    let mut table = Table::new(["STUDY", "STATE", "USER", "TRIALS", "BEST"], 0);
    for study in &page.studies {
        table.row([
            Cell::from(&study.id),
            Cell::from(state(study)),
            Cell::from(study.user.as_deref().unwrap_or("-")),
            Cell::from(study.trials.all().to_string()),
            Cell::from(study.best.map_or_else(|| "-".to_owned(), |best| best.value.to_string())),
        ]);
    }
    session.out.table(&table)?;
    if page.next.is_some() {
        session.out.flush()?;
        remark("there are older ones: --limit shows more");
    }
    Ok(())
}

/// The state of a study, with the reason why it is over.
fn state(study: &StudyRecord) -> String {
    match &study.reason {
        Some(reason) => format!("{} ({reason})", study.state),
        None => study.state.clone(),
    }
}

async fn show(session: &mut Session, args: &StudyArgs) -> Result<(), Failure> {
    let study = session.client.study(&args.study).await?;
    let out = &mut session.out;
    if out.json {
        return Ok(out.pretty(&study)?);
    }
    out.line(&study.id)?;
    let counts = study.trials;
    let trials = format!(
        "{} complete, {} running, {} pruned, {} failed",
        counts.complete, counts.running, counts.pruned, counts.failed
    );
    let mut facts = vec![("state", state(&study)), ("trials", trials)];
    facts.extend(study.best.map(|best| ("best", format!("{} by trial {}", best.value, best.number))));
    facts.extend(study.user.clone().map(|user| ("user", user)));
    facts.push(("seed", study.seed.to_string()));
    facts.push(("made", words::instant(study.made_at)));
    facts.push(("by", study.made_by.clone()));
    facts.extend(study.ended_at.map(|at| ("over since", words::instant(at))));
    let rest = study.document.iter().filter(|(name, _)| !["id", "seed", "user"].contains(&name.as_str()));
    facts.extend(rest.map(|(name, value)| (name.as_str(), words::bare(value))));
    let facts: Vec<(String, Cell)> =
        facts.into_iter().map(|(name, text)| (name.to_owned(), Cell::from(text))).collect();
    Ok(out.facts(&facts)?)
}

async fn trials(session: &mut Session, args: &TrialsArgs) -> Result<(), Failure> {
    let query = TrialQuery { states: args.state.clone(), after: args.after, limit: Some(args.limit) };
    let page = session.client.trials(&args.study, &query).await?;
    if session.out.json {
        return Ok(session.out.pretty(&page)?);
    }
    if page.trials.is_empty() {
        remark("there are no such trials");
        return Ok(());
    }
    let mut table = Table::new(["TRIAL", "STATE", "VALUE", "PARAMETERS"], 3);
    for trial in &page.trials {
        table.row([
            Cell::from(trial.number.to_string()),
            trial_state(trial),
            Cell::from(trial.value.map_or_else(|| "-".to_owned(), |value| value.to_string())),
            Cell::from(named(&trial.parameters)),
        ]);
    }
    session.out.table(&table)?;
    if let Some(next) = page.next {
        session.out.flush()?;
        remark(&format!("there are more: --after {next} goes on"));
    }
    Ok(())
}

fn trial_state(trial: &TrialRecord) -> Cell {
    match trial.state.as_str() {
        "FAILED" => Cell::toned("FAILED", Tone::Bad),
        state => Cell::from(state),
    }
}

/// Parameters as people read them, such as `layers=2 lr=0.01`.
fn named(parameters: &TrialParameters) -> String {
    let each = parameters.iter().map(|(name, value)| format!("{name}={}", words::bare(value)));
    each.collect::<Vec<_>>().join(" ")
}

async fn best(session: &mut Session, args: &StudyArgs) -> Result<(), Failure> {
    let trial = session.client.best_trial(&args.study).await?;
    if session.out.json {
        return Ok(session.out.pretty(&trial)?);
    }
    let value = trial.value.map_or_else(String::new, |value| format!(" {value}"));
    session.out.line(&format!("trial {}:{value}", trial.number))?;
    let facts: Vec<(String, Cell)> =
        trial.parameters.iter().map(|(name, value)| (name.clone(), Cell::from(words::bare(value)))).collect();
    Ok(session.out.facts(&facts)?)
}

async fn importance(session: &mut Session, args: &StudyArgs) -> Result<(), Failure> {
    let importance = session.client.study_importance(&args.study).await?;
    if session.out.json {
        return Ok(session.out.pretty(&importance)?);
    }
    if importance.parameters.is_empty() {
        remark(&format!(
            "{} say nothing about that yet: they are too few, or do not differ",
            words::count_u64(importance.results, "result")
        ));
        return Ok(());
    }
    let mut table = Table::new(["PARAMETER", "IMPORTANCE"], 0);
    for parameter in &importance.parameters {
        table.row([Cell::from(&parameter.name), Cell::from(format!("{:.1}%", 100.0 * parameter.importance))]);
    }
    Ok(session.out.table(&table)?)
}

async fn ask(session: &mut Session, args: &AskArgs) -> Result<(), Failure> {
    let key = match &args.key {
        Some(key) => key.clone(),
        None => new_key()?,
    };
    let asked = session.client.ask_trials(&args.study, args.count, &key).await?;
    if session.out.json {
        session.out.pretty(&asked)?;
    } else {
        for trial in &asked.trials {
            session.out.line(&options(trial))?;
        }
    }
    match asked.trials.is_empty() {
        false => Ok(()),
        true => {
            let why = if asked.done { "has no more trials" } else { "is paused: `estimand tune resume`" };
            Err(Failure::Missing(format!("study `{}` {why}", args.study)))
        }
    }
}

/// A trial as a shell takes it: its number, and its parameters as options of a program.
fn options(trial: &TrialRecord) -> String {
    let mut line = trial.number.to_string();
    for (name, value) in &trial.parameters {
        line += &format!(" --{name}={}", words::bare(value));
    }
    line
}

async fn report(session: &mut Session, args: &ReportArgs) -> Result<(), Failure> {
    let report = TrialReport { step: args.step, value: args.value };
    let answer = session.client.report_trial(&args.study, args.trial, &report).await?;
    if session.out.json {
        return Ok(session.out.pretty(&answer)?);
    }
    Ok(session.out.line(if answer.stop { "stop" } else { "go on" })?)
}

async fn tell(session: &mut Session, args: &TellArgs) -> Result<(), Failure> {
    let end =
        TrialEnd { value: args.value, pruned: args.pruned.then_some(true), failed: args.failed.clone() };
    let trial = session.client.tell_trial(&args.study, args.trial, &end).await?;
    if session.out.json {
        return Ok(session.out.pretty(&trial)?);
    }
    Ok(session.out.line(&format!("trial {} of `{}` is {}", trial.number, args.study, trial.state))?)
}

#[derive(Clone, Copy)]
enum Change {
    Pause,
    Resume,
    Stop,
}

async fn change(session: &mut Session, args: &SomeStudiesArgs, change: Change) -> Result<(), Failure> {
    for id in &args.studies {
        let study = match change {
            Change::Pause => session.client.pause_study(id).await?,
            Change::Resume => session.client.resume_study(id).await?,
            Change::Stop => session.client.stop_study(id).await?,
        };
        match session.out.json {
            true => session.out.pretty(&study)?,
            false => session.out.line(&format!("study `{id}` is {}", state(&study)))?,
        }
    }
    Ok(())
}

async fn delete(session: &mut Session, args: &SomeStudiesArgs) -> Result<(), Failure> {
    for id in &args.studies {
        session.client.delete_study(id).await?;
        if !session.out.json {
            session.out.line(&format!("study `{id}` is deleted"))?;
        }
    }
    Ok(())
}

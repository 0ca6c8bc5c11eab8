//! The experiment: one scheduler, which is never restarted and does not know the estimators, runs one job after another
//! while the estimate is swapped under it.
//!
//! Before each job there is one `bind`, and nothing else differs. Side effects are kept out of the figures: nodes are
//! not slowed while their workers load the network, and each job waits for an estimate made after the job before.

use std::path::{Path, PathBuf};

use chrono::Utc;
use estimand_api::command::Command;
use estimand_client::Client;
use estimand_scheduler_demo::dispatch::AgentDispatcher;
use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::job::{Job, JobNames};
use estimand_scheduler_demo::job_plan::{JobPlan, Options as Planning, PolicyKind};
use estimand_scheduler_demo::plan::DynamicSettings;
use estimand_scheduler_demo::results::merge_folder;
use estimand_scheduler_demo::run::{self, Options as Running, Run, RunProgress, WorkerState};
use serde_json::{Value, json};

use crate::brake::{Brakes, NodeSpeed};
use crate::output::Output;
use crate::plane::{CAPABILITY, Estimate, MISJUDGED, Plane};
use crate::{Act, Error};

/// The node that becomes slower under way.
const SLOWED: &str = "node-1";
/// A worker reports up to eight images at a time, and gets a new part meanwhile.
const DYNAMIC: DynamicSettings = DynamicSettings { min_chunk: 4, ahead_seconds: 1.0, smoothing: 0.4 };

/// The settings that all jobs share.
pub struct WorkSetup {
    pub client: Client,
    pub worker: PathBuf,
    pub model: PathBuf,
    /// A folder, or a URL of HDFS.
    pub images: String,
    /// For results.
    pub out: PathBuf,
    /// The workers' logs, with `{node}` for the node.
    pub log: String,
    /// The throttle of workers, if no control group slows them.
    pub throttle: Option<String>,
}

/// One run of the story.
struct Scene {
    job: &'static str,
    title: &'static str,
    heading: String,
    estimate: Estimate,
    policy: PolicyKind,
    /// The number of images after which a node becomes slower.
    slowed_after: Option<u64>,
}

pub struct Story<'a> {
    pub work: &'a WorkSetup,
    pub plane: &'a Plane,
    pub brakes: &'a mut Brakes,
    pub output: &'a mut Output,
}

impl Story<'_> {
    /// Plays what is asked for; the runs in their order, and how many of them are the figure's.
    pub async fn play(&mut self, act: Act) -> Result<(Vec<Run>, usize), Error> {
        self.plane.wait_for_first_values().await?;
        let mut scenes = vec![Scene {
            job: "by_configuration",
            title: "Processor configuration",
            heading: "by what processors the nodes have, which look the same".to_owned(),
            estimate: Estimate::Configuration,
            policy: PolicyKind::Static,
            slowed_after: None,
        }];
        if act != Act::Change {
            scenes.push(Scene {
                job: "by_load",
                title: "CPU load",
                heading: "by how much of its processor time each node has free".to_owned(),
                estimate: Estimate::Load,
                ..scenes[0].again()
            });
            scenes.push(Scene {
                job: "by_history",
                title: "History",
                heading: "by how fast each node was the last time".to_owned(),
                estimate: Estimate::History,
                ..scenes[0].again()
            });
        }
        let mut runs: Vec<Run> = Vec::new();
        for scene in &scenes {
            if scene.estimate == Estimate::Load {
                self.plane.wait_for_load_after(Utc::now()).await?;
            }
            runs.push(self.run(scene, runs.len()).await?);
            self.plane.wait_for_history_of(scene.job).await?;
        }
        let of_figure = runs.len();
        if act != Act::Figure8 {
            self.change(&mut runs).await?;
        }
        Ok((runs, of_figure))
    }

    /// The second act: an estimate that is wrong, and a node that becomes slower under way.
    async fn change(&mut self, runs: &mut Vec<Run>) -> Result<(), Error> {
        let images = runs.first().map_or(0, |run| run.items);
        let half = images / 2;
        let (wrong, percent) = (MISJUDGED.0, (MISJUDGED.1 - 1.0) * 100.0);
        let about = format!(
            "by history, but {percent:.0} % too much for {wrong}; after {half} images {SLOWED} becomes three times slower"
        );
        for (job, title, policy) in [
            ("static_changed", "Static, a node slowed", PolicyKind::Static),
            ("dynamic_changed", "Dynamic, a node slowed", PolicyKind::Dynamic),
        ] {
            let heading = format!("{policy}: {about}");
            let slowed_after = Some(half);
            let scene = Scene { job, title, heading, estimate: Estimate::Mistaken, policy, slowed_after };
            runs.push(self.run(&scene, runs.len()).await?);
        }
        Ok(())
    }

    async fn run(&mut self, scene: &Scene, number: usize) -> Result<Run, Error> {
        let letter = char::from(b'a' + u8::try_from(number).unwrap_or(25).min(25));
        self.output.line(&format!("\n({letter}) {}", scene.heading));
        self.output.line(&format!("    estimand bind {CAPABILITY} {}", scene.estimate.name()));
        self.plane.bind(CAPABILITY, scene.estimate.name()).await?;
        // The scheduler cannot see from here on which estimate it is.
        let known = facts::read(&self.work.client, &Names::new(None, None, None)?).await?;
        let planning = Planning { policy: scene.policy, settings: DYNAMIC, ..Planning::default() };
        let job_plan = JobPlan::new(known, planning)?;
        self.output.line(&plan_line(&job_plan));
        let job = self.work.job(scene)?;
        let mut agents =
            AgentDispatcher::new(self.work.client.clone(), format!("{}-{}", scene.job, std::process::id()));
        let mut watch =
            SlowdownWatch { brakes: self.brakes, slow_after: scene.slowed_after, slowed: None, failed: None };
        watch.free(job_plan.problem.nodes().iter().map(|node| node.name.as_str()));
        let output = &mut *self.output;
        let look = |now: &RunProgress| {
            watch.look(now);
            output.progress(now);
        };
        let options = Running::new(scene.title);
        let ran = run::run(&job, &job_plan, &mut agents, &options, std::future::pending(), look).await;
        self.output.end_progress();
        let slowed = watch.end()?;
        let mut run = ran?;
        if let Some(at) = slowed {
            run.changed(at, SLOWED, "it has a third of its processor time from here on");
        }
        run.add_results(&merge_folder(&self.work.out, scene.job)?);
        if let Some(over) = run.over_ideal() {
            let (makespan, ideal) = (run.makespan, run.ideal.unwrap_or_default());
            self.output.line(&format!("    {makespan:.1} s, {over:.2} of the ideal {ideal:.1} s"));
        }
        Ok(run)
    }
}

impl Scene {
    /// The same, for what differs from it in little.
    fn again(&self) -> Scene {
        Scene { heading: self.heading.clone(), ..*self }
    }
}

impl WorkSetup {
    fn job(&self, scene: &Scene) -> Result<Job, Error> {
        let command =
            Command::words(vec![self.worker.display().to_string(), "work".to_owned()]).map_err(|wrong| {
                Error::TimedOut { what: "a command for the worker".to_owned(), last: wrong.to_string() }
            })?;
        let mut job = Job::new(JobNames::new(scene.job)?, command);
        let mut put = |name: &str, value: Value| drop(job.params.insert(name.to_owned(), value));
        put("model", json!(self.model));
        put("images", json!(self.images));
        put("out", json!(self.out));
        if let Some(throttle) = &self.throttle {
            put("throttle", json!(throttle));
        }
        // A run with a change under way teaches nothing about the next one.
        if scene.slowed_after.is_none() {
            put("log", json!(self.log));
        }
        Ok(job)
    }
}

fn plan_line(job_plan: &JobPlan) -> String {
    let nodes = job_plan.problem.nodes().iter().zip(&job_plan.plan.parts);
    let each: Vec<String> = nodes.map(|(node, part)| format!("{} {}", node.name, part.target)).collect();
    format!("    images: {} ({} move)", each.join(", "), job_plan.plan.moved())
}

/// Slows nodes as a run goes on.
struct SlowdownWatch<'a> {
    brakes: &'a mut Brakes,
    slow_after: Option<u64>,
    /// When it was done.
    slowed: Option<f64>,
    failed: Option<std::io::Error>,
}

impl SlowdownWatch<'_> {
    /// Lets all nodes load their networks as fast as the machine can.
    fn free<'n>(&mut self, nodes: impl Iterator<Item = &'n str>) {
        for node in nodes {
            self.shift(node, NodeSpeed::Free);
        }
    }

    fn look(&mut self, now: &RunProgress) {
        if self.slowed.is_none()
            && let (Some(images), Some(seconds)) = (self.slow_after, now.seconds)
            && now.done as u64 >= images
        {
            self.slowed = Some(seconds);
        }
        for node in &now.nodes {
            let is_slowed = node.name == SLOWED && self.slowed.is_some();
            let is_loading = node.state == WorkerState::Starting && now.seconds.is_none();
            let speed = match (is_slowed, is_loading) {
                (true, _) => NodeSpeed::Third,
                (false, true) => NodeSpeed::Free,
                (false, false) => NodeSpeed::Own,
            };
            self.shift(&node.name, speed);
        }
    }

    fn shift(&mut self, node: &str, speed: NodeSpeed) {
        if let Err(error) = self.brakes.shift(node, speed) {
            self.failed.get_or_insert(error);
        }
    }

    /// All nodes are as fast as they are; when one was slowed, if it was.
    fn end(mut self) -> Result<Option<f64>, Error> {
        self.slow_after = None;
        for node in crate::nodes::names() {
            self.shift(node, NodeSpeed::Own);
        }
        match self.failed {
            Some(error) => Err(Error::file(Path::new("the limit of a node"), error)),
            None => Ok(self.slowed),
        }
    }
}

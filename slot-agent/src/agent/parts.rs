//! The parts of an agent that run side by side, each supervised.

use std::sync::Arc;

use estimand_client as client;
use estimand_runtime::Stop;
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};

use super::Agent;
use crate::deliver::Outbox;
use crate::derive;
use crate::link::{Link, SlotCommand};
use crate::service_client::ServiceClient;
use crate::slots::{HandReport, Slots};
use crate::tasks;
use crate::uploads::Uploads;

impl Agent {
    /// The locks below say that one run of a task at a time owns what is in them; nobody else takes them.
    pub(super) fn spawn_slots(&self, slots: Slots, inbox: mpsc::Receiver<SlotCommand>) {
        let owned = Arc::new(AsyncMutex::new((slots, inbox)));
        self.slots.spawn("agent-slots", move |stop| {
            let owned = Arc::clone(&owned);
            async move {
                let (slots, inbox) = &mut *owned.lock().await;
                slots.run(inbox, &stop).await;
            }
        });
    }

    /// It ends after the slots, which wait until nothing of theirs is computed any more.
    pub(super) fn spawn_derive(&self, task: derive::Task) {
        let owned = Arc::new(AsyncMutex::new(task));
        self.derive.spawn("agent-derive", move |stop| {
            let owned = Arc::clone(&owned);
            async move { owned.lock().await.run(&stop).await }
        });
    }

    pub(super) fn spawn_outbox(
        &self,
        outbox: Arc<Outbox>,
        server: watch::Receiver<String>,
        options: client::Options,
    ) {
        let service = Arc::new(ServiceClient::new(options));
        self.outbox.spawn("agent-outbox", move |stop| {
            let (outbox, server, service) = (Arc::clone(&outbox), server.clone(), Arc::clone(&service));
            let client = move || service.at(&server.borrow().clone());
            async move { outbox.run(client, &stop).await }
        });
    }

    /// The tasks of the node go on when these end.
    pub(super) fn spawn_tasks(&self, running: &Arc<tasks::Tasks>, options: &client::Options) {
        let running_here = Arc::clone(running);
        let tasks = self.talk.clone();
        self.talk.spawn("agent-tasks", move |stop| {
            let driver = tasks.driver("agent-tasks", "looking after the tasks here");
            let running = Arc::clone(&running_here);
            async move { running.keep(driver, &stop).await }
        });
        let running_here = Arc::clone(running);
        let tasks = self.talk.clone();
        // A report says how long ago each step was: it is gathered anew for each attempt to send it.
        let options = client::Options { attempts: 1, ..options.clone() };
        self.talk.spawn("agent-task-news", move |stop| {
            let driver = tasks.driver("agent-task-news", "telling the task service of the tasks here");
            let (running, service) = (Arc::clone(&running_here), ServiceClient::new(options.clone()));
            async move { running.tell(|address| service.at(address), driver, &stop).await }
        });
        if running.runs_containers() {
            let (running_here, tasks) = (Arc::clone(running), self.talk.clone());
            self.talk.spawn("agent-leftovers", move |stop| {
                let driver = tasks.driver("agent-leftovers", "removing containers that are left over");
                let running = Arc::clone(&running_here);
                async move { running.clear_leftovers(driver, &stop).await }
            });
        }
        let running = Arc::clone(running);
        self.talk.spawn("agent-keepers", move |stop| {
            let running = Arc::clone(&running);
            async move { running.listen(&stop).await }
        });
    }

    pub(super) fn spawn_tunnels(&self, running: &Arc<tasks::Tasks>, options: &client::Options) {
        let (running, tasks, options) = (Arc::clone(running), self.talk.clone(), options.clone());
        self.talk.spawn("agent-tunnels", move |stop| {
            let driver = tasks.driver("agent-tunnels", "making connections to the tasks here");
            let (running, service) = (Arc::clone(&running), ServiceClient::new(options.clone()));
            async move { running.tunnel(|address| service.at(address), driver, &stop).await }
        });
    }

    pub(super) fn spawn_carrying(&self, running: &Arc<tasks::Tasks>, options: &client::Options) {
        let (running, tasks, options) = (Arc::clone(running), self.talk.clone(), options.clone());
        self.talk.spawn("agent-task-files", move |stop| {
            let driver = tasks.driver("agent-task-files", "carrying the files of the tasks here");
            let running = Arc::clone(&running);
            let service = |options: &client::Options| -> tasks::ClientAt {
                let service = ServiceClient::new(options.clone());
                Arc::new(move |address| service.at(address))
            };
            let (task_service, file_service) = (service(&options), service(&options));
            async move { running.carry(task_service, file_service, driver, &stop).await }
        });
    }

    pub(super) fn spawn_talk(&self, revision: u64, reported: mpsc::Receiver<HandReport>) {
        let (link, tasks) = (Arc::clone(&self.link), self.talk.clone());
        self.talk.spawn("agent-follow", move |stop| {
            let driver = tasks.driver("agent-follow", "asking the manager for the desired state");
            let link = Arc::clone(&link);
            async move { link.follow(revision, driver, &stop).await }
        });
        let (link, tasks) = (Arc::clone(&self.link), self.talk.clone());
        self.talk.spawn("agent-heartbeat", move |stop| {
            let driver = tasks.driver("agent-heartbeat", "sending heartbeats to the manager");
            let link = Arc::clone(&link);
            async move { link.beat(driver, &stop).await }
        });
        let (link, reported) = (Arc::clone(&self.link), Arc::new(AsyncMutex::new(reported)));
        self.talk.spawn("agent-reports", move |stop| {
            let (link, reported) = (Arc::clone(&link), Arc::clone(&reported));
            async move { report(&link, &mut *reported.lock().await, &stop).await }
        });
    }

    pub(super) fn spawn_uploads(&self, uploads: Arc<Uploads>) {
        let tasks = self.talk.clone();
        self.talk.spawn("agent-uploads", move |stop| {
            let driver = tasks.driver("agent-uploads", "fetching uploaded files");
            let uploads = Arc::clone(&uploads);
            async move { uploads.run(driver, &stop).await }
        });
    }
}

/// Tells the manager the outcomes of runs by hand. A client that waits for one gives up after a while, so one attempt is
/// enough.
async fn report(link: &Link, reported: &mut mpsc::Receiver<HandReport>, stop: &Stop) {
    loop {
        let (id, outcome) = tokio::select! {
            () = stop.requested() => return,
            next = reported.recv() => match next {
                Some(report) => report,
                None => return,
            },
        };
        if let Err(error) = link.servers.current().report_run(&link.node, id, &outcome).await {
            tracing::warn!(%error, id, "what a run by hand came to was not taken");
        }
    }
}

//! The client commands: each asks the service over the REST interface and shows the answer.
//!
//! Results go to standard output and remarks to standard error. An empty result is a sentence and no failure, unless
//! one thing was asked for by its name.

use std::fs::File;
use std::io::{self, Read as _};

use estimand_client::{Client, Credentials, Error, Options};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::arguments::{ClientCommand, Remote, Remotely};
use crate::credentials;
use crate::output::failure::Failure;
use crate::output::{Output, aside};

mod absence;
mod access;
mod apply;
mod bindings;
mod capacity;
mod changes;
mod compare;
mod differences;
mod doctor;
mod edit;
mod files;
mod first_run;
mod history;
mod images;
mod instances;
mod list;
mod logs;
mod nodes;
mod register;
mod registration_input;
mod registration_local;
mod reservations;
mod run;
mod shortage;
mod show;
mod tasks;
mod top;
mod tune;
mod unregister;
mod users;
mod values;
mod watch;

pub use doctor::SERVICES;

/// The most that is read from a file or from standard input.
const MAX_INPUT_BYTES: u64 = 8 << 20;

/// The state of a command: the client that it asks, and the output that it writes.
pub struct Session {
    pub client: Client,
    /// The services with the credentials that each is shown.
    services: Vec<(String, Credentials)>,
    pub out: Output,
}

impl Session {
    pub fn open(remote: &Remote) -> Result<Self, Failure> {
        let session = Session::quiet(remote)?;
        if let Some(address) = session.client.withholds_token() {
            aside(&format!(
                "the token is not sent to {address}, where others could read it on the way: use https"
            ));
        }
        Ok(session)
    }

    /// The same without a remark.
    pub fn quiet(remote: &Remote) -> Result<Self, Failure> {
        let mut services = Vec::new();
        for address in remote.addresses() {
            let credentials = credentials::of(&address, remote.tls())?;
            services.push((address, credentials));
        }
        let client = client_of(&services, &Options::default())?;
        Ok(Session { client, services, out: Output::new(remote.json) })
    }

    /// Brings out what the command printed. That stands also if the command failed; of the two failures the command's own
    /// says more.
    pub fn close(mut self, done: Result<(), Failure>) -> Result<(), Failure> {
        let printed = self.out.flush();
        done?;
        Ok(printed?)
    }

    /// A client of the same services with other deadlines.
    fn client_with(&self, options: &Options) -> Result<Client, Error> {
        client_of(&self.services, options)
    }
}

fn client_of(services: &[(String, Credentials)], options: &Options) -> Result<Client, Error> {
    let client = |(address, credentials): &(String, Credentials)| {
        Client::with_options(address, Options { credentials: credentials.clone(), ..options.clone() })
    };
    let (first, others) = services.split_first().ok_or_else(|| Error::Address(String::new()))?;
    Ok(client(first)?.with_others(others.iter().map(client).collect::<Result<_, _>>()?))
}

/// Runs a client command; `before` are the options that stood before it.
pub async fn run(before: &Remote, command: ClientCommand) -> Result<(), Failure> {
    // Opens the session that the command's options ask for, runs it, and brings out what it printed.
    macro_rules! run {
        ($args:expr, $command:path) => {{
            let Remotely { own, remote } = $args;
            let mut session = Session::open(&remote.or(before))?;
            let done = $command(&mut session, &own).await;
            session.close(done)
        }};
    }
    match command {
        ClientCommand::Token(mut args) => {
            args.remote = args.own.inner().or(&args.remote);
            run!(args, access::token)
        }
        ClientCommand::Users(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, users::users)
        }
        ClientCommand::Doctor(args) => run!(args, doctor::doctor),
        ClientCommand::Top(args) => run!(args, top::top),
        ClientCommand::Audit(args) => run!(args, access::audit),
        ClientCommand::Register(args) => run!(*args, register::register),
        ClientCommand::Apply(args) => run!(args, apply::apply),
        ClientCommand::Export(args) => run!(args, apply::export),
        ClientCommand::Edit(args) => run!(*args, edit::edit),
        ClientCommand::Pause(args) => run!(args, edit::pause),
        ClientCommand::Resume(args) => run!(args, edit::resume),
        ClientCommand::Rename(args) => run!(args, edit::rename),
        ClientCommand::Unregister(args) => run!(args, unregister::unregister),
        ClientCommand::List(args) => run!(args, list::list),
        ClientCommand::Show(args) => run!(args, show::show),
        ClientCommand::Changes(args) => run!(args, changes::changes),
        ClientCommand::Put(args) => run!(args, values::put),
        ClientCommand::Get(args) => run!(args, values::get),
        ClientCommand::Delete(args) => run!(args, values::delete),
        ClientCommand::Watch(args) => run!(args, watch::watch),
        ClientCommand::History(args) => run!(args, history::history),
        ClientCommand::Bind(args) => run!(args, bindings::bind),
        ClientCommand::Unbind(args) => run!(args, bindings::unbind),
        ClientCommand::Bindings(args) => run!(args, bindings::bindings),
        ClientCommand::Compare(args) => run!(args, compare::compare),
        ClientCommand::Nodes(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, nodes::nodes)
        }
        ClientCommand::Tasks(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, tasks::tasks)
        }
        ClientCommand::Files(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, files::files)
        }
        ClientCommand::Images(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, images::images)
        }
        ClientCommand::Capacity(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, capacity::capacity)
        }
        ClientCommand::Tune(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, tune::tune)
        }
        ClientCommand::Reserve(args) => run!(*args, reservations::reserve),
        ClientCommand::Price(args) => run!(args, reservations::price),
        ClientCommand::Reservations(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, reservations::reservations)
        }
        ClientCommand::Credits(mut args) => {
            if let Some(inner) = args.own.inner() {
                args.remote = inner.or(&args.remote);
            }
            run!(args, reservations::credits)
        }
        ClientCommand::RunTask(args) => run!(*args, tasks::run_task),
        ClientCommand::Instances(args) => run!(args, instances::instances),
        ClientCommand::Logs(args) => run!(args, logs::logs),
        ClientCommand::Run(args) => run!(args, run::run),
    }
}

/// The answer of a service, or none if there is no such thing.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.status() == Some(404) => Ok(None),
        answer => answer.map(Some),
    }
}

/// A key that no other request has.
fn new_key() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| Failure::Io(io::Error::other("the system gives no random numbers")))?;
    Ok(hex::encode(bytes))
}

/// Reads a file, or standard input if its name is `-`.
fn read_named(name: &str) -> Result<Vec<u8>, Failure> {
    match name {
        "-" => read_input("standard input", io::stdin().lock()),
        path => {
            let wrong = |source| Failure::Read { name: path.to_owned(), source };
            read_input(path, File::open(path).map_err(wrong)?)
        }
    }
}

/// Reads all of something whose size nobody promised.
fn read_input(name: &str, from: impl io::Read) -> Result<Vec<u8>, Failure> {
    let wrong = |source| Failure::Read { name: name.to_owned(), source };
    let mut bytes = Vec::new();
    from.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(wrong)?;
    match bytes.len() as u64 > MAX_INPUT_BYTES {
        true => Err(wrong(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 8 MiB"))),
        false => Ok(bytes),
    }
}

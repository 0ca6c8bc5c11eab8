//! The one binary: the services, and the commands that speak to them.
//!
//! Here the command line is parsed and handed on, a runtime is chosen, and every error becomes one message
//! and one exit code. Client commands speak through `estimand_api` and nothing else; only `serve` knows the
//! services.

use std::process::ExitCode;

use cli::{Cli, Command};
use estimand_cli::{Exit, Failure, Remote};
use options::Options;
use settings::Settings;

mod agent;
mod candidates;
mod cli;
mod collect;
mod completions;
mod defaults;
mod eureka;
mod export_metrics;
mod fate;
mod greeting;
mod guard;
mod joining;
mod keeper;
mod limits;
mod man;
mod nearest;
mod options;
mod pki;
mod place;
mod scheduler;
mod serve;
mod services;
mod settings;
mod simulate;
mod simulate_deadlines;
mod simulate_reservations;
mod telemetry;
mod tls;

fn main() -> ExitCode {
    // Before anything else is made: this process starts the programs in slots, and is kept small.
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == agent::LAUNCHER => return estimand_exec::serve(),
        Some(word) if word == agent::KEEPER => {
            return estimand_slot_agent::keep_tasks(args.next().unwrap_or_default().as_ref());
        }
        _ => {}
    }
    // The HTTP client is built without a provider for TLS. This fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    candidates::answer_shell();
    let mut settings = match Settings::of(std::env::args_os().collect()) {
        Ok(settings) => settings,
        Err(error) => return finish(Err(Failure::Usage(error.to_string()))).into(),
    };
    let Cli { remote, command } = settings.parse();
    let exit = match command {
        Command::Client(command) => run_client(estimand_cli::run(&remote, command)),
        Command::Scheduler(command) => run_client(scheduler::run(&remote, command)),
        Command::Collect(mut args) => {
            args.json |= remote.json;
            finish(collect::collect(&args))
        }
        Command::Simulate(mut args) => {
            args.json |= remote.json;
            finish(simulate::simulate(&args))
        }
        Command::Pki(args) => {
            Cli::refuse_remote(&remote);
            finish(pki::run(&args))
        }
        Command::Completions(args) => finish(completions::print(&args)),
        Command::Man(mut args) => {
            args.json |= remote.json;
            finish(man::write(&args))
        }
        Command::Up(args) => {
            let options = args.options().unwrap_or_else(|wrong| wrong.exit());
            run_service(&remote, options, &mut settings)
        }
        Command::Service(command) => {
            let options = command.options().unwrap_or_else(|wrong| wrong.exit());
            run_service(&remote, options, &mut settings)
        }
        Command::Agent(args) => {
            // The agent's own `--server` is another one, and stands behind its name.
            Cli::refuse_remote(&remote);
            let log = args.log();
            let options = args.options().unwrap_or_else(|wrong| wrong.exit());
            run_long(agent::run(options, log), &mut settings)
        }
        Command::ExportMetrics(args) => run_long(export_metrics::run(&remote, *args), &mut settings),
    };
    exit.into()
}

fn run_service(remote: &Remote, options: Options, settings: &mut Settings) -> Exit {
    Cli::refuse_remote(remote);
    // Before any thread is started.
    if let Err(error) = limits::check(options.workers) {
        eprintln!("error: {error}");
        return Exit::Failed;
    }
    run_long(serve::serve(options), settings)
}

fn run_long(work: impl Future<Output = anyhow::Result<()>>, settings: &mut Settings) -> Exit {
    // It has tokens and keys in its memory and its environment: other processes of its user must not look there.
    if let Err(error) = estimand_exec::hide_memory() {
        eprintln!("warning: other processes of this user can look into this one's memory: {error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = match runtime {
        Ok(runtime) => {
            let served = runtime.block_on(Box::pin(async {
                tokio::select! {
                    served = work => served,
                    failed = settings.follow() => failed,
                }
            }));
            // All is ended in order. A thread that is left can only wait for a name server, and need not be
            // waited for.
            runtime.shutdown_background();
            served
        }
        Err(error) => Err(error.into()),
    };
    match served {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("error: {error:#}");
            Exit::Failed
        }
    }
}

/// One thread is enough for a few requests, and it starts sooner than one a core.
fn run_client(work: impl Future<Output = Result<(), Failure>>) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    finish(match runtime {
        Ok(runtime) => runtime.block_on(Box::pin(async {
            match work.await {
                Ok(()) => Ok(()),
                Err(failure) => Err(nearest::hinted(failure, std::env::args_os().collect()).await),
            }
        })),
        Err(error) => Err(error.into()),
    })
}

fn finish(done: Result<(), Failure>) -> Exit {
    match done {
        Ok(()) => Exit::Done,
        Err(failure) => failure.report(),
    }
}

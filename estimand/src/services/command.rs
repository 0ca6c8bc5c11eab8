//! The commands that start one service alone, and the options of all services in `up`, as the table has them.

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use super::{SERVICES, ServiceKind, ServiceOptions};
use crate::cli::platform::PlatformArgs;
use crate::cli::services::ServiceArgs;
use crate::options::Options;

/// The heading of the options of all services in `up`.
const HEADING: &str = "What runs here";

/// The command of one service, as it was typed.
#[derive(Debug)]
pub struct ServiceCommand {
    kind: &'static ServiceKind,
    matches: ArgMatches,
}

impl ServiceKind {
    /// The definition of its command.
    pub fn definition(&self) -> Command {
        let command = (self.terms)((self.peers)(ServiceArgs::augment_args(Command::new(self.command))));
        let command = if self.on_platform {
            PlatformArgs::augment_args(command.next_help_heading(PlatformArgs::HEADING))
        } else {
            command
        };
        let command = command.about(self.about).long_about(None);
        match self.examples {
            Some(examples) => command.after_help(examples),
            None => command,
        }
    }
}

impl ServiceCommand {
    /// The error says what is wrong with the arguments, and ends the process as wrong usage does.
    pub fn options(&self) -> Result<Options, clap::Error> {
        let service = (self.kind.options)(&self.matches, true)?;
        let options = ServiceArgs::from_arg_matches(&self.matches)?.options(vec![service]);
        if !self.kind.on_platform {
            return Ok(options);
        }
        Ok(Options { platform: PlatformArgs::from_arg_matches(&self.matches)?.options(), ..options })
    }
}

impl FromArgMatches for ServiceCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let found = matches.subcommand().and_then(|(name, matches)| {
            let kind = SERVICES.into_iter().find(|kind| kind.command == name)?;
            Some(ServiceCommand { kind, matches: matches.clone() })
        });
        found.ok_or_else(|| clap::Error::new(ErrorKind::InvalidSubcommand))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ServiceCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ServiceCommand {
    fn augment_subcommands(command: Command) -> Command {
        SERVICES.into_iter().fold(command, |command, kind| command.subcommand(kind.definition()))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        SERVICES.into_iter().any(|kind| kind.command == name)
    }
}

/// The options of all services, as they were typed after `up`.
#[derive(Debug)]
pub struct AllTerms(ArgMatches);

impl AllTerms {
    pub fn services(&self) -> Result<Vec<Box<dyn ServiceOptions>>, clap::Error> {
        SERVICES.into_iter().map(|kind| (kind.options)(&self.0, false)).collect()
    }
}

impl FromArgMatches for AllTerms {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(AllTerms(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AllTerms::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AllTerms {
    fn augment_args(command: Command) -> Command {
        SERVICES.into_iter().fold(command, |command, kind| (kind.terms)(command.next_help_heading(HEADING)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

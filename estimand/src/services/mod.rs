//! The services of the binary, each one entry of a table: its command and options, what it needs of a process and of its
//! peers, its start and its part of the server. Everything else loops over the table.

mod command;
mod data;
mod files;
mod kind;
mod manager;
mod registry;
mod reservations;
mod tasks;
mod tuning;

pub use command::{AllTerms, ServiceCommand};
pub use kind::{Host, Introduction, Owner, ServiceHandle, ServiceKind, ServiceOptions};

/// All services, in the order in which they are named and started.
pub static SERVICES: [&ServiceKind; 7] = [
    &registry::KIND,
    &data::KIND,
    &manager::KIND,
    &tasks::KIND,
    &files::KIND,
    &reservations::KIND,
    &tuning::KIND,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `estimand doctor` finds the processes of services by the command that started them.
    #[test]
    fn the_doctor_knows_all_services() {
        let known = estimand_cli::commands::SERVICES;
        let table: Vec<&str> = std::iter::once("up").chain(SERVICES.map(|kind| kind.command)).collect();
        assert_eq!(known.as_slice(), table);
    }
}

//! The command line's client commands: each asks the services over the REST interface and shows the answer.
//!
//! They know `estimand_api` and its client, and `estimand_pki` to read a certificate; no service. The one binary puts
//! them beside the commands that start services, and scheduler commands stand on [`Session`] and [`output`] as they do.

pub mod arguments;
pub mod commands;
pub mod credentials;
pub mod names;
pub mod output;
pub mod yaml;

pub use arguments::{ClientCommand, Remote, Remotely};
pub use commands::{Session, run};
pub use output::failure::{Exit, Failure};

//! The launcher process alone, for tests and measurements of the crate.
fn main() -> std::process::ExitCode {
    estimand_exec::serve()
}

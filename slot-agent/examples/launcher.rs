//! The launcher process alone, for tests and measurements of the `launch` module.
fn main() -> std::process::ExitCode {
    estimand_slot_agent::launch::serve()
}

//! An executable that misbehaves as it is told, for the tests of the engine.
fn main() -> std::process::ExitCode {
    estimand_testkit::mock::main()
}

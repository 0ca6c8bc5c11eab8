//! The executable that slots run in the tests of the whole system: it does as its arguments say.

fn main() -> std::process::ExitCode {
    estimand_testkit::mock::main()
}

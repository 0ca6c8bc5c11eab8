//! The executable that the cluster's slots run: it does as its arguments say.

fn main() -> std::process::ExitCode {
    estimand_testkit::mock::main()
}

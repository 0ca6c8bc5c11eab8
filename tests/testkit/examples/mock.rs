//! The executable that misbehaves as its arguments say: `mock help` lists how.

fn main() -> std::process::ExitCode {
    estimand_testkit::mock::main()
}

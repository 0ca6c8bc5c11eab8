//! Starts every process of the tests, so that none outlives the test process.
//!
//! Linux can send a process a signal when its parent dies, and counts as the parent the *thread* that
//! started it. Test threads end with their test, so one thread that lives as long as the process
//! starts everything. The signal is asked for by `setpriv`, which replaces itself by the program:
//! the process id is the program's, and the request is made after a change of user, which would drop it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

struct Order {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// A command that is killed when this process dies, run as the user and group `account` if one is given.
/// It gets its own process group: a Ctrl-C in the terminal ends the tests, and the tests' end ends it.
pub(crate) fn bound_command(program: impl AsRef<OsStr>, account: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(account) = account {
        command.args(["--reuid", account, "--regid", account, "--clear-groups"]);
    }
    command.arg("--").arg(program).process_group(0);
    command
}

/// Starts `command` from the thread that outlives every test.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let (reply, answer) = channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    ORDERS.get_or_init(start_thread).send(Order { command, reply }).map_err(|_| gone())?;
    let child = answer.recv().map_err(|_| gone())?;
    child.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::other("`setpriv` is not in PATH: apt-get install util-linux (2.33 or later)")
        }
        _ => error,
    })
}

fn start_thread() -> Sender<Order> {
    let (sender, orders) = channel::<Order>();
    let run = move || {
        for mut order in orders {
            // A test that gave up meanwhile dropped its end: then nobody owns the child.
            if let Err(unclaimed) = order.reply.send(order.command.spawn())
                && let Ok(mut child) = unclaimed.0
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    };
    thread::Builder::new().name("spawner".into()).spawn(run).expect("a thread can be started");
    sender
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    /// The parent-death signal is tied to a thread: a child must outlive the thread that asked for it.
    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(|| {
            let mut command = bound_command("cat", None);
            command.stdin(Stdio::piped());
            command.stdout(Stdio::piped());
            spawn(command).unwrap()
        })
        .join()
        .unwrap();
        // Had the signal been tied to the thread, there would be nobody to answer.
        child.stdin.take().unwrap().write_all(b"still here").unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "still here");
        assert!(child.wait().unwrap().success());
    }
}

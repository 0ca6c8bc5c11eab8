//! The folder of one server, and the helper that removes it when the test process is gone.
//!
//! Servers shared by a whole test process live in statics, which are never dropped, and a test process
//! may be killed. So a small shell waits at a pipe from this process: when the pipe closes, for whatever
//! reason, it waits for the server's end, removes what the kernel keeps for it, and removes the folder.
//! It kills nothing: that is the parent-death signal's part, which cannot hit a stranger's process.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::{env, fs};

/// Each line of its input is the process id of the server, or empty while none runs. The seventh line
/// of PostgreSQL's `postmaster.pid` names its System V segment, which outlives a killed server.
const SCRIPT: &str = r#"
cd / || exit 1
# A dead process that its parent has not asked about yet is as good as gone.
runs() { case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in ''|Z*|X*) return 1 ;; esac; }
pid=
while read -r line; do pid=$line; done
tries=0
while [ -n "$pid" ] && runs "$pid" && [ "$tries" -lt 200 ]; do
    tries=$((tries + 1)); sleep 0.05
done
segment=$(sed -n '7s/.* //p' "$1/data/postmaster.pid" 2>/dev/null)
[ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
tries=0
until rm -rf "$1" 2>/dev/null || [ "$tries" -ge 100 ]; do
    tries=$((tries + 1)); sleep 0.05
done
"#;

pub(crate) struct Home {
    path: PathBuf,
    helper: Child,
    line: Option<ChildStdin>,
}

impl Home {
    /// A new folder in the temporary directory, owned by `owner` (user, group) where one is given.
    pub(crate) fn create(prefix: &str, owner: Option<(u32, u32)>) -> Self {
        Self::create_within(&env::temp_dir(), prefix, owner)
    }

    /// The same in another folder.
    pub(super) fn create_within(within: &Path, prefix: &str, owner: Option<(u32, u32)>) -> Self {
        let path = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(within)
            .unwrap_or_else(|error| panic!("a folder for a server in {}: {error}", within.display()))
            .keep();
        let mut helper = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "janitor"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("/bin/sh to clean up {}: {error}", path.display()));
        let line = helper.stdin.take();
        let home = Self { path, helper, line };
        if let Some((user, group)) = owner {
            check_passable(within);
            chown(&home.path, Some(user), Some(group))
                .unwrap_or_else(|error| panic!("chown {} to {user}: {error}", home.path.display()));
        }
        home
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the helper for whose end it has to wait.
    pub(crate) fn server_is(&mut self, pid: Option<u32>) {
        let pid = pid.map(|pid| pid.to_string()).unwrap_or_default();
        if let Some(line) = &mut self.line {
            // A helper that somebody killed costs a folder left behind, which is no reason to fail a test.
            let _ = writeln!(line, "{pid}");
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(self.line.take());
        let _ = self.helper.wait();
    }
}

/// A server that runs as another user than root has to get through each folder above its own.
fn check_passable(folder: &Path) {
    for above in folder.ancestors() {
        let Ok(facts) = fs::metadata(above) else { continue };
        assert!(
            facts.permissions().mode() & 0o001 != 0,
            "{} can't be entered by the user the server runs as: chmod a+x it, or set TMPDIR elsewhere",
            above.display()
        );
    }
}

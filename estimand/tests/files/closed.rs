//! The folder of the file service is nobody else's, whatever the umask and whatever is there already.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use estimand_testkit::TOKEN;
use estimand_testkit::http::Http;
use estimand_testkit::process::{self, free_port};
use estimand_testkit::wait::{self, PATIENCE};

/// Killed when it is dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// True if another user of this machine can read this.
fn others_read(path: &Path) -> bool {
    let path = path.to_str().unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat", path]);
    command.output().unwrap().status.success()
}

#[test]
fn no_other_user_of_the_machine_reads_or_forges_files() {
    assert_eq!(
        fs::metadata("/proc/self").unwrap().uid(),
        0,
        "becoming another user needs root: run this test as root"
    );
    let data = tempfile::tempdir().unwrap();
    fs::set_permissions(data.path(), Permissions::from_mode(0o755)).unwrap();
    let files = data.path().join("files");
    // As an earlier version left it.
    fs::create_dir(&files).unwrap();
    fs::write(files.join("old"), "old").unwrap();
    fs::set_permissions(&files, Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(files.join("old"), Permissions::from_mode(0o644)).unwrap();
    assert!(others_read(&files.join("old")));
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = process::command("/bin/sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(process::binary());
    command.args(["file-service", "--listen", &address, "--files"]).arg(&files).env("ESTIMAND_TOKEN", TOKEN);
    let _service = Started(command.stdout(Stdio::null()).spawn().unwrap());
    let http = Http::new(&format!("http://{address}")).showing(Some(TOKEN));
    wait::until(PATIENCE, "the service to be there", || {
        http.try_request("GET", "/readyz", &[], b"").ok().filter(|answer| answer.status == 200)
    });
    http.request("PUT", "/api/files/content?path=a/b/new", &[], b"new").expect_status(200);
    assert_eq!(mode(&files), 0o700);
    for (path, expected) in [("a", 0o700), ("a/b", 0o700), ("a/b/new", 0o600), (".estimand-uploads", 0o700)] {
        assert_eq!(mode(&files.join(path)), expected, "{path}");
    }
    assert!(!others_read(&files.join("old")) && !others_read(&files.join("a/b/new")));
}

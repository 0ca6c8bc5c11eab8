//! The surroundings of a well-behaved run, and the errors of one that cannot start.

use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn output_and_exit_are_reported() {
    for way in ALL_WAYS {
        let world = World::new(way).await;
        for (script, exit, output, errors) in [
            ("echo out; echo err >&2; exit 3", Exit::Code(3), "out\n", "err\n"),
            ("kill -TERM $$", Exit::Signal(15), "", ""),
            ("printf x; kill -SEGV $$", Exit::Signal(11), "x", ""),
            ("true", Exit::Code(0), "", ""),
        ] {
            let captured = world.sh(script).await;
            assert_eq!(captured.outcome.exit, exit, "{script} {way:?}");
            assert_eq!((text(&captured.stdout), text(&captured.stderr_tail)), (output, errors), "{script}");
            assert_eq!(captured.reason, EndReason::Completed);
        }
        world.end().await;
    }
}

/// The process that executes a program has the launcher's memory until then, which does not count.
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_run_is_that_of_its_programs() {
    const MIB: u64 = 1 << 20;
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let small = world.sh("sleep 0.3").await.outcome.memory;
        assert!(small.is_some_and(|bytes| (MIB / 4..3 * MIB).contains(&bytes)), "{small:?} {way:?}");
        let large = world.sh("head -c 67108864 /dev/zero | tail -n 1 | wc -c").await.outcome.memory;
        assert!(large.is_some_and(|bytes| (64 * MIB..256 * MIB).contains(&bytes)), "{large:?} {way:?}");
        let brief = world.sh("true").await.outcome.memory;
        assert!(brief.is_none_or(|bytes| bytes < 3 * MIB), "{brief:?} {way:?}");
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_gets_its_own_surroundings_and_nothing_else() {
    // Neither a descriptor nor a variable of this process may get through; this one would, if anything did.
    let leak = rustix::io::dup(std::io::stderr()).unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let cell = world.cell().await;
        let mut spec = world.spec("/usr/bin/env", vec!["env".into()], &cell);
        spec.env = vec![("A".into(), "1".into()), ("B".into(), "two words\nand lines".into())];
        let captured = world.capture(spec, &ample()).await;
        let (given, token) = text(&captured.stdout).split_once("ESTIMAND_RUN=").unwrap();
        assert_eq!(given, "A=1\nB=two words\nand lines\n");
        assert!(token.starts_with(&world.mark), "{token}");

        let mut spec = world
            .shell("pwd; readlink /proc/self/fd/0; ulimit -c; cat /proc/self/oom_score_adj; nice", &cell);
        spec.dir = "/usr/lib".into();
        let captured = world.capture(spec, &ample()).await;
        let lines: Vec<&str> = text(&captured.stdout).lines().collect();
        assert_eq!((lines[0], lines[1]), ("/usr/lib", "/dev/null"));
        assert_eq!(lines[2], "0", "a dump of core of one byte is none");
        assert_eq!((lines[3], lines[4]), ("500", "0"), "the launcher's precedence is its own");

        let ls = ["ls", "/proc/self/fd"].map(str::to_owned).to_vec();
        let captured = world.capture(world.spec("/bin/ls", ls, &cell), &ample()).await;
        // The last is the directory that `ls` reads.
        assert_eq!(text(&captured.stdout), "0\n1\n2\n3\n");

        // A writer into a closed pipe dies, as it does in any shell; and no signal is blocked or ignored.
        let signals = world.sh("yes | head -n 1; grep -E '^Sig(Blk|Ign)' /proc/self/status").await;
        let lines: Vec<&str> = text(&signals.stdout).lines().collect();
        assert_eq!(lines[0], "y");
        assert_eq!(lines[1].trim_start_matches("SigBlk:").trim(), "0000000000000000");
        assert_eq!(lines[2].trim_start_matches("SigIgn:").trim(), "0000000000000000");

        let ids = world.sh("cut -d' ' -f1,5,6 /proc/$$/stat").await;
        let numbers: Vec<&str> = text(&ids.stdout).split_whitespace().collect();
        assert!(
            numbers[0] == numbers[1] && numbers[1] == numbers[2],
            "its own group and session: {numbers:?}"
        );
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_lived_run_reads_its_input() {
    let world = World::new(CgroupMode::Best).await;
    let cell = world.cell().await;
    let mut spec = world.shell("while read line; do echo got $line; done", &cell);
    spec.stdin = Stdin::Pipe;
    let mut run = world.launcher.run(spec).await.unwrap();
    let (mut stdin, mut stdout) = (run.stdin().unwrap(), run.stdout().unwrap());
    assert!(run.stdout().is_none() && run.pid() > 1);
    for word in ["one", "two"] {
        stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; format!("got {word}\n").len()];
        stdout.read_exact(&mut answer).await.unwrap();
        assert_eq!(text(&answer), format!("got {word}\n"));
    }
    let second = world.sh_error(world.shell("true", &cell)).await;
    assert!(matches!(second, SpawnError::CellBusy), "{second:?}");
    drop(stdin);
    assert_eq!(run.ended().await.exit, Exit::Code(0));
    assert_eq!(run.ended().await.exit, Exit::Code(0), "asked again it says the same");
    world.launcher.close_cell(cell).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_names_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        ("/nowhere/at/all".to_owned(), "there is no program /nowhere/at/all"),
        (file("plain", "#!/bin/sh\n", 0o644), "is not executable; `chmod +x`"),
        (file("no-line", "echo hello\n", 0o755), "first line like `#!/bin/sh`"),
        (
            file("no-interpreter", "#!/no/such/thing -x\n", 0o755),
            "asks for the interpreter \"/no/such/thing\"",
        ),
        (file("windows", "#!/bin/sh\r\n", 0o755), "asks for the interpreter \"/bin/sh\\r\""),
        (folder.path().to_str().unwrap().to_owned(), "is a directory, not a program"),
        (format!("{}/below", file("a-file", "", 0o644)), "there is no program"),
        ("bin/true".to_owned(), "must be absolute"),
    ];
    for way in [CgroupMode::Best, CgroupMode::None] {
        let world = World::new(way).await;
        let cell = world.cell().await;
        for (program, expected) in &cases {
            let error = world.sh_error(world.spec(program, vec!["x".into()], &cell)).await.to_string();
            assert!(error.contains(expected), "{program}: {error}");
        }
        let mut spec = world.shell("true", &cell);
        spec.dir = "/nowhere".into();
        let error = world.sh_error(spec).await.to_string();
        assert!(error.contains("cannot change to the directory /nowhere"), "{error}");
        let mut spec = world.shell("true", &cell);
        spec.argv.push("a\0b".into());
        assert_eq!(world.sh_error(spec).await.to_string(), "there is a NUL in argument 4");
        let mut spec = world.shell("true", &cell);
        spec.argv.clear();
        assert!(matches!(world.sh_error(spec).await, SpawnError::NoArguments));
        // The cell is as good as new after all of these.
        assert_eq!(world.capture(world.shell("exit 7", &cell), &ample()).await.outcome.exit, Exit::Code(7));
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

/// An agent that writes a program and starts others beside it has that file open in each of them for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_still_open_for_writing_starts_when_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    std::fs::copy("/bin/true", &path).unwrap();
    let program = path.to_str().unwrap();
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let cell = world.cell().await;
        let writer = std::fs::File::options().append(true).open(&path).unwrap();
        let run = async { world.launcher.run(world.spec(program, vec!["x".into()], &cell)).await.unwrap() };
        let closing = async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            drop(writer);
        };
        let (mut run, ()) = tokio::join!(run, closing);
        assert_eq!(run.ended().await.exit, Exit::Code(0));
        let writer = std::fs::File::options().append(true).open(&path).unwrap();
        let busy = world.sh_error(world.spec(program, vec!["x".into()], &cell)).await;
        assert!(matches!(busy, SpawnError::Busy(_)), "{busy:?}");
        drop(writer);
        world.launcher.close_cell(cell).await;
        world.end().await;
    }
}

/// Children share memory with the launcher and with each other until their programs are executed.
#[tokio::test(flavor = "multi_thread")]
async fn starts_at_the_same_time_each_get_their_own_answer() {
    const EACH: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let plain = plain.to_str().unwrap();
    for way in ALL_WAYS {
        let world = World::new(way).await;
        let missing = async {
            let cell = world.cell().await;
            for number in 0..EACH {
                let program = format!("/nowhere/{number}");
                let error = world.sh_error(world.spec(&program, vec!["x".into()], &cell)).await;
                assert_eq!(error.to_string(), format!("there is no program {program}"));
            }
            world.launcher.close_cell(cell).await;
        };
        let not_executable = async {
            let cell = world.cell().await;
            for _ in 0..EACH {
                let error = world.sh_error(world.spec(plain, vec!["x".into()], &cell)).await;
                assert!(matches!(error, SpawnError::NotExecutable(_)), "{error:?}");
            }
            world.launcher.close_cell(cell).await;
        };
        let printing = |word: &'static str| {
            let world = &world;
            async move {
                let cell = world.cell().await;
                for number in 0..EACH {
                    let text = format!("{word}-{number}");
                    let argv = ["echo".to_owned(), text.clone()].to_vec();
                    let captured = world.capture(world.spec("/bin/echo", argv, &cell), &ample()).await;
                    assert_eq!(super::text(&captured.stdout), format!("{text}\n"));
                }
                world.launcher.close_cell(cell).await;
            }
        };
        tokio::join!(missing, not_executable, printing("a"), printing("b"));
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_arguments_arrive_and_larger_ones_are_refused() {
    let world = World::new(CgroupMode::Best).await;
    let cell = world.cell().await;
    let mut spec = world.shell("printf %s \"$BIG\" | wc -c; printf %s \"$1\" | wc -c", &cell);
    spec.env.push(("BIG".into(), "x".repeat(60_000)));
    spec.argv.push("y".repeat(60_000));
    let captured = world.capture(spec, &ample()).await;
    let lengths: Vec<&str> = text(&captured.stdout).split_whitespace().collect();
    assert_eq!(lengths, ["60000", "60000"]);

    for (length, count) in [(140_000, 1), (1, 20_000)] {
        let mut spec = world.shell("true", &cell);
        spec.argv.extend(vec!["y".repeat(length); count]);
        let error = world.sh_error(spec).await;
        assert!(matches!(error, SpawnError::TooLarge { .. }), "{error:?}");
    }
    world.launcher.close_cell(cell).await;
    world.end().await;
}

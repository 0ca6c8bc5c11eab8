//! Many tasks of one submission, and one that comes after all of them.

use crate::plane::Plane;

#[test]
fn a_task_after_an_array_finds_what_all_of_it_left() {
    let plane = Plane::start(&["n1", "n2"]);
    let parts = plane.folder.path().join("parts");
    std::fs::create_dir(&parts).unwrap();
    let say = |args: &[&str]| {
        let ran = plane.cli(args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let parts = parts.display();
    let square =
        format!("i=$ESTIMAND_TASK_INDEX; echo $((i * i)) > {parts}/$i; echo $i of $ESTIMAND_TASK_COUNT");
    let submitted =
        say(&["tasks", "submit", "--id", "squares", "--count", "20", "--", "/bin/sh", "-c", &square]);
    assert_eq!(submitted, "submitted `squares`, 20 tasks\n");
    let sum = format!("cat {parts}/* | {{ s=0; while read n; do s=$((s + n)); done; echo $s; }}");
    say(&["tasks", "submit", "--id", "sum", "--after", "squares", "--", "/bin/sh", "-c", &sum]);
    assert_eq!(say(&["tasks", "wait", "squares", "sum"]), "`squares` succeeded\n`sum` succeeded\n");
    assert_eq!(say(&["tasks", "logs", "sum"]), "2470\n");
    let lines: String = (0..20).map(|index| format!("{index} of 20\n")).collect();
    assert_eq!(say(&["tasks", "logs", "squares"]), lines);
    assert_eq!(say(&["tasks", "logs", "squares", "--grep", "9 of", "--tail", "1"]), "9 of 20\n19 of 20\n");
    assert_eq!(say(&["tasks", "list", "--array", "squares"]).lines().count(), 21);
    let shown = say(&["tasks", "show", "squares"]);
    assert!(shown.contains("20 SUCCEEDED"), "{shown}");

    // One that fails takes with it what wanted its success.
    let fails = "exit $ESTIMAND_TASK_INDEX";
    say(&["tasks", "submit", "--id", "tries", "--count", "2", "--", "/bin/sh", "-c", fails]);
    say(&["tasks", "submit", "--id", "never", "--after", "tries", "--", "/bin/true"]);
    say(&["tasks", "submit", "--id", "anyway", "--after-end", "tries", "--", "/bin/true"]);
    let waited = plane.cli(&["tasks", "wait", "tries", "never", "anyway"]).output().unwrap();
    assert_eq!(waited.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&waited.stdout),
        "`tries` is over: 1 FAILED, 1 SUCCEEDED\n\
         `never` was cancelled: `tries.1`, after which it was to run, did not succeed\n\
         `anyway` succeeded\n"
    );
}

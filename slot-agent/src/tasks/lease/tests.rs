use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use super::file::LeaseFile;
use super::*;

const LONG: u64 = 3_600_000_000_000;
const SECONDS: u64 = 1_000_000_000;

#[tokio::test]
async fn a_lease_is_extended_and_runs_out() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lease");
    let file = LeaseFile::open(path.clone());
    let watch = |number| LeaseWatch::new(path.clone(), number).unwrap();
    assert!(watch(0).is_over() && file.holds().is_none(), "there never was one");
    watch(0).over().await;
    let until = boot_clock() + LONG;
    file.extend(until);
    file.extend(until - 1);
    file.publish().unwrap();
    let number = file.holds().unwrap();
    let next = LeaseFile::open(path.clone());
    assert_eq!((next.holds(), next.former()), (Some(number), number), "an agent that is started anew");
    assert!(!watch(number).is_over());
    file.end();
    file.publish().unwrap();
    assert!(watch(number).is_over());
    assert_eq!(LeaseFile::open(path.clone()).former(), 0);
    let soon = boot_clock() + 20_000_000;
    file.extend(soon);
    file.publish().unwrap();
    watch(file.number()).over().await;
    assert!(boot_clock() >= soon);
}

/// Between its end and that renewal, the task may have been started elsewhere.
#[test]
fn a_lease_that_is_renewed_too_late_is_another_one() {
    let place = tempfile::tempdir().unwrap();
    let file = LeaseFile::open(place.path().join("lease"));
    file.extend(boot_clock() + LONG);
    let first = file.holds().unwrap();
    file.extend(boot_clock() + 2 * LONG);
    assert_eq!(file.holds(), Some(first));
    file.end();
    file.publish().unwrap();
    for again in [file, LeaseFile::open(place.path().join("lease"))] {
        again.extend(boot_clock() + LONG);
        assert!(again.holds().unwrap() > first);
    }
}

#[test]
fn a_lease_of_a_former_start_of_the_machine_is_none() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lease");
    fs::write(&path, format!("another 1 {}", u64::MAX)).unwrap();
    assert_eq!(LeaseFile::open(path.clone()).holds(), None);
    fs::write(&path, "").unwrap();
    assert_eq!(LeaseFile::open(path).holds(), None);
}

/// A full disk has no room for another file, nor for a longer one.
#[test]
fn a_renewal_is_written_in_place_and_needs_no_room() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lease");
    let file = LeaseFile::open(path.clone());
    let renew = |until| {
        file.extend(until);
        file.publish().unwrap();
        let meta = fs::metadata(&path).unwrap();
        (meta.ino(), meta.len())
    };
    let first = renew(boot_clock() + LONG);
    for hours in 2..40 {
        assert_eq!(renew(boot_clock() + hours * LONG), first);
    }
    file.end();
    file.publish().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), first.1);
}

#[tokio::test]
async fn what_cannot_be_read_ends_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lease");
    let file = LeaseFile::open(path.clone());
    file.extend(boot_clock() + LONG);
    file.publish().unwrap();
    let number = file.holds().unwrap();
    let watch = LeaseWatch::new(path.clone(), number).unwrap();
    assert!(!watch.is_over());
    let whole = fs::read(&path).unwrap();
    let other = Lease { number, until: 1 }.to_file(&boot_id());
    let mixed = [&other[..50], &whole[50..]].concat();
    for torn in [&b""[..], &whole[..40], &whole[..70], &mixed, b"no lease at all", b"\xff\xfe"] {
        fs::write(&path, torn).unwrap();
        assert!(!watch.is_over(), "{}", String::from_utf8_lossy(torn));
    }
    fs::remove_file(&path).unwrap();
    assert!(!watch.is_over());
    fs::write(&path, other).unwrap();
    assert!(watch.is_over(), "that is an end");
    fs::remove_file(&path).unwrap();
    assert!(watch.is_over(), "and stays one");
}

/// Agents and keepers of before read and write three words, and count leases.
#[tokio::test]
async fn the_file_is_understood_by_the_version_before() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lease");
    let until = boot_clock() + LONG;
    fs::write(&path, format!("{} 7 {until}", boot_id())).unwrap();
    assert!(!LeaseWatch::new(path.clone(), 7).unwrap().is_over());
    let file = LeaseFile::open(path.clone());
    assert_eq!((file.holds(), file.former()), (Some(7), 7));
    file.extend(until + 1);
    file.publish().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    assert_eq!(words, [boot_id(), "7".to_owned(), (until + 1).to_string()]);
}

#[test]
fn each_length_has_a_lease_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let (slots, minutes, short) =
        (LeaseLength::OfSlots, LeaseLength::Millis(600_000), LeaseLength::Millis(1));
    let all = BTreeSet::from([slots, minutes, short]);
    let open = || Leases::open(place.path().to_owned(), &all).unwrap();
    let leases = open();
    assert_eq!(leases.of(minutes).holds(), None, "none was granted");
    let begun = leases.begun();
    let sent = boot_clock();
    leases.grant(sent, Duration::from_secs(3));
    leases.publish(&all).unwrap();
    let until = |length| Lease::read(leases.of(length).path(), &boot_id()).unwrap().until - sent;
    assert_eq!(until(slots), 2_600_000_000);
    assert_eq!(until(minutes), 599_400_000_000);
    assert_eq!(until(short), until(slots), "none is shorter than that of slots");
    assert_eq!(leases.of(slots).holds(), Some(*begun.borrow()));
    let next = open();
    assert_eq!(next.of(minutes).former(), leases.of(minutes).number());

    // A heartbeat that comes too late for slots is another lease for them alone.
    let numbers = |leases: &Leases| [slots, minutes].map(|length| leases.of(length).number());
    let [of_slots, of_minutes] = numbers(&leases);
    leases.of(slots).end();
    leases.grant(boot_clock(), Duration::from_secs(3));
    let [later, same] = numbers(&leases);
    assert!(later > of_slots && same == of_minutes);
    assert_eq!(*begun.borrow(), later);
    leases.end();
    assert!([slots, minutes, short].iter().all(|length| leases.of(*length).holds().is_none()));
}

#[test]
fn a_length_that_is_new_holds_since_the_last_heartbeat_and_unused_ones_go() {
    let place = tempfile::tempdir().unwrap();
    let leases = Leases::open(place.path().to_owned(), &BTreeSet::new()).unwrap();
    let sent = boot_clock();
    leases.grant(sent, Duration::from_secs(3));
    let file = leases.of(LeaseLength::Millis(60_000));
    assert_eq!(file.holds(), leases.of(LeaseLength::OfSlots).holds());
    file.publish().unwrap();
    let found = Lease::read(file.path(), &boot_id()).unwrap();
    assert!(found.until > sent + 59 * SECONDS && found.until < sent + 60 * SECONDS);
    leases.retain(&BTreeSet::from([LeaseLength::Millis(60_000)]));
    assert!(file.path().exists());
    leases.retain(&BTreeSet::new());
    assert!(!file.path().exists());
    file.publish().unwrap();
    leases.of(LeaseLength::Millis(5_000)).publish().unwrap();
    Leases::open(place.path().to_owned(), &BTreeSet::from([LeaseLength::Millis(5_000)])).unwrap();
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lease-5000"]);
}

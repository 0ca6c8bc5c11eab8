//! Connections that come, wait and go, without sockets.

#![allow(clippy::unwrap_used)]

use super::*;

fn admit(all: &Connections, descriptor: usize) -> Option<Ticket> {
    all.admit(descriptor, ([127, 0, 0, 1], 7070).into(), ([10, 0, 0, 1], 5).into(), None)
}

#[test]
fn a_part_of_the_descriptors_is_kept_for_all_else() {
    assert_eq!(Room::of(1024), Room { descriptors: 768, refused_from: 992 });
    assert_eq!(Room::of(20_000).descriptors, 20_000 - MAX_RESERVE);
    assert_eq!(Room::of(usize::MAX).descriptors, MAX_CONNECTIONS);
    assert_eq!(Room::of(1).descriptors, 1);
}

#[test]
fn a_connection_near_the_room_makes_others_go_and_one_beyond_it_is_refused() {
    let all = Connections::new(3);
    let busy = admit(&all, 10).unwrap();
    let answering = busy.connection().begin();
    let idle = admit(&all, 11).unwrap();
    assert!(!idle.is_closed());

    // So many are wanted that all three go.
    let newest = admit(&all, Room::of(max_open_files()).descriptors).unwrap();
    assert!(newest.is_closed() && idle.is_closed() && busy.is_closed());
    assert_eq!(all.table().closing, 3);
    drop((newest, idle, busy, answering));
    assert_eq!((all.open(), all.table().closing), (0, 0));
}

/// Otherwise nobody would ever come in again where others have all that there is.
#[test]
fn a_connection_that_is_refused_makes_others_go_too() {
    let all = Connections::new(3);
    let idle = admit(&all, 11).unwrap();
    assert!(admit(&all, Room::of(max_open_files()).refused_from).is_none());
    assert!(idle.is_closed());
}

#[test]
fn connections_are_accepted_into_what_other_files_leave_of_the_room() {
    let most = most();
    assert_eq!(Connections::new(3).most_accepted(), most - 3);
    assert_eq!(Connections::new(most + 3).most_accepted(), 1);
}

#[test]
fn a_request_makes_a_connection_busy() {
    let all = Connections::new(3);
    let ticket = admit(&all, 10).unwrap();
    let connection = ticket.connection();
    assert!(connection.idle_for(all.now_ms()).is_some());
    let answering = connection.begin();
    assert_eq!(connection.idle_for(all.now_ms()), None);
    drop(answering);
    assert_eq!(
        connection.idle_for(all.now_ms() + 5000).map(|idle| idle >= Duration::from_secs(5)),
        Some(true)
    );
}

#[tokio::test]
async fn drained_waits_for_the_last_one() {
    let all = Connections::new(3);
    let ticket = admit(&all, 10).unwrap();
    let waiting = all.drained();
    tokio::pin!(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(ticket);
    waiting.await;
}

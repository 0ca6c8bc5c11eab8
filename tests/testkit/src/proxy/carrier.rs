//! Carries the bytes of one connection: for each way a thread that reads and one that writes, and between
//! them what is under way. So a delay delays every byte, and doesn't make the connection narrower.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use super::state::{Connection, Way};

const CHUNK_BYTES: usize = 16 << 10;
/// Chunks that are held for one way; whoever sends more has to wait, as with a full socket.
const MAX_HELD: usize = 64;

/// Bytes that were read, and the instant at which they are to be written.
type Chunk = (Vec<u8>, Instant);

/// Returns when both ways are at their end.
pub(super) fn carry(client: &TcpStream, server: &TcpStream, connection: &Connection) {
    let ways = [(client, server, Way::ToServer), (server, client, Way::ToClient)];
    thread::scope(|scope| {
        for (from, to, way) in ways {
            let (sender, chunks) = sync_channel(MAX_HELD);
            scope.spawn(move || read(from, &sender, connection));
            scope.spawn(move || write(to, from, &chunks, connection, way));
        }
    });
}

fn read(mut from: &TcpStream, chunks: &SyncSender<Chunk>, connection: &Connection) {
    let mut bytes = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if chunks.send((bytes[..count].to_vec(), connection.due())).is_err() {
            break;
        }
    }
    // The end comes as late as the last byte does.
    let _ = chunks.send((Vec::new(), connection.due()));
}

fn write(mut to: &TcpStream, from: &TcpStream, chunks: &Receiver<Chunk>, connection: &Connection, way: Way) {
    for (bytes, due) in chunks {
        if connection.wait_until(due, way).is_err() {
            break;
        }
        if bytes.is_empty() {
            // One way may end while the other goes on.
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Nobody takes these bytes any more: the other end is to know, and its reader here is to stop.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

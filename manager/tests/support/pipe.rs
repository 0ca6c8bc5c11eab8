//! A connection to a database that can be made to hang: nothing is refused, nothing arrives.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Passes everything on to a port of this machine, while it is open.
pub struct Pipe {
    pub port: u16,
    valve: Arc<Valve>,
}

#[derive(Default)]
struct Valve {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Valve {
    fn pass(&self) {
        drop(self.changed.wait_while(self.closed.lock().unwrap(), |closed| *closed).unwrap());
    }

    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }
}

impl Pipe {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let valve = Arc::new(Valve::default());
        let shared = Arc::clone(&valve);
        // The threads end with the test's process, or with the connections.
        thread::spawn(move || {
            for here in listener.incoming().map_while(Result::ok) {
                let Ok(there) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let (here_again, there_again) = (here.try_clone().unwrap(), there.try_clone().unwrap());
                let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || copy(here, there, &one));
                thread::spawn(move || copy(there_again, here_again, &other));
            }
        });
        Pipe { port: own, valve }
    }

    pub fn hang(&self) {
        self.valve.set(true);
    }

    pub fn flow(&self) {
        self.valve.set(false);
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.flow();
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, valve: &Valve) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count) = from.read(&mut buffer) {
        valve.pass();
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

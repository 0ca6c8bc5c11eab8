//! The terminal of `top`: its keys one by one, a screen of its own, and all as it was when it ends, also by a panic.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::io::unix::AsyncFd;

/// A screen of its own, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Quit,
    Sort,
    Reverse,
    Lines(isize),
    Pages(isize),
    First,
    Last,
}

/// The terminal while `top` has it. Dropped, it is as it was.
pub struct Terminal {
    keys: AsyncFd<OwnedFd>,
    _saved: Arc<Saved>,
}

/// The settings of the terminal before.
struct Saved {
    tty: OwnedFd,
    settings: Termios,
}

impl Saved {
    fn restore(&self) {
        let _ = io::stdout().write_all(LEAVE.as_bytes()).and_then(|()| io::stdout().flush());
        let _ = tcsetattr(&self.tty, OptionalActions::Flush, &self.settings);
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        self.restore();
    }
}

impl Terminal {
    /// Takes the terminal. It is opened anew, so that what is set for it here holds for no other process.
    pub fn enter() -> io::Result<Terminal> {
        let open = |more| rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | more, Mode::empty());
        let tty = open(OFlags::CLOEXEC)?;
        let settings = tcgetattr(&tty)?;
        let mut single = settings.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Stopped, it would leave the terminal to a shell as it is.
        single.special_codes[SpecialCodeIndex::VSUSP] = 0;
        single.special_codes[SpecialCodeIndex::VMIN] = 1;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        let saved = Arc::new(Saved { tty, settings });
        tcsetattr(&saved.tty, OptionalActions::Flush, &single)?;
        #[expect(
            deprecated,
            reason = "sound for a descriptor that is owned, and the other way is unsafe code"
        )]
        let keys = AsyncFd::new(open(OFlags::CLOEXEC | OFlags::NONBLOCK)?)?;
        show(ENTER)?;
        // The message of a panic is to be read.
        let (of_panic, before) = (Arc::downgrade(&saved), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            if let Some(saved) = of_panic.upgrade() {
                saved.restore();
            }
            before(panic);
        }));
        Ok(Terminal { keys, _saved: saved })
    }

    /// The keys that were pressed; none: the terminal is gone.
    pub async fn keys(&self) -> io::Result<Vec<Key>> {
        loop {
            let mut ready = self.keys.readable().await?;
            let mut bytes = [0; 256];
            let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut bytes)?));
            match read {
                Ok(Ok(0)) => return Ok(vec![Key::Quit]),
                Ok(Ok(count)) => return Ok(parse(&bytes[..count])),
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }

    /// Replaces what is on the screen.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut frame = String::from("\x1b[H");
        for (place, line) in lines.iter().enumerate() {
            frame.push_str(if place == 0 { "" } else { "\r\n" });
            frame.push_str(line);
            frame.push_str("\x1b[K");
        }
        frame.push_str("\x1b[J");
        show(&frame)
    }
}

fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The keys in what a terminal sends. What means nothing here is passed over.
fn parse(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 12] = [
        (b"\x1b[A", Key::Lines(-1)),
        (b"\x1b[B", Key::Lines(1)),
        (b"\x1bOA", Key::Lines(-1)),
        (b"\x1bOB", Key::Lines(1)),
        (b"\x1b[5~", Key::Pages(-1)),
        (b"\x1b[6~", Key::Pages(1)),
        (b"\x1b[D", Key::Pages(-1)),
        (b"\x1b[C", Key::Pages(1)),
        (b"\x1b[H", Key::First),
        (b"\x1b[1~", Key::First),
        (b"\x1b[F", Key::Last),
        (b"\x1b[4~", Key::Last),
    ];
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let Some((first, after)) = rest.split_first() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            keys.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        keys.extend(match first {
            b'q' | b'Q' | 3 | 4 => Some(Key::Quit),
            b's' => Some(Key::Sort),
            b'r' => Some(Key::Reverse),
            b'k' => Some(Key::Lines(-1)),
            b'j' => Some(Key::Lines(1)),
            b' ' => Some(Key::Pages(1)),
            b'b' => Some(Key::Pages(-1)),
            b'g' => Some(Key::First),
            b'G' => Some(Key::Last),
            _ => None,
        });
        rest = after;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_what_a_terminal_sends() {
        assert_eq!(parse(b"sr"), [Key::Sort, Key::Reverse]);
        assert_eq!(parse(b"\x1b[A\x1b[B\x1bOB"), [Key::Lines(-1), Key::Lines(1), Key::Lines(1)]);
        assert_eq!(parse(b"\x1b[6~q"), [Key::Pages(1), Key::Quit]);
        assert_eq!(parse(b"\x1b[99~x"), []);
        assert_eq!(parse("ü".as_bytes()), []);
    }
}

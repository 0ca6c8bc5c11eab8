//! From `clone` to `execve`: how a run's first process comes to be.
//!
//! The child shares the launcher's memory (nothing is copied), but the launcher does not wait for it as it would
//! after `vfork`: a program on a network mount that hangs keeps nobody waiting but its own child. What the child
//! reads lies in a [`Nursery`], which stays as it is until the child has executed its program or is dead. The
//! child allocates nothing, touches no thread-local variable, and writes nothing but its own stack.
//!
//! A run with a limit on memory gets a copy of the launcher's memory instead. The kernel may have to kill it for
//! that limit before it has executed anything, and then it kills whoever shares that memory as well. So does one that
//! becomes another user ([`super::privileges`] says why).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::RawFd;
use std::ptr;

use super::kernel::{MAY_SHARE_MEMORY, call, call5};
use super::privileges::{Shed, give_up};
use super::protocol::{MAX_REQUEST, Start};

const STACK: usize = 64 * 1024;
const GUARD: usize = 64 * 1024;

/// What a child was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// The request itself.
    Request = 0,
    Clone,
    Session,
    Cell,
    Limits,
    Directory,
    Descriptors,
    Execute,
    Identity,
    Capabilities,
}

impl Step {
    pub fn from_u8(step: u8) -> Self {
        [
            Step::Request,
            Step::Clone,
            Step::Session,
            Step::Cell,
            Step::Limits,
            Step::Directory,
            Step::Descriptors,
            Step::Execute,
            Step::Identity,
            Step::Capabilities,
        ]
        .into_iter()
        .find(|known| *known as u8 == step)
        .unwrap_or(Step::Request)
    }
}

/// The memory of one child before it executes its program: a stack, the request that asked for it, and pointers
/// into that request.
#[derive(Debug)]
pub(super) struct Nursery {
    /// The mapping: a page that must not be touched, then the stack.
    memory: *mut c_void,
    pub packet: Box<[u8]>,
    /// Arguments and variables, each list closed by a null.
    pointers: Vec<*const c_char>,
    /// The files to write to in order to join the cell, closed by a null.
    joins: Vec<*const c_char>,
    orders: Orders,
}

/// What the child is to do, in the kernel's terms.
#[derive(Debug, Clone, Copy)]
struct Orders {
    directory: *const c_char,
    program: *const c_char,
    arguments: *const *const c_char,
    variables: *const *const c_char,
    joins: *const *const c_char,
    around: Around,
}

/// What a child needs besides its strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    /// Closed by the child before anything that may take long, or the agent could not see the launcher's end.
    pub socket: RawFd,
    /// Where a failure is written; it closes when the program is executed.
    pub status: RawFd,
    /// None is the launcher's own, which is `/dev/null`.
    pub stdin: Option<RawFd>,
    pub stdout: RawFd,
    pub stderr: RawFd,
    /// The program's file itself, if not whatever lies at its path shall be executed.
    pub program: Option<Program>,
    pub launcher: i32,
    /// None: it keeps everything.
    pub shed: Option<Shed>,
    pub open_files: libc::rlimit64,
    pub address_space: Option<u64>,
    /// The most processes that its user may have, this machine's others among them.
    pub user_processes: Option<u64>,
    pub shares_memory: bool,
}

/// An open file that is to be executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub descriptor: RawFd,
    /// Whether an interpreter opens it once more, for which it has to stay open.
    pub script: bool,
}

impl Nursery {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice takes nothing from anybody.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                GUARD + STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let nursery = Nursery {
            memory,
            // Zeroed memory of this size is mapped when it is first touched, so a small request costs a page.
            packet: vec![0; MAX_REQUEST].into_boxed_slice(),
            pointers: Vec::new(),
            joins: Vec::new(),
            orders: Orders::none(),
        };
        // SAFETY: the range is the lower end of the mapping made above, which nothing uses.
        if unsafe { libc::mprotect(memory, GUARD, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(nursery)
    }

    /// Makes the child and returns its process id. `length` is how much of the packet is the request; `joins`
    /// must stay where they are until the child has executed its program or is dead.
    pub fn spawn<'a>(
        &mut self,
        length: usize,
        joins: impl Iterator<Item = &'a CStr>,
        around: Around,
    ) -> io::Result<i32> {
        let request = super::protocol::Request::decode(&self.packet[..length]);
        let Some(super::protocol::Request::Start(start)) = request else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let (directory, program) = point(&start, &mut self.pointers);
        self.joins.clear();
        self.joins.extend(joins.map(CStr::as_ptr));
        self.joins.push(ptr::null());
        let arguments = self.pointers.as_ptr();
        self.orders = Orders {
            directory,
            program,
            arguments,
            // The arguments are followed by a null, then come the variables.
            variables: arguments.wrapping_add(start.arguments + 1),
            joins: self.joins.as_ptr(),
            around,
        };
        let flags = if around.shares_memory && MAY_SHARE_MEMORY { libc::CLONE_VM } else { 0 };
        // SAFETY: the stack is this nursery's own and is used by no other child, because a nursery is given out
        // again only after its child has executed or is dead. `run_child` never returns, reads only what the
        // nursery holds, and is written to be safe in shared memory.
        let pid = unsafe {
            libc::clone(
                run_child,
                self.memory.byte_add(GUARD + STACK),
                flags | libc::SIGCHLD,
                (&raw mut self.orders).cast(),
            )
        };
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // SAFETY: the mapping is this nursery's own, and no child is in it (see `spawn`).
        unsafe { libc::munmap(self.memory, GUARD + STACK) };
    }
}

impl Orders {
    fn none() -> Self {
        let unlimited = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        Orders {
            directory: ptr::null(),
            program: ptr::null(),
            arguments: ptr::null(),
            variables: ptr::null(),
            joins: ptr::null(),
            around: Around {
                socket: -1,
                status: -1,
                stdin: None,
                stdout: -1,
                stderr: -1,
                program: None,
                launcher: 0,
                shed: None,
                open_files: unlimited,
                address_space: None,
                user_processes: None,
                shares_memory: false,
            },
        }
    }
}

/// Points at each string of a request; returns the directory and the program.
fn point(start: &Start<'_>, pointers: &mut Vec<*const c_char>) -> (*const c_char, *const c_char) {
    pointers.clear();
    let mut strings = start.strings.split_inclusive(|byte| *byte == 0).map(|text| text.as_ptr().cast());
    let directory = strings.next().unwrap_or(ptr::null());
    let program = strings.next().unwrap_or(ptr::null());
    pointers.extend(strings.by_ref().take(start.arguments));
    pointers.push(ptr::null());
    pointers.extend(strings.take(start.variables));
    pointers.push(ptr::null());
    (directory, program)
}

/// The child. It has the launcher's descriptors (copies), its signal dispositions (all default) and its mask
/// (all blocked), and nothing handles a signal here, so nothing runs in between.
extern "C" fn run_child(orders: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes its nursery's orders, which stay as they are while this child is in it.
    let orders = unsafe { *orders.cast::<Orders>() };
    // SAFETY: the pointers in the orders are those of `spawn`: strings that end in NUL and lists that end in null.
    let (step, error) = match unsafe { follow(&orders) } {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    let mut report = [0_u8; 8];
    report[0] = step as u8;
    report[4..].copy_from_slice(&error.to_ne_bytes());
    // SAFETY: eight bytes of this stack are written to a descriptor, and then this process ends.
    unsafe {
        call(libc::SYS_write, [orders.around.status as usize, report.as_ptr() as usize, report.len(), 0]);
        loop {
            call(libc::SYS_exit_group, [127, 0, 0, 0]);
        }
    }
}

/// What a child reports through its status pipe: step, error.
pub(super) fn read_report(report: [u8; 8]) -> (Step, i32) {
    (Step::from_u8(report[0]), i32::from_ne_bytes([report[4], report[5], report[6], report[7]]))
}

/// Does everything up to the program itself; returns only with what failed.
///
/// # Safety
/// Only for a child that [`Nursery::spawn`] made, with its orders.
unsafe fn follow(orders: &Orders) -> Result<std::convert::Infallible, (Step, i32)> {
    let around = &orders.around;
    let no_signals = 0_u64;
    // SAFETY: each call is given what it takes; descriptors are the launcher's, strings and lists are those of
    // the orders, and structures lie on this stack.
    unsafe {
        call(libc::SYS_close, [around.socket as usize, 0, 0, 0]);
        check(Step::Session, call(libc::SYS_setsid, [0; 4]))?;
        die_with(around.launcher)?;
        join(orders.joins)?;
        limit(libc::RLIMIT_NOFILE as usize, &around.open_files)?;
        for (resource, most) in
            [(libc::RLIMIT_AS, around.address_space), (libc::RLIMIT_NPROC, around.user_processes)]
        {
            if let Some(most) = most {
                limit(resource as usize, &libc::rlimit64 { rlim_cur: most, rlim_max: most })?;
            }
        }
        let directory = [orders.directory as usize, 0, 0, 0];
        let changed = call(libc::SYS_chdir, directory);
        // The launcher's descriptors from 3 on are all close-on-exec; a copy made here is not.
        for (from, to) in [(around.stdin.unwrap_or(-1), 0), (around.stdout, 1), (around.stderr, 2)] {
            if from >= 0 {
                check(Step::Descriptors, call(libc::SYS_dup3, [from as usize, to, 0, 0]))?;
            }
        }
        if let Some(shed) = &around.shed {
            give_up(shed)?;
            // Forgotten by the kernel with the change of the user.
            die_with(around.launcher)?;
        }
        if changed < 0 {
            // Its own folder may be closed to the agent.
            check(Step::Directory, call(libc::SYS_chdir, directory))?;
        }
        let mask = [libc::SIG_SETMASK as usize, (&raw const no_signals) as usize, 0, 8];
        check(Step::Session, call(libc::SYS_rt_sigprocmask, mask))?;
        Err((Step::Execute, execute(orders)))
    }
}

/// Returns only with why it failed.
///
/// # Safety
/// Only for a child that [`Nursery::spawn`] made, with its orders.
unsafe fn execute(orders: &Orders) -> i32 {
    let (arguments, variables) = (orders.arguments as usize, orders.variables as usize);
    // SAFETY: strings and lists are those of the orders, and the descriptor is this child's copy.
    let failed = unsafe {
        match orders.around.program {
            None => call(libc::SYS_execve, [orders.program as usize, arguments, variables, 0]),
            Some(Program { descriptor, script }) => {
                let descriptor = descriptor as usize;
                if script {
                    // The kernel tells the interpreter to open `/dev/fd/N`.
                    call(libc::SYS_fcntl, [descriptor, libc::F_SETFD as usize, 0, 0]);
                }
                let none = c"".as_ptr() as usize;
                let itself = libc::AT_EMPTY_PATH as usize;
                call5(libc::SYS_execveat, [descriptor, none, arguments, variables, itself])
            }
        }
    };
    -failed as i32
}

/// Has the kernel kill this process when the launcher dies.
///
/// # Safety
/// Only for a child that [`Nursery::spawn`] made.
unsafe fn die_with(launcher: i32) -> Result<(), (Step, i32)> {
    let sigkill = libc::SIGKILL as usize;
    // SAFETY: the calls take numbers.
    unsafe {
        check(Step::Session, call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, sigkill, 0, 0]))?;
        // A launcher that died before this line sends no signal.
        if call(libc::SYS_getppid, [0; 4]) != launcher as isize {
            return Err((Step::Session, libc::ESRCH));
        }
    }
    Ok(())
}

/// Writes this process into each of the cell's groups.
///
/// # Safety
/// `joins` is a list of strings that ends in null.
unsafe fn join(joins: *const *const c_char) -> Result<(), (Step, i32)> {
    let mut next = joins;
    // SAFETY: the list ends in null, and its strings in NUL.
    unsafe {
        while !(*next).is_null() {
            let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
            let open = [libc::AT_FDCWD as usize, *next as usize, flags, 0];
            let file = check(Step::Cell, call(libc::SYS_openat, open))?;
            // "0" stands for whoever writes it.
            check(Step::Cell, call(libc::SYS_write, [file, c"0".as_ptr() as usize, 1, 0]))?;
            call(libc::SYS_close, [file, 0, 0, 0]);
            next = next.add(1);
        }
    }
    Ok(())
}

/// # Safety
/// Only for a child that [`Nursery::spawn`] made.
unsafe fn limit(resource: usize, to: &libc::rlimit64) -> Result<(), (Step, i32)> {
    // SAFETY: 0 means this process; the structure outlives the call; the old limits are not asked for.
    let result = unsafe { call(libc::SYS_prlimit64, [0, resource, ptr::from_ref(to) as usize, 0]) };
    check(Step::Limits, result).map(drop)
}

pub(super) fn check(step: Step, result: isize) -> Result<usize, (Step, i32)> {
    if result < 0 { Err((step, -result as i32)) } else { Ok(result as usize) }
}

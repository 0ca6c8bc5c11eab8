//! System calls for a process that shares its parent's memory: straight to the kernel, touching nothing else.
//!
//! The C library keeps `errno` in memory that child and launcher would share, and both run at the same time. So
//! the child makes its calls itself, on the processors named here; on any other the child gets its own copy of
//! the launcher's (small) memory, and the C library's calls do.

/// Whether a child may share the launcher's memory until it executes its program.
pub(super) const MAY_SHARE_MEMORY: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Makes a system call of at most four arguments; a negative result is an error number.
///
/// # Safety
/// As for [`call5`].
pub(super) unsafe fn call(number: libc::c_long, [one, two, three, four]: [usize; 4]) -> isize {
    // SAFETY: the caller answers for it.
    unsafe { call5(number, [one, two, three, four, 0]) }
}

/// Makes a system call; a negative result is an error number.
///
/// # Safety
/// The arguments must be what the call `number` takes.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call5(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let result: isize;
    // SAFETY: the kernel takes its arguments in these registers and changes only rax, rcx and r11; the caller
    // answers for what they mean.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes a system call; a negative result is an error number.
///
/// # Safety
/// The arguments must be what the call `number` takes.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn call5(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let result: isize;
    // SAFETY: the kernel takes its arguments in these registers and changes only x0; the caller answers for
    // what they mean.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            options(nostack),
        );
    }
    result
}

/// Makes a system call; a negative result is an error number.
///
/// # Safety
/// The arguments must be what the call `number` takes, and this process must share its memory with no other.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) unsafe fn call5(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let [one, two, three, four, five] = arguments;
    // SAFETY: the caller answers for the arguments.
    let result = unsafe { libc::syscall(number, one, two, three, four, five) } as isize;
    if result == -1 {
        return -(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) as isize);
    }
    result
}

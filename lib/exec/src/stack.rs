//! The stack of a child that shares the launcher's memory, until it executes its program.

use std::ffi::c_void;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

/// A child goes some ten calls deep and keeps little on its stack.
const STACK: usize = 64 * 1024;
/// Below the stack. A child that went too deep would end, and not write to the launcher's memory.
const GUARD: usize = 64 * 1024;

/// A mapping: a part that must not be touched, then the stack.
#[derive(Debug)]
pub(super) struct Stack(*mut c_void);

impl Stack {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that is there.
        let mapping = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap_anonymous(ptr::null_mut(), GUARD + STACK, access, MapFlags::PRIVATE)
        }?;
        let stack = Stack(mapping);
        // SAFETY: the range is the lower part of the mapping made above, which nothing uses.
        unsafe { rustix::mm::mprotect(mapping, GUARD, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// Where it begins: it grows downwards.
    pub fn top(&self) -> *mut c_void {
        self.0.wrapping_byte_add(GUARD + STACK)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and it is not dropped before its child is off it.
        let _ = unsafe { rustix::mm::munmap(self.0, GUARD + STACK) };
    }
}

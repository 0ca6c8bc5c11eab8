//! Memory, semaphores and queues of System V, which outlive the processes that made them.

use std::collections::BTreeSet;
use std::fs;
use std::ptr;

/// A table of the kernel's, and how an entry of it is removed.
struct Table {
    path: &'static str,
    /// The columns of the entry's id and of its owner.
    id: usize,
    owner: usize,
    remove: fn(i32),
}

const TABLES: [Table; 3] = [
    Table { path: "/proc/sysvipc/shm", id: 1, owner: 7, remove: remove_memory },
    Table { path: "/proc/sysvipc/sem", id: 1, owner: 4, remove: remove_semaphores },
    Table { path: "/proc/sysvipc/msg", id: 1, owner: 7, remove: remove_queue },
];

/// Removes all that these users own, as far as this process may.
pub fn remove_ipc_of(users: &BTreeSet<u32>) {
    for Table { path, id, owner, remove } in TABLES {
        let text = fs::read_to_string(path).unwrap_or_default();
        entries(&text, id, owner).filter(|(_, owner)| users.contains(owner)).for_each(|(id, _)| remove(id));
    }
}

fn entries(text: &str, id: usize, owner: usize) -> impl Iterator<Item = (i32, u32)> {
    text.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some((fields.get(id)?.parse().ok()?, fields.get(owner)?.parse().ok()?))
    })
}

fn remove_memory(id: i32) {
    // SAFETY: the removal takes an id alone.
    unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) };
}

fn remove_semaphores(id: i32) {
    // SAFETY: as above.
    unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
}

fn remove_queue(id: i32) {
    // SAFETY: as above.
    unsafe { libc::msgctl(id, libc::IPC_RMID, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHM: &str = "\
       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime
         0         65   600                  4096  7  8      0 300001   300001 300001 300001          0
";
    const SEM: &str = "\
       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
-559038737          3   644          1 300002 300002 300002 300002          0 1700000000
";
    const MSG: &str = "\
       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime
         0          9   644           0          0     0     0 300003   300003 300003 300003          0
";

    #[test]
    fn entries_are_read_with_their_owners() {
        for (table, text, entry) in [(0, SHM, (65, 300_001)), (1, SEM, (3, 300_002)), (2, MSG, (9, 300_003))]
        {
            let Table { id, owner, .. } = TABLES[table];
            assert_eq!(entries(text, id, owner).collect::<Vec<_>>(), [entry]);
        }
    }
}

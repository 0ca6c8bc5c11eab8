//! `disk`: space of each file system, in bytes and in inodes.
//!
//! Mounts are read from `mountinfo`, their sizes from `statvfs`. Pseudo file systems are left out, and a file system
//! that is mounted several times is listed once, by the mount that shows most of it. Invariant: a server that does
//! not answer holds nothing up. File systems of the network are asked only on request, each in a thread of its own,
//! and one that still waits is not asked again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::mounts::{Mount, Tree};
use crate::samples::fraction;
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Param, Params, Reading, Roots, Surroundings,
    figures, files, mounts,
};

mod asking;

use asking::{Asker, Space};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "disk",
    about: "space and inodes of each mounted file system",
    params: &[Param::optional(
        "network",
        "true: file systems of the network too (nfs, cifs, fuse and others); they are left out by default",
    )],
    default: Some(DefaultRegistration { every: 15.0, once: false }),
    make,
};

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let network = params.switch("network")?.unwrap_or(false);
    Ok(Box::new(Disk { roots: around.roots.clone(), network, asker: Asker::default() }))
}

struct Disk {
    roots: Roots,
    network: bool,
    asker: Asker,
}

impl Collector for Disk {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let all = mounts::parse(&files::required(&files::of_machine(&self.roots, "mountinfo"))?);
        let below = |mount: &Mount| files::below(&self.roots.root, &mount.point);
        let (remote, local): (Vec<_>, Vec<_>) =
            chosen(&all, self.network, |mount| below(mount).is_dir()).into_iter().partition(|(_, far)| *far);
        let local = local.into_iter().map(|(mount, _)| (mount, asking::space(&below(mount))));
        let mut entries: Vec<figures::Entry> =
            local.filter_map(|(mount, space)| entry(mount, space.ok()?)).collect();
        let paths: Vec<PathBuf> = remote.iter().map(|(mount, _)| below(mount)).collect();
        let spaces = self.asker.ask(&paths, until);
        let mut silent = Vec::new();
        for ((mount, _), space) in remote.into_iter().zip(spaces) {
            match space {
                Some(space) => entries.extend(space.ok().and_then(|space| entry(mount, space))),
                None => silent.push(mount.point.to_string_lossy()),
            }
        }
        if entries.is_empty() && silent.is_empty() {
            return Err(Failure::NotHere("no file system of a disk is mounted".to_owned()));
        }
        let (mounts, left_out) = figures::object(entries);
        let mut value = json!({"mounts": mounts, "leftOut": left_out});
        if self.network {
            value["silent"] = json!(silent);
        }
        Ok(Reading::Here(value))
    }
}

/// Where the bytes of a kind of file system are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Disk,
    Network,
    /// Nowhere of its own, or an image that is always full; of interest only if the whole machine stands on it, as
    /// containers and diskless nodes do.
    OnlyAsRoot,
    Nowhere,
}

fn place(kind: &str) -> Place {
    match kind {
        "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "ncpfs" | "afs" | "coda" | "ceph" | "9p"
        | "virtiofs" | "lustre" | "gpfs" | "beegfs" | "panfs" | "orangefs" | "pvfs2" | "glusterfs"
        | "vboxsf" | "vmhgfs" | "fuse" => Place::Network,
        _ if kind.starts_with("fuse.") => Place::Network,
        "tmpfs" | "ramfs" | "rootfs" | "overlay" | "aufs" | "squashfs" | "erofs" | "cramfs" | "romfs"
        | "iso9660" | "udf" => Place::OnlyAsRoot,
        "autofs" | "binder" | "binfmt_misc" | "bpf" | "cgroup" | "cgroup2" | "configfs" | "debugfs"
        | "devfs" | "devpts" | "devtmpfs" | "efivarfs" | "fusectl" | "hugetlbfs" | "mqueue" | "nfsd"
        | "nsfs" | "proc" | "pstore" | "resctrl" | "rpc_pipefs" | "securityfs" | "selinuxfs" | "sysfs"
        | "tracefs" => Place::Nowhere,
        // Kinds that nobody here knows are more likely disks; a pseudo file system without blocks is found out later.
        _ => Place::Disk,
    }
}

/// The mounts to tell about, each with whether it is reached over the network.
fn chosen(all: &[Mount], network: bool, is_folder: impl Fn(&Mount) -> bool) -> Vec<(&Mount, bool)> {
    let tree = Tree::new(all);
    let remote: Vec<&Path> = all
        .iter()
        .filter(|mount| place(&mount.kind) == Place::Network)
        .map(|mount| mount.point.as_path())
        .collect();
    let mut by_device: HashMap<&str, (&Mount, bool)> = HashMap::new();
    for mount in all {
        let counts = match place(&mount.kind) {
            Place::Disk | Place::Network => true,
            Place::OnlyAsRoot => mount.point == Path::new("/"),
            Place::Nowhere => false,
        };
        // The way to a mount below a dead server is as dead.
        let far = remote.iter().any(|point| mount.point.starts_with(point));
        if !counts || (far && !network) || tree.hidden(mount) {
            continue;
        }
        // A single file that is mounted somewhere (as containers have it) is no place to put anything. Whether it is
        // one cannot be asked of a server that may be dead.
        if !far && mount.root != Path::new("/") && !is_folder(mount) {
            continue;
        }
        let better = |other: &Mount| rank(mount) < rank(other);
        if by_device.get(mount.device.as_str()).is_none_or(|(other, _)| better(other)) {
            by_device.insert(&mount.device, (mount, far));
        }
    }
    let mut chosen: Vec<_> = by_device.into_values().collect();
    chosen.sort_by(|(one, _), (other, _)| one.point.cmp(&other.point));
    chosen
}

/// All of a file system before a part of it, and what is nearer to the top before what is deeper.
fn rank(mount: &Mount) -> (bool, usize, &Path) {
    (mount.root != Path::new("/"), mount.point.components().count(), &mount.point)
}

fn entry(mount: &Mount, space: Space) -> Option<figures::Entry> {
    if space.total == 0 {
        return None;
    }
    let used = space.total.saturating_sub(space.free);
    // Space kept for the administrator counts as neither, as in `df`.
    let usable = used.saturating_add(space.available) as f64;
    let inodes_used = space.inodes.saturating_sub(space.inodes_free);
    let inodes = (space.inodes > 0).then(|| {
        json!({
            "total": space.inodes,
            "used": inodes_used,
            "free": space.inodes_free,
            "usedFraction": figures::fraction(fraction(inodes_used as f64, space.inodes as f64)),
        })
    });
    let value = json!({
        "device": mount.source,
        "type": mount.kind,
        "totalBytes": space.total,
        "usedBytes": used,
        "availableBytes": space.available,
        "freeBytes": space.free,
        "usedFraction": figures::fraction(fraction(used as f64, usable)),
        "inodes": inodes,
        "readOnly": mount.read_only,
    });
    Some(figures::Entry { name: mount.point.to_string_lossy().into_owned(), weight: space.total, value })
}

#[cfg(test)]
mod tests;

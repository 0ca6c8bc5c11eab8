//! The socket between the agent and its launcher: whole packets, with descriptors riding along.
//!
//! A packet arrives whole or not at all, so there is no framing to lose. Nothing here blocks, and every
//! descriptor that arrives is close-on-exec from its first moment.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// A run brings the ends of its standard input, output and error, and the file of its program.
pub(super) const MAX_DESCRIPTORS: usize = 4;

/// A connected pair, one end for each process.
pub(super) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Sends one packet, or fails with `AGAIN` when the other side is behind.
pub(super) fn send(
    socket: impl AsFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The result of one call to [`receive`].
#[derive(Debug)]
pub(super) enum ReceivedPacket {
    /// A packet of so many bytes, which are in the buffer.
    Packet(usize),
    /// A packet that was larger than the buffer; the part that arrived is of no use.
    TooLarge,
    /// The other side is gone.
    End,
}

/// Takes one packet, or fails with `AGAIN` when there is none.
pub(super) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> rustix::io::Result<ReceivedPacket> {
    descriptors.clear();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(buffer)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(arrived) = part {
            descriptors.extend(arrived);
        }
    }
    if message.bytes == 0 {
        return Ok(ReceivedPacket::End);
    }
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        descriptors.clear();
        return Ok(ReceivedPacket::TooLarge);
    }
    Ok(ReceivedPacket::Packet(message.bytes))
}

//! A piece of a file as it arrives: in parts of any size, which are written together, beside the threads that answer.

use bytes::Bytes;
use estimand_api::file::FileEntry;
use estimand_api::file::UploadProgress;
use estimand_api::problem::Problem;
use estimand_web::Permit;

use super::entries;
use super::problems;
use crate::FileService;
use crate::home::Home;
use crate::upload_error::UploadError;
use crate::uploads::{Piece, Received, Upload};

/// How much is written at a time.
const WRITTEN_TOGETHER: usize = 256 * 1024;

pub struct ArrivingPiece {
    service: FileService,
    upload: Upload,
    piece: Piece,
    waiting: Vec<u8>,
    /// The part of the user's share.
    _share: Permit,
}

/// The outcome of a piece.
pub enum Arrived {
    Piece(UploadProgress),
    File(FileEntry),
}

impl ArrivingPiece {
    pub async fn begin(
        service: &FileService,
        home: &Home,
        upload: Upload,
        offset: u64,
    ) -> Result<Self, Problem> {
        let share = home.begin_upload()?;
        let asked = upload.clone();
        let place = service.writing().take(&upload.owner).await?;
        let piece = service.blocking(move |inner| (inner.uploads.begin(asked, offset), place).0).await?;
        let piece = piece.map_err(|error| problems::of_upload(error, &upload))?;
        Ok(ArrivingPiece { service: service.clone(), upload, piece, waiting: Vec::new(), _share: share })
    }

    /// Takes the next part; the piece is over if this fails.
    pub async fn add(mut self, part: &Bytes) -> Result<Self, Problem> {
        self.waiting.extend_from_slice(part);
        if self.waiting.len() < WRITTEN_TOGETHER { Ok(self) } else { self.written().await }
    }

    /// Writes what waits.
    async fn written(mut self) -> Result<Self, Problem> {
        let waiting = std::mem::take(&mut self.waiting);
        let bytes = waiting.len() as u64;
        let mut piece = self.piece;
        // None is held while bytes are waited for.
        let place = self.service.writing().take(&self.upload.owner).await?;
        let outcome = self.service.blocking(move |_| {
            let _place = place;
            match piece.write(&waiting) {
                Ok(()) => Ok(piece),
                // The reason why it ends is what people are told.
                Err(error) => Err((piece.keep(), error).1),
            }
        });
        self.piece = outcome.await?.map_err(|error| problems::of_upload(error, &self.upload))?;
        self.service.figures().received_bytes.add(bytes);
        Ok(self)
    }

    /// Makes what has come durable. The file has its name if that is all of it.
    pub async fn end(self) -> Result<Arrived, Problem> {
        let ArrivingPiece { service, upload, piece, .. } = self.written().await?;
        let (path, place) = (upload.path.clone(), upload.place.clone());
        let ended = service.blocking(move |inner| match piece.end()? {
            Received::Piece(progress) => Ok(Arrived::Piece(progress)),
            Received::File { sha256 } => {
                let file = inner.root.file(&place)?;
                inner.digests.learn(&file, sha256)?;
                inner.figures.files_received.increment();
                Ok(Arrived::File(entries::entry(&path, &file, Some(sha256))?))
            }
        });
        ended.await?.map_err(|error: UploadError| problems::of_upload(error, &upload))
    }

    /// Keeps what has come of a piece that breaks off.
    pub async fn keep(self) {
        let Ok(ArrivingPiece { service, piece, .. }) = self.written().await else { return };
        let _ = service.blocking(move |_| piece.keep()).await;
    }
}

//! The pace at which a piece must come: whoever sends a byte now and then holds an upload, its file and its memory for
//! nothing.

use std::time::Duration;

use estimand_api::problem::{FieldError, Problem};
use tokio::time::{Instant, timeout};

/// How long the next bytes of a piece may take.
const NEXT_BYTES_WITHIN: Duration = Duration::from_secs(10);
/// So many bytes must come in the time that they may be waited for: some 2 KiB a second.
const LEAST_BYTES: usize = 64 * 1024;
const LEAST_WITHIN: Duration = Duration::from_secs(30);

/// The bytes that came lately, and how long they were waited for. What the disk takes of the time counts for nobody.
#[derive(Debug, Default)]
pub struct Pace {
    bytes: usize,
    waited: Duration,
}

impl Pace {
    /// Waits for the next bytes, of which `length` says how many there are.
    pub async fn next<T>(
        &mut self,
        coming: impl Future<Output = T>,
        length: impl FnOnce(&T) -> usize,
    ) -> Result<T, Problem> {
        let began = Instant::now();
        let within = NEXT_BYTES_WITHIN.min(LEAST_WITHIN.saturating_sub(self.waited));
        let came = timeout(within, coming).await.map_err(|_| self.too_slow(began.elapsed()))?;
        self.waited += began.elapsed();
        self.bytes += length(&came);
        if self.bytes >= LEAST_BYTES {
            *self = Pace::default();
        }
        Ok(came)
    }

    fn too_slow(&self, waited: Duration) -> Problem {
        let message = if waited < NEXT_BYTES_WITHIN {
            format!(
                "comes too slowly: {} bytes in {} s; what came is kept",
                self.bytes,
                LEAST_WITHIN.as_secs()
            )
        } else {
            format!("did not go on for {} seconds; what came is kept", NEXT_BYTES_WITHIN.as_secs())
        };
        let expected = format!("at least {LEAST_BYTES} bytes in {} s", LEAST_WITHIN.as_secs());
        Problem::invalid_field(FieldError::new("body", message).expected(expected))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::pending;

    use tokio::time::sleep;

    use super::*;

    /// How long a sender of so many bytes at a time, with pauses, is listened to.
    async fn listened_to(bytes: usize, pause: Duration) -> (Duration, Option<Problem>) {
        let began = Instant::now();
        let mut pace = Pace::default();
        for _ in 0..1_000 {
            let coming = async {
                sleep(pause).await;
                bytes
            };
            if let Err(problem) = pace.next(coming, |bytes| *bytes).await {
                return (began.elapsed(), Some(problem));
            }
        }
        (began.elapsed(), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_now_and_then_is_not_enough() {
        let (listened, problem) = listened_to(1, Duration::from_secs(4)).await;
        assert_eq!(listened, LEAST_WITHIN);
        assert!(problem.unwrap().errors[0].message.contains("7 bytes in 30 s"));
        assert_eq!(listened_to(8 * 1024, Duration::from_secs(3)).await, (Duration::from_secs(3_000), None));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_heard_for_ten_seconds() {
        let began = Instant::now();
        let problem = Pace::default().next(pending::<usize>(), |bytes| *bytes).await.unwrap_err();
        assert_eq!(began.elapsed(), NEXT_BYTES_WITHIN);
        assert!(problem.errors[0].message.contains("did not go on for 10 seconds"), "{problem:?}");
    }
}

//! An object that is filled figure by figure: those that a device does not give are left out with the reason
//! kept, so that a device that is gone is told from one that lacks a sensor.

use nvml_wrapper::error::NvmlError;
use serde_json::{Map, Value};

/// True if a device, or the driver as a whole, is gone.
pub(super) fn gone(error: &NvmlError) -> bool {
    use NvmlError as E;
    matches!(error, E::GpuLost | E::ResetRequired | E::Uninitialized | E::DriverNotLoaded)
}

/// True if the device only lacks the figure.
fn lacks(error: &NvmlError) -> bool {
    use NvmlError as E;
    matches!(
        error,
        E::NotSupported | E::FailedToLoadSymbol(_) | E::FunctionNotFound | E::NotFound | E::InvalidArg
    )
}

#[derive(Default)]
pub(super) struct Figures {
    object: Map<String, Value>,
    lost: Option<NvmlError>,
    odd: Option<NvmlError>,
}

impl Figures {
    /// The answer, if there is one; a device that is gone is not asked again.
    pub(super) fn ask<T>(&mut self, ask: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        if self.lost.is_some() {
            return None;
        }
        match ask() {
            Ok(answer) => return Some(answer),
            Err(error) if gone(&error) => self.lost = Some(error),
            Err(error) if lacks(&error) => {}
            Err(error) => self.odd = self.odd.take().or(Some(error)),
        }
        None
    }

    /// Puts an answer under a name.
    pub(super) fn put<T: Into<Value>>(&mut self, name: &str, ask: impl FnOnce() -> Result<T, NvmlError>) {
        if let Some(answer) = self.ask(ask) {
            self.set(name, answer);
        }
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.object.insert(name.to_owned(), value.into());
    }

    /// Fills an object of its own, which is left out if nothing is in it.
    pub(super) fn part(&mut self, name: &str, fill: impl FnOnce(&mut Figures)) {
        let mut part = Figures { lost: self.lost.take(), odd: self.odd.take(), ..Figures::default() };
        fill(&mut part);
        (self.lost, self.odd) = (part.lost, part.odd);
        if !part.object.is_empty() {
            self.set(name, part.object);
        }
    }

    /// The figures, and why the device is not to be counted on: it is gone, or gave nothing at all.
    pub(super) fn end(self) -> (Map<String, Value>, Option<NvmlError>) {
        let nothing = self.object.is_empty();
        let trouble = self.lost.or(self.odd.filter(|_| nothing));
        (self.object, trouble.or(nothing.then_some(NvmlError::NoData)))
    }
}

//! One run: what its parts share.

use crate::contest::Plan;
use crate::cores::Cores;
use crate::keys::Keys;
use crate::place::Place;
use crate::report::Report;
use crate::served::BindingTarget;

/// The means of most parts.
const KEYS: Keys = Keys { names: 5_000, nodes: 100 };

pub struct Bench {
    pub cores: Cores,
    pub plan: Plan,
    pub place: Place,
    pub keys: Keys,
    pub report: Report,
    /// The service on SQLite, with all values in it; filled by the first part that needs it.
    pub served: Option<BindingTarget>,
}

impl Bench {
    pub fn new(cores: Cores, plan: Plan, as_json: bool) -> anyhow::Result<Self> {
        let place = Place::choose()?;
        let mut report = Report::new(!as_json);
        let Cores { load, servers } = cores;
        report.about(format!("load on core {load}, everything that is measured on core {servers}"));
        if load == servers {
            report.about(
                "there is only one core: the generator takes its share of what is measured".to_owned(),
            );
        }
        if cfg!(debug_assertions) {
            report.about("this is a debug build: its figures say little".to_owned());
        }
        report.about(format!("data on {}", place.file_system));
        let Plan { rounds, time } = plan;
        report.about(format!("{rounds} rounds of {} s a side, after one to warm up", time.as_secs_f64()));
        Ok(Bench { cores, plan, place, keys: KEYS, report, served: None })
    }

    /// A new, empty service on SQLite.
    pub fn start_service(&self) -> anyhow::Result<BindingTarget> {
        BindingTarget::start(self.cores, self.keys, Some(&self.place.path("service")), None)
    }

    /// The filled service on SQLite.
    pub fn filled(&mut self) -> anyhow::Result<&BindingTarget> {
        if self.served.is_none() {
            let served = self.start_service()?;
            served.fill()?;
            self.served = Some(served);
        }
        self.served.as_ref().ok_or_else(|| anyhow::anyhow!("it was put there just now"))
    }
}

//! Everything that handlers and background loops share.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use estimand_api::problem::Problem;
use estimand_client::Client;
use estimand_runtime::{Clock, Rounds};
use estimand_service::Published;
use estimand_web::Scope;
use tokio::sync::{SetOnce, watch};

use crate::change::{Change, NAME, Rejection};
use crate::choice::Choice;
use crate::metrics::Figures;
use crate::predictions::{Goods, Predictions};
use crate::prices::Prices;
use crate::reservation::Reservation;
use crate::settings::Settings;
use crate::table::Table;

pub struct Shared {
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
    pub table: Published<Table>,
    /// The task service, which has the ledger.
    pub ledger: SetOnce<Client>,
    /// The data service, which has the choice of a predictor; none: none is chosen.
    pub facts: SetOnce<Client>,
    /// The choice as it was heard last; none: nothing was heard yet.
    pub heard_choice: watch::Sender<Option<Choice>>,
    /// The capacity that is sold, as it was when the ledger was read last.
    pub goods: watch::Sender<Arc<Goods>>,
    /// None until the first were trained.
    pub predictions: watch::Sender<Option<Arc<Predictions>>>,
    /// The prices as they were when the ledger was read last.
    pub prices: ArcSwapOption<Prices>,
    /// The revision of the ledger that was heard of last.
    pub revision: watch::Sender<u64>,
    /// Something is to be released or submitted.
    pub tidying: Rounds,
    pub following: Rounds,
    pub training: Rounds,
    /// Starts may be due.
    pub publishing: Rounds,
    pub figures: Figures,
}

impl Shared {
    pub fn new(clock: Arc<dyn Clock>, settings: Settings) -> Self {
        Shared {
            clock,
            settings,
            table: Published::new(NAME),
            ledger: SetOnce::new(),
            facts: SetOnce::new(),
            heard_choice: watch::Sender::new(None),
            goods: watch::Sender::default(),
            predictions: watch::Sender::new(None),
            prices: ArcSwapOption::empty(),
            revision: watch::Sender::new(0),
            tidying: Rounds::new(),
            following: Rounds::new(),
            training: Rounds::new(),
            publishing: Rounds::new(),
            figures: Figures::default(),
        }
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u64 {
        u64::try_from(self.clock.now_micros().div_euclid(1_000_000)).unwrap_or(0)
    }

    /// The reservation of this id, if a caller sees it.
    pub fn find(&self, scope: &Scope, id: &str) -> Result<Arc<Reservation>, Problem> {
        let found = self.table.loaded(|table| table.find(scope, id).cloned())?;
        found.ok_or_else(|| Problem::not_found(Rejection::Unknown(id.to_owned()).to_string()))
    }

    /// The prices, if the ledger was ever read.
    pub fn known_prices(&self) -> Result<Arc<Prices>, Problem> {
        let unknown =
            || Problem::unavailable("the ledger of capacity was not read yet, so there are no prices", 1);
        self.prices.load_full().ok_or_else(unknown)
    }

    /// Hears of what is sold.
    pub fn sells(&self, goods: Goods) {
        let is_news = self.goods.send_if_modified(|known| {
            let is_news = **known != goods;
            if is_news {
                *known = Arc::new(goods);
            }
            is_news
        });
        if is_news {
            self.training.ask();
        }
    }

    /// Hears of a revision of the ledger.
    pub fn heard_of(&self, revision: u64) {
        self.revision.send_if_modified(|known| {
            let is_newer = revision > *known;
            *known = revision.max(*known);
            is_newer
        });
    }

    /// Shows what was loaded.
    pub fn replace(&self, table: Table) {
        self.table.replace(table);
        self.poke();
        self.training.ask();
    }

    /// Shows changes that are stored.
    pub fn publish(&self, changes: &[Change]) {
        self.table.change(|table| changes.iter().for_each(|change| table.apply(change)));
        changes.iter().for_each(|change| self.figures.count(change));
        self.poke();
    }

    fn poke(&self) {
        self.tidying.ask();
        self.publishing.ask();
    }
}

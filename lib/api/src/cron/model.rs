//! The definition of an expression, applied literally: walks real time step by step, looks at the wall clock, and
//! remembers the times that it has shown. Slow on purpose, and without anything of the modules it judges.

use std::collections::HashSet;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeZone, Timelike};
use chrono_tz::Tz;
use proptest::prelude::*;

const DAY: i64 = 86_400;

/// One item of a field's list.
#[derive(Debug, Clone)]
pub enum Item {
    All,
    Every(u32),
    One(u32),
    Range(u32, u32),
    RangeEvery(u32, u32, u32),
}

/// A field: its list, and the number that it counts from.
#[derive(Debug, Clone)]
pub struct Spec {
    items: Vec<Item>,
    least: u32,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub second: Option<Spec>,
    pub minute: Spec,
    pub hour: Spec,
    pub day_of_month: Spec,
    pub month: Spec,
    pub day_of_week: Spec,
}

impl Item {
    fn allows(&self, number: u32, least: u32) -> bool {
        match *self {
            Item::All => true,
            Item::Every(step) => (number - least).is_multiple_of(step),
            Item::One(one) => number == one,
            Item::Range(from, to) => from <= number && number <= to,
            Item::RangeEvery(from, to, step) => {
                from <= number && number <= to && (number - from).is_multiple_of(step)
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Item::All => "*".to_owned(),
            Item::Every(step) => format!("*/{step}"),
            Item::One(one) => one.to_string(),
            Item::Range(from, to) => format!("{from}-{to}"),
            Item::RangeEvery(from, to, step) => format!("{from}-{to}/{step}"),
        }
    }
}

impl Spec {
    fn allows(&self, number: u32) -> bool {
        self.items.iter().any(|item| item.allows(number, self.least))
    }

    fn starred(&self) -> bool {
        matches!(self.items[0], Item::All | Item::Every(_))
    }

    fn text(&self) -> String {
        self.items.iter().map(Item::text).collect::<Vec<_>>().join(",")
    }
}

impl Model {
    pub fn text(&self, zone: Tz) -> String {
        let fields = [&self.minute, &self.hour, &self.day_of_month, &self.month, &self.day_of_week];
        let fields = self.second.iter().chain(fields).map(Spec::text).collect::<Vec<_>>().join(" ");
        format!("TZ={} {fields}", zone.name())
    }

    fn matches_day(&self, day: NaiveDate) -> bool {
        let weekday = day.weekday().num_days_from_sunday();
        let by_month = self.day_of_month.allows(day.day());
        let by_week = self.day_of_week.allows(weekday) || weekday == 0 && self.day_of_week.allows(7);
        let day_matches = match self.day_of_month.starred() || self.day_of_week.starred() {
            true => by_month && by_week,
            false => by_month || by_week,
        };
        day_matches && self.month.allows(day.month())
    }

    fn matches(&self, wall: NaiveDateTime) -> bool {
        let by_second = self.second.as_ref().map_or(wall.second() == 0, |field| field.allows(wall.second()));
        by_second
            && self.minute.allows(wall.minute())
            && self.hour.allows(wall.hour())
            && self.matches_day(wall.date())
    }

    /// Every instant after `after` and up to `to` at which it fires, found by looking at each `step`th second from
    /// `memory` seconds before on.
    pub fn fires(&self, zone: Tz, after: i64, to: i64, step: i64, memory: i64) -> Vec<i64> {
        let (mut seen, mut fires) = (HashSet::new(), Vec::new());
        let mut previous = None;
        let first = (after - memory).div_euclid(step) * step;
        for at in (first..=to).step_by(step as usize) {
            let wall = wall_at(zone, at);
            let fresh = |wall: i64| !seen.contains(&wall) && self.matches(naive(wall));
            let fired = match self.hour.starred() {
                true => self.matches(naive(wall)),
                false => {
                    let skipped_from = previous.map_or(wall, |previous| previous + step);
                    fresh(wall) || (skipped_from..wall).step_by(step as usize).any(fresh)
                }
            };
            if !self.hour.starred() {
                let skipped_from = previous.map_or(wall, |previous: i64| previous + step);
                seen.extend((skipped_from..wall).step_by(step as usize).chain([wall]));
            }
            previous = Some(wall);
            if fired && at > after {
                fires.push(at);
            }
        }
        fires
    }

    /// The first fire after `after` within some years, in a zone whose clock is never changed.
    pub fn first_in_fixed_zone(&self, ahead: i64, after: i64) -> Option<i64> {
        let first_day = (after + ahead).div_euclid(DAY);
        let days = (first_day..first_day + 9 * 366).filter(|day| self.matches_day(naive(day * DAY).date()));
        let mut walls = days.flat_map(|day| (day * DAY..(day + 1) * DAY).step_by(60));
        walls.find(|wall| wall - ahead > after && self.matches(naive(*wall))).map(|wall| wall - ahead)
    }
}

pub fn wall_at(zone: Tz, at: i64) -> i64 {
    zone.from_utc_datetime(&naive(at)).naive_local().and_utc().timestamp()
}

fn naive(at: i64) -> NaiveDateTime {
    DateTime::from_timestamp(at, 0).map(|at| at.naive_utc()).unwrap_or_default()
}

/// The hours of the year in which the zone's clock is changed.
pub fn changes(zone: Tz, year: i32) -> Vec<i64> {
    let start = NaiveDate::from_ymd_opt(year, 1, 1).unwrap_or_default().and_time(Default::default());
    let start = start.and_utc().timestamp();
    let ahead = |at: i64| wall_at(zone, at) - at;
    (start..start + 366 * DAY).step_by(1_800).filter(|at| ahead(*at) != ahead(at - 1_800)).collect()
}

fn item(least: u32, most: u32) -> impl Strategy<Value = Item> {
    let range = move || (least..=most, least..=most).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![
        2 => Just(Item::All),
        2 => (1..=most).prop_map(Item::Every),
        4 => (least..=most).prop_map(Item::One),
        1 => range().prop_map(|(from, to)| Item::Range(from, to)),
        1 => (range(), 1..=most).prop_map(|((from, to), step)| Item::RangeEvery(from, to, step)),
    ]
}

fn spec(least: u32, most: u32) -> impl Strategy<Value = Spec> {
    prop::collection::vec(item(least, most), 1..4).prop_map(move |items| Spec { items, least })
}

fn all(least: u32) -> Spec {
    Spec { items: vec![Item::All], least }
}

/// Mostly the hours in which clocks are changed.
fn hour() -> impl Strategy<Value = Spec> {
    let night = prop::collection::vec(0u32..5, 1..4)
        .prop_map(|hours| Spec { items: hours.into_iter().map(Item::One).collect(), least: 0 });
    prop_oneof![2 => night, 1 => Just(all(0)), 2 => spec(0, 23)]
}

/// Expressions that fire on most days.
pub fn daily(with_seconds: bool) -> impl Strategy<Value = Model> {
    let day_of_week = prop_oneof![4 => Just(all(0)), 1 => spec(0, 7)];
    (spec(0, 59), spec(0, 59), hour(), day_of_week).prop_map(move |(second, minute, hour, day_of_week)| {
        Model {
            second: with_seconds.then_some(second),
            minute,
            hour,
            day_of_month: all(1),
            month: all(1),
            day_of_week,
        }
    })
}

/// Expressions that restrict the days.
pub fn sparse() -> impl Strategy<Value = Model> {
    let month = prop_oneof![1 => Just(all(1)), 2 => spec(1, 12)];
    (spec(0, 59), hour(), spec(1, 31), month, spec(0, 7)).prop_map(
        |(minute, hour, day_of_month, month, day_of_week)| Model {
            second: None,
            minute,
            hour,
            day_of_month,
            month,
            day_of_week,
        },
    )
}

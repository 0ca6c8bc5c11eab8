#![allow(clippy::unwrap_used)]

use chrono_tz::Tz;
use proptest::prelude::*;

use super::model::{self, Model};
use super::*;

const HOUR: i64 = 3_600;

/// Zones whose clocks are changed by an hour, by half an hour, at midnight, by a whole day, or never.
const ZONES: [Tz; 10] = [
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::Australia__Lord_Howe,
    Tz::Asia__Kolkata,
    Tz::America__St_Johns,
    Tz::UTC,
    Tz::America__Sao_Paulo,
    Tz::Africa__Casablanca,
    Tz::Pacific__Apia,
    Tz::Asia__Kathmandu,
];

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// The fires after the first instant are the others, one after the other.
fn check(expression: &str, after: &str, fires: &[&str]) {
    let expression = CronExpr::parse(expression).unwrap();
    let mut last = at(after);
    for fire in fires {
        let next = expression.next_fire(last);
        assert_eq!(next, Some(at(fire)), "{expression} after {last}");
        last = at(fire);
    }
}

#[test]
fn fields_mean_what_a_crontab_means() {
    check("*/5 * * * *", "2026-01-01T00:03:10.5Z", &["2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z"]);
    check("1-10/4 3 * * *", "2026-01-01T04:00:00Z", &["2026-01-02T03:01:00Z", "2026-01-02T03:05:00Z"]);
    check("*/20 * * * * *", "2026-01-01T00:00:40Z", &["2026-01-01T00:01:00Z", "2026-01-01T00:01:20Z"]);
    check("0 0 1 Jan,JUL *", "2026-01-01T00:00:00Z", &["2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z"]);
    check("0 12 29 2 *", "2026-01-01T00:00:00Z", &["2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"]);
    check("0 0 29 2 */7", "2026-01-01T00:00:00Z", &["2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"]);
}

#[test]
fn sunday_is_0_and_7_and_ends_a_range_by_name() {
    // 4 January 2026 is a Sunday.
    for sunday in ["0", "7", "sun", "SUN", "7-7", "sun-sun", "*/7"] {
        check(
            &format!("0 0 * * {sunday}"),
            "2026-01-01T00:00:00Z",
            &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
        );
    }
    for weekend in ["5-7", "fri-sun", "5,sat-sun", "0,5,6", "fri-7"] {
        let fires =
            ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-09T00:00:00Z"];
        check(&format!("0 0 * * {weekend}"), "2026-01-01T00:00:00Z", &fires);
    }
    check("0 0 * * sun-tue/2", "2026-01-01T00:00:00Z", &["2026-01-04T00:00:00Z", "2026-01-06T00:00:00Z"]);
}

#[test]
fn either_day_field_is_enough_if_both_restrict() {
    let after = "2026-01-01T00:00:00Z";
    check("0 0 13 * fri", after, &["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"]);
    check("0 0 */10 * fri", after, &["2026-05-01T00:00:00Z"]);
    check("0 0 31 2 mon", after, &["2026-02-02T00:00:00Z"]);
}

#[test]
fn names_stand_for_schedules() {
    let after = "2026-01-03T10:20:30Z";
    check("@hourly", after, &["2026-01-03T11:00:00Z"]);
    check("@daily", after, &["2026-01-04T00:00:00Z"]);
    check("TZ=Asia/Kolkata @midnight", after, &["2026-01-03T18:30:00Z"]);
    check("@weekly", after, &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]);
    check("@monthly", after, &["2026-02-01T00:00:00Z"]);
    check("@yearly", after, &["2027-01-01T00:00:00Z"]);
    check("@Annually", after, &["2027-01-01T00:00:00Z"]);
}

#[test]
fn a_fixed_hour_fires_once_on_the_nights_when_clocks_change() {
    // Berlin: 29 March 2026, 02:00 becomes 03:00 at 01:00 UTC; 25 October, 03:00 becomes 02:00 at 01:00 UTC.
    let nightly = "TZ=Europe/Berlin 30 2 * * *";
    check(nightly, "2026-03-28T02:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    check(nightly, "2026-10-24T01:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    check(nightly, "2026-10-25T01:10:00Z", &["2026-10-26T01:30:00Z"]);
    // Several skipped times end in one instant, also with one that exists.
    check(
        "TZ=Europe/Berlin */20 2,3 * * *",
        "2026-03-29T00:59:59Z",
        &["2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"],
    );
    check(
        "TZ=America/Sao_Paulo 0 0 * * *",
        "2018-11-03T04:00:00Z",
        &["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"],
    );
    check(
        "TZ=Australia/Lord_Howe 15 2 * * *",
        "2026-10-03T00:00:00Z",
        &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
    );
    // Samoa had no 30 December 2011.
    check(
        "TZ=Pacific/Apia 0 12 * * *",
        "2011-12-29T23:00:00Z",
        &["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
    );
}

#[test]
fn a_starred_hour_keeps_its_pace_when_clocks_change() {
    let pace = "TZ=Europe/Berlin */30 * * * *";
    check(
        pace,
        "2026-03-29T00:30:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"],
    );
    check(
        pace,
        "2026-10-25T00:30:00Z",
        &["2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"],
    );
    let even = "TZ=Europe/Berlin 30 */2 * * *";
    check(even, "2026-03-28T23:30:00Z", &["2026-03-29T02:30:00Z"]);
    check(
        even,
        "2026-10-24T22:30:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T03:30:00Z"],
    );
}

#[test]
fn offsets_may_have_seconds_and_the_calendar_has_ends() {
    check("TZ=Africa/Monrovia 0 12 * * *", "1971-06-01T00:00:00Z", &["1971-06-01T12:44:30Z"]);
    check("@daily", "1066-10-14T00:00:00Z", &["1970-01-01T00:00:00Z"]);
    check("@yearly", "2099-06-01T00:00:00Z", &["2100-01-01T00:00:00Z"]);
    assert_eq!(CronExpr::parse("@yearly").unwrap().next_fire(at("2100-06-01T00:00:00Z")), None);
    for end in [DateTime::<Utc>::MAX_UTC, DateTime::<Utc>::MIN_UTC] {
        let next = CronExpr::parse("TZ=Asia/Kolkata * * * * *").unwrap().next_fire(end);
        assert!(next.is_none_or(|next| next > end));
    }
}

#[test]
fn errors_name_the_field_and_say_what_would_be_right() {
    let check = |text: &str, start: &str| {
        let error = CronExpr::parse(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(start), "{text}: {error}");
    };
    check("61 * * * *", "minute `61`: 61 is out of range; expected 0 to 59, alone");
    check("* 0,24 * * *", "hour `0,24`: 24 is out of range; expected 0 to 23");
    check("* * 0 * *", "day of month `0`: 0 is out of range; expected 1 to 31");
    check("* * * foo *", "month `foo`: `foo` is not known; expected 1 to 12 or jan to dec");
    check("* * * * 8", "day of week `8`: 8 is out of range; expected 0 to 7 (0 and 7 are Sunday)");
    check("* * * * fri-mon", "day of week `fri-mon`: `fri-mon` runs backwards; write two ranges");
    check("30-10 * * * *", "minute `30-10`: `30-10` runs backwards");
    check("*/0 * * * *", "minute `*/0`: the step `0` is not from 1 to 59");
    check("*/90 * * * *", "minute `*/90`: the step `90` is not from 1 to 59");
    check("5/10 * * * *", "minute `5/10`: a step needs a range to step through, such as `5-59/…`");
    for bad in
        [",", "1,", "+1", "-1", "1-", "1-2-3", "*/", "**", "?", "L", "*-5", "1/2/3", "99999999999", "¹"]
    {
        check(&format!("{bad} * * * *"), &format!("minute `{bad}`: "));
    }
    check("", "`` has 0 fields; expected five");
    check("* * * *", "`* * * *` has 4 fields; expected five (minute hour");
    check("* * * * * * *", "`* * * * * * *` has 7 fields");
    check("@often", "`@often` is not a known name; expected one of @hourly, @daily");
    check(
        "TZ=Mars/Olympus @daily",
        "`Mars/Olympus` is not a time zone; expected a name of the IANA database",
    );
    check("TZ=europe/berlin @daily", "`europe/berlin` is not a time zone; expected `Europe/Berlin`");
    check("TZ=UTC", "`TZ=UTC` has 0 fields");
    check("0 0 31 2 *", "`0 0 31 2 *` never fires");
    check("0 0 30 feb *", "`0 0 30 feb *` never fires");
    check("0 0 31 4,6,9,11 */2", "`0 0 31 4,6,9,11 */2` never fires");
    check(&"1,".repeat(200), "the cron expression has 400 bytes");
}

#[test]
fn the_text_is_kept_with_single_spaces() {
    let expression: CronExpr = serde_json::from_str("\"  TZ=Europe/Berlin\\t*/5  * * *   MON \"").unwrap();
    assert_eq!(expression.to_string(), "TZ=Europe/Berlin */5 * * * MON");
    assert_eq!(serde_json::to_string(&expression).unwrap(), "\"TZ=Europe/Berlin */5 * * * MON\"");
    assert_eq!(CronExpr::parse(expression.as_str()).unwrap(), expression);
}

/// All fires after the one instant and up to the other.
fn fires(expression: &CronExpr, after: i64, to: i64) -> Vec<i64> {
    let next = |at: i64| expression.next_fire(DateTime::from_timestamp(at, 0)?).map(|next| next.timestamp());
    std::iter::successors(next(after), |at| next(*at)).take_while(|at| *at <= to).collect()
}

/// An instant close to a change of the zone's clock in that year, if there is one.
fn near_a_change(zone: Tz, year: i32, which: prop::sample::Index, off_by: i64) -> i64 {
    let changes = model::changes(zone, year);
    let change = if changes.is_empty() { i64::from(year - 1970) * 31_557_600 } else { *which.get(&changes) };
    change + off_by
}

fn agrees(
    model: &Model,
    zone: Tz,
    after: i64,
    hours: i64,
    step: i64,
    memory: i64,
) -> Result<(), TestCaseError> {
    let text = model.text(zone);
    let expression = CronExpr::parse(&text).unwrap();
    let to = after + hours * HOUR;
    prop_assert_eq!(fires(&expression, after, to), model.fires(zone, after, to, step, memory), "{}", text);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model_by_the_minute_around_changes(
        model in model::daily(false), zone in prop::sample::select(&ZONES[..]), year in 1972i32..2038,
        which in any::<prop::sample::Index>(), off_by in prop_oneof![-10 * HOUR..4 * HOUR, -2 * HOUR..2 * HOUR],
    ) {
        agrees(&model, zone, near_a_change(zone, year, which, off_by), 14, 60, 30 * HOUR)?;
    }

    #[test]
    fn a_far_fire_is_one_and_has_none_before_it(
        model in model::sparse(), zone in prop::sample::select(&ZONES[..]), year in 1972i32..2080,
        which in any::<prop::sample::Index>(), off_by in -40 * HOUR..40 * HOUR,
        shares in prop::collection::vec(0.0f64..1.0, 4),
    ) {
        let after = near_a_change(zone, year, which, off_by);
        let Ok(expression) = CronExpr::parse(&model.text(zone)) else {
            return Err(TestCaseError::reject("never fires"));
        };
        let first = expression.next_fire(DateTime::from_timestamp(after, 0).unwrap());
        let Some(first) = first.map(|first| first.timestamp()) else { return Ok(()) };
        let from = after.max(first - 12 * HOUR);
        prop_assert_eq!(model.fires(zone, from, first, 60, 30 * HOUR), vec![first]);
        let to = first.min(after + 12 * HOUR);
        let expected = if to == first { vec![first] } else { vec![] };
        prop_assert_eq!(model.fires(zone, after, to, 60, 30 * HOUR), expected);
        for share in shares {
            let between = after + ((first - after) as f64 * share) as i64;
            let next = expression.next_fire(DateTime::from_timestamp(between, 999_999_999).unwrap());
            prop_assert_eq!(next, DateTime::from_timestamp(first, 0));
        }
    }

    #[test]
    fn days_agree_with_the_model_over_years(model in model::sparse(), after in 0i64..2_500_000_000) {
        for (zone, ahead) in [(Tz::UTC, 0), (Tz::Etc__GMTMinus12, 12 * HOUR)] {
            if let Ok(expression) = CronExpr::parse(&model.text(zone)) {
                let next = expression.next_fire(DateTime::from_timestamp(after, 0).unwrap());
                let expected = model.first_in_fixed_zone(ahead, after);
                // Rarer than the model looks ahead is 29 February on a certain weekday.
                if expected.is_some() || next.is_none_or(|next| next.timestamp() < after + 8 * 366 * 86_400) {
                    prop_assert_eq!(next.map(|next| next.timestamp()), expected);
                }
            } else {
                prop_assert_eq!(model.first_in_fixed_zone(ahead, after), None);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model_by_the_second_around_changes(
        model in model::daily(true), zone in prop::sample::select(&ZONES[..5]), year in 1972i32..2038,
        which in any::<prop::sample::Index>(), off_by in -3 * HOUR..HOUR,
    ) {
        agrees(&model, zone, near_a_change(zone, year, which, off_by), 3, 1, 4 * HOUR)?;
    }
}

proptest! {
    #[test]
    fn texts_of_the_pattern_are_read(text in &PATTERN[1..PATTERN.len() - 1]) {
        let is_no_matter_of_form = match CronExpr::parse(&text) {
            Ok(_) | Err(CronError::TooLong(_) | CronError::Zone { .. } | CronError::NeverFires(_)) => true,
            Err(CronError::Field { problem, .. }) => problem.contains("runs backwards"),
            Err(CronError::FieldCount { .. } | CronError::Shorthand(_)) => false,
        };
        prop_assert!(is_no_matter_of_form, "{text}: {:?}", CronExpr::parse(&text));
    }
}

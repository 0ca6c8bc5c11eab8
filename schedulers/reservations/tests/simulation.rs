//! Days: the generated one is as its recipe says, the recorded one is read as it stands, and figures add up.

#![allow(clippy::unwrap_used)]

use estimand_reservations::Job;
use estimand_reservations::simulation::{
    DAY, Day, Hours, Kind, PricedDay, Recipe, Study, arrivals, picture, table,
};

fn day(jobs: u64, seed: u64) -> Day {
    let recipe = Recipe { jobs, closes: false };
    Day { past: recipe.draw(seed + 1_000), jobs: recipe.draw(seed), ticks: DAY }
}

#[test]
fn the_recipe_gives_what_it_says() {
    let jobs = Recipe::default().draw(1);
    assert_eq!(jobs.len(), 6 * 1_450);
    assert!(jobs.windows(2).all(|pair| pair[0].arrival <= pair[1].arrival));
    assert!(jobs.iter().all(|job| job.arrival < DAY && job.is_possible()));
    let large = |job: &&Job| job.unit_value().to_money().as_microcredits() < 1_500_000;
    let work = |jobs: Vec<&Job>| -> f64 { jobs.iter().map(|job| job.work() as f64).sum() };
    let part = work(jobs.iter().filter(large).collect()) / work(jobs.iter().collect());
    assert!((part - 0.9).abs() < 0.005, "{part} of the work is large");
    assert_eq!(jobs.iter().filter(large).count(), 1_450);
    let slack = jobs.iter().map(|job| job.window() as f64 / job.length as f64);
    assert!(slack.clone().all(|slack| (1.0..=6.5).contains(&slack)));
    let closed = Recipe { closes: true, ..Recipe::default() }.draw(1);
    assert!(jobs.iter().zip(&closed).all(|(job, closed)| closed.deadline == job.deadline.min(DAY)));
    assert_eq!(jobs, Recipe::default().draw(1));
    assert_ne!(jobs, Recipe::default().draw(2));
}

#[test]
fn prices_earn_more_than_no_prices_and_the_figures_add_up() {
    let study = Study {
        pricings: vec![Kind::Free, Kind::Fixed, Kind::Spread, Kind::Seasonal],
        capacities: vec![0.1],
        days: vec![day(60, 1), day(60, 2)],
        is_recorded: false,
    };
    let mut seen = 0;
    let figures = study.run(&mut |_, _, _, outcome, capacity| {
        seen += 1;
        assert!(outcome.used.iter().all(|used| *used <= capacity));
        assert!(outcome.revenue <= outcome.welfare);
    });
    let figures = figures.unwrap();
    assert_eq!((seen, figures.len()), (8, 4));
    let [free, fixed, spread, seasonal] = &figures[..] else { panic!("{figures:?}") };
    assert!(free.welfare < fixed.welfare && fixed.welfare < spread.welfare, "{figures:?}");
    assert!(seasonal.welfare > 1.2 * spread.welfare, "{figures:?}");
    for line in &figures {
        assert_eq!((line.late, line.overfull, line.days, line.jobs), (0, 0, 2, 720));
        assert!(line.welfare <= line.optimum && line.utilization <= 1.0 && line.revenue <= line.welfare);
    }
    assert!(free.revenue == 0.0 && table(&figures).lines().count() == 5);
    assert!(figures.iter().all(|line| line.of_bound.is_some()), "{figures:?}");
    let recorded = Study { is_recorded: true, ..study }.run(&mut |_, _, _, _, _| {}).unwrap();
    assert!(recorded.iter().all(|line| line.of_bound.is_none()), "{recorded:?}");
    let json = serde_json::to_value(&figures).unwrap();
    assert_eq!((&json[0]["pricing"], &json[3]["pricing"]), (&"free".into(), &"seasonal".into()));
}

#[test]
fn recorded_arrivals_are_halved_by_hours_and_sized_by_bytes() {
    let text =
        "job0\t59\t59\t128000001\t0\t0\njob1\t3600\t0\t0\t0\t0\njob2\t7265\t0\t2400000000\t240000000\t1\n";
    let even = arrivals(text, Hours::Even, 7).unwrap();
    let odd = arrivals(text, Hours::Odd, 7).unwrap();
    let shape =
        |jobs: &[Job]| jobs.iter().map(|job| (job.arrival, job.width, job.length)).collect::<Vec<_>>();
    // The third has work for 23 units and ticks, and no job is wider than 8; it comes in the second even hour.
    assert_eq!(shape(&even), [(0, 2, 1), (61, 8, 3)]);
    assert_eq!(shape(&odd), [(0, 1, 1)]);
    assert!(even.iter().chain(&odd).all(|job| job.is_possible() && job.value.as_microcredits() > 0));
    assert_eq!(even, arrivals(text, Hours::Even, 7).unwrap());
    let wrong = |text: &str| arrivals(text, Hours::Even, 7).unwrap_err().to_string();
    assert_eq!(wrong("a\t1\t1\n"), "line 1: a job has six columns between tabs");
    assert_eq!(wrong("\na\t1\t1\t1\t-1\t1\n"), "line 2: a column is no whole number");
}

#[test]
fn the_picture_has_lines_for_price_and_use_and_a_bar_for_the_welfare_of_each_pricing() {
    let pricings = vec![Kind::Free, Kind::Seasonal];
    let study = Study { pricings, capacities: vec![0.1], days: vec![day(30, 3)], is_recorded: false };
    let mut seen = Vec::new();
    let figures = study.run(&mut |_, _, _, outcome, capacity| seen.push((outcome.moments.clone(), capacity)));
    let days: Vec<PricedDay> = figures
        .unwrap()
        .into_iter()
        .zip(seen)
        .map(|(figures, (moments, capacity))| PricedDay { figures, moments, capacity })
        .collect();
    let drawn = picture("a <day>", &days);
    assert!(drawn.contains("a &lt;day&gt;"));
    let document = roxmltree::Document::parse(&drawn).unwrap();
    let of_class = |class| document.descendants().filter(move |node| node.attribute("class") == Some(class));
    let points = of_class("line").map(|line| line.attribute("d").unwrap().split(['M', 'L']).count());
    let points: Vec<usize> = points.collect();
    assert!(points.len() == 4 && points.iter().all(|points| *points > 100), "{points:?}");
    let wide = |node: roxmltree::Node<'_, '_>| node.attribute("width").unwrap().parse::<f64>().ok();
    let bars = document.descendants().filter(|node| node.attribute("height") == Some("16"));
    let bars: Vec<f64> = bars.filter_map(wide).collect();
    let part = |day: &PricedDay| day.figures.welfare;
    assert_eq!(bars.len(), 2);
    assert!((bars[0] / bars[1] - part(&days[0]) / part(&days[1])).abs() < 0.01, "{bars:?}");
}

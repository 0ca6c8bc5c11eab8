//! `simulate reservations`: a day of requests for reservations, priced under a virtual clock. No service is needed.

use std::fs;

use estimand_cli::output::failure::Failure;
use estimand_reservations::simulation::{
    DAY, Day, Figures, Hours, Kind, Moment, PricedDay, Recipe, Study, arrivals, picture, table,
};
use serde_json::json;

use crate::cli::simulate_reservations::ReservationsArgs;

pub fn simulate(args: &ReservationsArgs) -> Result<(), Failure> {
    let pricings = if args.pricing.is_empty() { Kind::ALL.to_vec() } else { args.pricing.clone() };
    if args.picture.is_some() && (args.capacity.len(), args.seeds) != (1, 1) {
        let message = "--picture is for one day: give one --capacity and --seeds 1";
        return Err(Failure::Usage(message.to_owned()));
    }
    let study = Study {
        pricings,
        capacities: args.capacity.clone(),
        days: days(args)?,
        is_recorded: args.arrivals.is_some(),
    };
    let mut moments = Vec::new();
    let figures = study.run(&mut |_, _, _, outcome, capacity| {
        if args.picture.is_some() {
            moments.push((outcome.moments.clone(), capacity));
        }
    });
    let figures = figures.map_err(|error| Failure::NotPlanned(error.to_string()))?;
    if let Some(path) = &args.picture {
        let failed = |error| Failure::Usage(format!("cannot write {}: {error}", path.display()));
        let priced = |(figures, (moments, capacity)): (&Figures, (Vec<Moment>, u64))| PricedDay {
            figures: figures.clone(),
            moments,
            capacity,
        };
        let days: Vec<PricedDay> = figures.iter().zip(moments).map(priced).collect();
        let capacity = days.first().map_or(0, |day| day.capacity);
        let part = args.capacity.first().copied().unwrap_or_default();
        let title = format!("{capacity} units, which is {part} of all work");
        fs::write(path, picture(&title, &days)).map_err(failed)?;
    }
    estimand_cli::output::say(&match args.json {
        true => format!("{}\n", json!(figures)),
        false => table(&figures),
    });
    Ok(())
}

fn days(args: &ReservationsArgs) -> Result<Vec<Day>, Failure> {
    let Some(file) = &args.arrivals else {
        let recipe = Recipe { jobs: args.jobs, closes: args.closed };
        // The days that are trained on have seeds behind those of the days that are priced.
        let day = |seed| Day { past: recipe.draw(seed + args.seeds), jobs: recipe.draw(seed), ticks: DAY };
        return Ok((1..=args.seeds).map(day).collect());
    };
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|source| Failure::Read { name: name.clone(), source })?;
    let half = |hours, seed| {
        let jobs = arrivals(&text, hours, seed);
        jobs.map_err(|error| Failure::NotPlanned(format!("{name}: {error}")))
    };
    let days = (1..=args.seeds).map(|seed| {
        Ok(Day { past: half(Hours::Even, seed)?, jobs: half(Hours::Odd, seed)?, ticks: DAY / 2 })
    });
    days.collect()
}

//! Everything is killed, one after the other, at random, while all of it works.
//!
//! Registry, data service, manager, agents, PostgreSQL (under the registry and the manager) and MariaDB (under the
//! data service) are processes of their own. Writers write all the time, registrations come and go, slots run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use estimand_testkit::databases::{Kind, Server};
use estimand_testkit::load::Load;
use estimand_testkit::place::{Agent, Place};
use estimand_testkit::plane::{Apart, Plane};
use estimand_testkit::process::Estimand;
use estimand_testkit::wait::{self, PATIENCE};

use crate::long_or;

const NODES: [&str; 2] = ["n1", "n2"];
/// After a kill, until ready again: a fraction of a second on a machine that does nothing else.
const READY_DEADLINE: Duration = Duration::from_secs(10);
const VICTIMS: usize = 6;
/// How many names come and go.
const NAMES: usize = 6;

/// The outcome of the last change of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    There,
    Gone,
    /// It was not acknowledged.
    Either,
}

struct World {
    postgres: Server,
    mariadb: Server,
    registry: Estimand,
    data: Estimand,
    manager: Estimand,
    agents: [Agent; 2],
    plane: Plane,
    names: BTreeMap<String, Known>,
    /// How long each took to be ready again.
    starts: BTreeMap<&'static str, Vec<Duration>>,
    /// Goes last: nothing may be left of what ran there.
    place: Place,
}

impl World {
    fn start() -> Self {
        let place = Place::new("kills");
        let (postgres, mariadb) = std::thread::scope(|scope| {
            let postgres = scope.spawn(|| Server::start_own(Kind::Postgres));
            let mariadb = Server::start_own(Kind::Mariadb);
            (postgres.join().unwrap(), mariadb)
        });
        let store = postgres.fresh_url();
        let Apart { registry, data, manager, plane } = Apart::start_with(|name, service| match name {
            "data" => service.store(mariadb.fresh_url()),
            _ => service.store(&store),
        });
        let agents = NODES.map(|node| place.agent(node, manager.base_url()));
        let (names, starts) = (BTreeMap::new(), BTreeMap::new());
        World { place, postgres, mariadb, registry, data, manager, agents, plane, names, starts }
    }

    /// Registers or deletes some name, whatever comes of it.
    fn change(&mut self) {
        let name = format!("some_{}", fastrand::usize(..NAMES));
        let http = self.registry.http().with_deadline(Duration::from_secs(15));
        let known = self.names.get(&name).copied().unwrap_or(Known::Gone);
        let (answer, then) = if known == Known::There {
            (http.try_request("DELETE", &format!("/api/registry/{name}"), &[], b""), Known::Gone)
        } else {
            let body = self.place.counting(&name).to_string();
            (http.try_request("POST", "/api/registry", &[], body.as_bytes()), Known::There)
        };
        let now = match answer.map(|answer| answer.status) {
            Ok(200..300) => then,
            // It was there, or not there, already: so the doubtful change before has happened or not.
            Ok(409) => Known::There,
            Ok(404) => Known::Gone,
            Ok(503) | Err(_) => Known::Either,
            Ok(status) => panic!("{name} was answered {status}"),
        };
        self.names.insert(name, now);
    }

    fn kill(&mut self, victim: usize) {
        let began = Instant::now();
        let who = match victim {
            0 => restart("registry", &mut self.registry),
            1 => restart("data", &mut self.data),
            2 => restart("manager", &mut self.manager),
            3 => restart("agent", &mut self.agents[fastrand::usize(..NODES.len())].process),
            4 => strike("postgres", &self.postgres),
            _ => strike("mariadb", &self.mariadb),
        };
        self.starts.entry(who).or_default().push(began.elapsed());
    }

    /// All is as it is registered, and goes on.
    fn check_converged(&mut self) {
        for (name, known) in &self.names {
            let there = self.plane.registrations().iter().any(|one| one["dataName"] == name.as_str());
            match known {
                Known::There => assert!(there, "{name} was acknowledged, and is lost"),
                Known::Gone => assert!(!there, "{name} was deleted, and is back"),
                Known::Either => {}
            }
            if there {
                self.plane.wait_fresh(name, &NODES);
                continue;
            }
            wait::until_ok(PATIENCE, &format!("nothing to run of {name}"), || {
                match self.place.processes(name) {
                    left if left.is_empty() => Ok(()),
                    left => Err(format!("{left:?}")),
                }
            });
        }
        self.plane.wait_fresh("pulse", &NODES);
        self.plane.wait_placed("only", &NODES);
        self.place.check_alone("only");
        for node in NODES {
            let history = self.plane.history("pulse", node).unwrap();
            let numbers: Vec<u64> = history.iter().map(|(number, _)| *number).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{node}: {numbers:?}");
        }
    }
}

fn restart(who: &'static str, process: &mut Estimand) -> &'static str {
    process.restart_on_same_port();
    who
}

fn strike(who: &'static str, server: &Server) -> &'static str {
    server.kill9();
    server.start_again();
    who
}

#[test]
fn nothing_acknowledged_is_lost_whatever_is_killed() {
    let mut world = World::start();
    world.plane.register(&world.place.counting("pulse"));
    world.plane.register(&world.place.single("only"));
    world.plane.wait_fresh("pulse", &NODES);
    let load = Load::new(world.data.base_url());
    let rounds = long_or(1_000, 2 * VICTIMS);
    let began = Instant::now();
    load.run_during(false, || {
        for round in 0..rounds {
            load.wait_for_progress(fastrand::u64(1..=50));
            world.change();
            // Each once, then at random.
            world.kill(if round < VICTIMS { round } else { fastrand::usize(..VICTIMS) });
            if round % 100 == 99 {
                load.wait_for_everyone();
                load.check(&world.data.http());
                world.check_converged();
                println!("{} kills in {:?}, {} writes refused", round + 1, began.elapsed(), load.refused());
            }
        }
        load.wait_for_everyone();
    });
    load.check(&world.data.http());
    world.check_converged();
    println!("{rounds} kills in {:?}, {} writes refused", began.elapsed(), load.refused());
    for (who, mut took) in std::mem::take(&mut world.starts) {
        took.sort_unstable();
        let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
        println!("{who}: ready again {} times, median {median:?}, at most {most:?}", took.len());
        // How long a database takes to recover is its own affair.
        let ours = !matches!(who, "postgres" | "mariadb");
        assert!(!ours || most < READY_DEADLINE, "{who} took {most:?}");
    }
}

//! The services as processes: all in one, or each alone. They keep their addresses over restarts.

use std::net::Ipv4Addr;

use super::Plane;
use crate::place::Place;
use crate::process::{Builder, Estimand, estimand, free_port};

/// All services in one process, without an agent.
pub struct Together {
    pub up: Estimand,
    pub plane: Plane,
}

/// Each service in a process of its own.
pub struct Apart {
    pub registry: Estimand,
    pub data: Estimand,
    pub manager: Estimand,
    pub plane: Plane,
}

/// Not started yet, so that agents may be there before it.
pub fn up(place: &Place, port: u16) -> Builder {
    estimand().args(["up", "--no-agent"]).port(port).data_dir(place.service_folder("up"))
}

pub fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

impl Together {
    pub fn start(place: &Place) -> Self {
        Self::of(up(place, free_port()).start())
    }

    /// On an address that hosts of a network reach.
    pub fn start_on(place: &Place, address: Ipv4Addr) -> Self {
        Self::of(up(place, free_port()).args(["--insecure"]).listen_host(address).start())
    }

    pub fn of(up: Estimand) -> Self {
        let plane = Plane::of(&up);
        Together { up, plane }
    }

    pub fn url(&self) -> &str {
        self.up.base_url()
    }
}

impl Apart {
    pub fn start(place: &Place) -> Self {
        Self::start_with(|name, service| service.data_dir(place.service_folder(name)))
    }

    /// The data service listens on `port`, and agents find it at another address.
    pub fn start_behind(place: &Place, port: u16, address: &str) -> Self {
        Self::start_with(|name, service| {
            let service = service.data_dir(place.service_folder(name));
            match name {
                "data" => service.port(port),
                "manager" => service.args(["--data-server", address]),
                _ => service,
            }
        })
    }

    /// `set` says of each service, by its name, what is not the same in every test: its store, its folder.
    pub fn start_with(set: impl Fn(&str, Builder) -> Builder) -> Self {
        let service =
            |name, args: &[&str], port| set(name, estimand().args([&[name], args].concat()).port(port));
        let manager_port = free_port();
        let data = service("data", &[], free_port()).start();
        let (data_at, manager_at) = (data.base_url(), local(manager_port));
        let args = ["--data-service", data_at, "--manager", &manager_at];
        let registry = service("registry", &args, free_port()).start();
        let args = ["--registry", registry.base_url(), "--data-service", data_at];
        let manager = service("manager", &args, manager_port).start();
        let plane = Plane::at(registry.base_url(), data_at, manager.base_url());
        Apart { registry, data, manager, plane }
    }
}

//! The services of a story as processes: all in one, or each alone. They keep their addresses over restarts.

use std::net::{Ipv4Addr, SocketAddr};

use estimand_testkit::process::{Builder, Estimand, free_port};

use crate::place::Place;
use crate::plane::Plane;

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

impl Together {
    pub fn start(place: &Place) -> Self {
        Self::of(up(place, free_port()).start())
    }

    /// On an address that hosts of a network reach.
    pub fn start_on(place: &Place, address: Ipv4Addr) -> Self {
        Self::of(up(place, free_port()).args(["--insecure"]).listen_host(address).start())
    }

    pub fn of(up: Estimand) -> Self {
        let plane = Plane::at(up.base_url(), up.base_url(), up.base_url());
        Together { up, plane }
    }

    pub fn url(&self) -> &str {
        self.up.base_url()
    }
}

impl Apart {
    pub fn start(place: &Place) -> Self {
        Self::start_with(place, |_| None)
    }

    /// `data_server` says, from the address of the data service, where agents find it instead.
    pub fn start_with(place: &Place, data_server: impl FnOnce(SocketAddr) -> Option<String>) -> Self {
        let [registry_port, data_port, manager_port] = [free_port(), free_port(), free_port()];
        let data = estimand().args(["data"]).port(data_port).data_dir(place.service_folder("data")).start();
        let registry = estimand()
            .args(["registry", "--data-service", data.base_url(), "--manager", &local(manager_port)])
            .port(registry_port)
            .data_dir(place.service_folder("registry"))
            .start();
        let mut manager = estimand()
            .args(["manager", "--registry", registry.base_url(), "--data-service", data.base_url()])
            .port(manager_port)
            .data_dir(place.service_folder("manager"));
        if let Some(other) = data_server(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), data_port)) {
            manager = manager.args(["--data-server", &other]);
        }
        let manager = manager.start();
        let plane = Plane::at(registry.base_url(), data.base_url(), manager.base_url());
        Apart { registry, data, manager, plane }
    }
}

pub fn estimand() -> Builder {
    Estimand::builder(env!("CARGO_BIN_EXE_estimand"))
}

pub fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

//! Ports on 127.0.0.1: each `up` reuses those of the last one, unless another program has taken them.

use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};

const SEARCHED: u16 = 400;

/// Hands out ports by name.
#[derive(Debug)]
pub struct Ports {
    first: u16,
    taken: BTreeMap<String, u16>,
}

impl Ports {
    /// `known` are the ports of the last time; new ones are looked for from `first` on.
    pub fn new(first: u16, known: BTreeMap<String, u16>) -> Self {
        Self { first, taken: known }
    }

    pub fn all(&self) -> &BTreeMap<String, u16> {
        &self.taken
    }

    /// The port of `name`. `held` says that a child which is taken over is listening on it already.
    pub fn get(&mut self, name: &str, held: bool) -> Result<u16> {
        if let Some(&port) = self.taken.get(name) {
            if held || free(port) {
                return Ok(port);
            }
            let other = self.search(name)?;
            terminal::say::line(format_args!(
                "port {port} of {name} is taken by another program; {other} is used instead"
            ));
            return Ok(other);
        }
        self.search(name)
    }

    fn search(&mut self, name: &str) -> Result<u16> {
        let used: Vec<u16> = self.taken.values().copied().collect();
        let Some(port) = (self.first..self.first.saturating_add(SEARCHED))
            .find(|port| !used.contains(port) && free(*port))
        else {
            bail!("no free port for {name} from {} on: {SEARCHED} were tried", self.first);
        };
        self.taken.insert(name.to_owned(), port);
        Ok(port)
    }
}

fn free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_taken_by_another_program_is_replaced() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = listener.local_addr().unwrap().port();
        let mut ports = Ports::new(taken, BTreeMap::from([("api".to_owned(), taken)]));
        assert_eq!(ports.get("api", true).unwrap(), taken);
        let other = ports.get("api", false).unwrap();
        assert_ne!(other, taken);
        assert_eq!(ports.all()["api"], other);
    }
}

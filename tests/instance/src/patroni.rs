//! PostgreSQL on three nodes under Patroni, with one synchronous standby. A separate etcd stores the leader, and HAProxy
//! routes clients to it.

use crate::controlplane;
use crate::layout::{self, Layout};
use crate::pki::{Pki, password, secret};
use crate::postgres::{self, DATABASE, MAX_CONNECTIONS};
use crate::programs;
use crate::supervisor::{Spec, Supervisor};
use crate::wait::{self, Progress};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The etcd for leader election. Nothing else uses it, so a test can stop it alone.
pub const DCS: &str = "etcd-postgres";
pub const HAPROXY: &str = "haproxy";
const NODES: u8 = 3;
const READY: Duration = Duration::from_mins(5);
const ANSWER: Duration = Duration::from_secs(30);
/// Seconds that a leader lasts without renewing; Patroni takes no less.
const TTL: u32 = 20;
const LOOP_WAIT: u32 = 2;
const RETRY_TIMEOUT: u32 = 5;

/// What only tests ask for.
#[derive(Clone, Copy, Debug, Default)]
pub struct HaOptions {
    /// Whether each node has a network of its own, which can be cut.
    pub cables: bool,
    /// Each node's data on a file system of so many bytes, which takes root.
    pub disk_bytes: Option<u64>,
}

/// A port that a node has, and the one at which others find it.
#[derive(Clone, Copy, Debug)]
struct PortPair {
    own: u16,
    seen: u16,
}

#[derive(Clone, Debug)]
struct NodePorts {
    postgres: PortPair,
    rest: PortPair,
    /// At which the node finds the etcd.
    dcs: u16,
}

/// Every port of a cluster.
#[derive(Clone, Debug)]
pub struct HaPorts {
    proxy: u16,
    dcs: u16,
    dcs_peer: u16,
    nodes: Vec<NodePorts>,
}

impl HaPorts {
    /// `port` knows the port of a name, which a child listens on.
    pub fn choose(options: HaOptions, mut port: impl FnMut(&str, &str) -> Result<u16>) -> Result<Self> {
        let (proxy, dcs) = (port("haproxy", HAPROXY)?, port(DCS, DCS)?);
        let dcs_peer = port(&format!("{DCS}-peer"), DCS)?;
        let mut nodes = Vec::new();
        for number in 1..=NODES {
            let (node, cable) = (format!("patroni-{number}"), format!("cable-{number}"));
            let mut reach = |what: &str| -> Result<PortPair> {
                let own = port(&format!("{node}-{what}"), &node)?;
                let seen = if options.cables { port(&format!("{cable}-{what}"), &cable)? } else { own };
                Ok(PortPair { own, seen })
            };
            let (postgres, rest) = (reach("postgres")?, reach("rest")?);
            let dcs = if options.cables { port(&format!("{cable}-dcs"), &cable)? } else { dcs };
            nodes.push(NodePorts { postgres, rest, dcs });
        }
        Ok(Self { proxy, dcs, dcs_peer, nodes })
    }
}

/// One node.
#[derive(Clone, Debug)]
pub struct PatroniNode {
    /// The name of its process, and Patroni's name for it.
    pub name: String,
    /// The process that is its network, where it has one of its own.
    pub cable: Option<String>,
    /// The directory of its data, its sockets and its settings.
    pub dir: PathBuf,
    ports: NodePorts,
}

impl PatroniNode {
    /// kill -9 of PostgreSQL; Patroni sees it.
    pub fn kill_postgres(&self) -> Result<()> {
        let file = self.dir.join("data/postmaster.pid");
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let pid: i32 =
            text.lines().next().unwrap_or_default().parse().context("postmaster.pid holds no pid")?;
        kill(Pid::from_raw(pid), Signal::SIGKILL).with_context(|| format!("kill postgres, process {pid}"))
    }
}

#[derive(Clone, Debug)]
struct Passwords {
    application: String,
    superuser: String,
    replication: String,
    rest: String,
}

/// A cluster to be started.
#[derive(Clone, Debug)]
pub struct PatroniCluster {
    pub nodes: Vec<PatroniNode>,
    layout: Layout,
    programs: PathBuf,
    python: PathBuf,
    user: Option<(u32, u32)>,
    ports: HaPorts,
    passwords: Passwords,
}

impl PatroniCluster {
    /// Makes directories, secrets and settings.
    pub fn prepare(
        layout: &Layout,
        supervisor: &Supervisor,
        ports: HaPorts,
        options: HaOptions,
    ) -> Result<Self> {
        let base = postgres::base_directory(layout, supervisor)?;
        let secret = |name: &str| password(&layout.path(&format!("postgres{name}.password")));
        let passwords = Passwords {
            application: secret("")?,
            superuser: secret("-superuser")?,
            replication: secret("-replication")?,
            rest: secret("-patroni")?,
        };
        let node = |(number, ports): (usize, &NodePorts)| {
            let number = number + 1;
            let name = format!("patroni-{number}");
            let cable = options.cables.then(|| format!("cable-{number}"));
            PatroniNode { dir: base.join(format!("node-{number}")), name, cable, ports: ports.clone() }
        };
        let this = Self {
            nodes: ports.nodes.iter().enumerate().map(node).collect(),
            layout: layout.clone(),
            programs: layout::postgresql_ha()?,
            python: layout::patroni()?,
            user: postgres::unprivileged(),
            ports,
            passwords,
        };
        // Makes the authority and the certificate that Patroni shows the etcd.
        this.dcs()?;
        for node in &this.nodes {
            this.prepare_node(node, options.disk_bytes)?;
        }
        std::fs::write(this.haproxy_settings(), this.haproxy())?;
        Ok(this)
    }

    fn prepare_node(&self, node: &PatroniNode, disk_bytes: Option<u64>) -> Result<()> {
        std::fs::create_dir_all(&node.dir)?;
        if let Some(bytes) = disk_bytes.filter(|_| !node.dir.join("data").exists()) {
            small_disk(&node.dir, bytes)?;
        }
        std::fs::set_permissions(&node.dir, std::fs::Permissions::from_mode(0o700))?;
        let pki = Pki::open(&self.layout.path("pki"))?;
        let own = |name: &str, text: &str| secret(&node.dir.join(name), text);
        own("etcd-ca.crt", &std::fs::read_to_string(pki.cert("etcd-ca"))?)?;
        own("etcd.crt", &std::fs::read_to_string(pki.cert("etcd-client"))?)?;
        own("etcd.key", &std::fs::read_to_string(pki.key("etcd-client"))?)?;
        own("create.sql", &self.create_database())?;
        own("create.sh", &self.create_script(node))?;
        own("patroni.json", &self.settings(node).to_string())?;
        if let Some((uid, gid)) = self.user {
            for entry in std::fs::read_dir(&node.dir)? {
                let path = entry?.path();
                if path.is_file() {
                    chown(&path, Some(uid), Some(gid))?;
                }
            }
            chown(&node.dir, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    fn create_database(&self) -> String {
        format!(
            "CREATE ROLE {DATABASE} LOGIN PASSWORD '{}';\nCREATE DATABASE {DATABASE} OWNER {DATABASE};\n",
            self.passwords.application
        )
    }

    /// Patroni calls it with a connection string once the first node runs.
    fn create_script(&self, node: &PatroniNode) -> String {
        let psql = self.programs.join("psql");
        let sql = node.dir.join("create.sql");
        format!("exec '{}' -X -v ON_ERROR_STOP=1 -d \"$1\" -f '{}'\n", psql.display(), sql.display())
    }

    fn settings(&self, node: &PatroniNode) -> Value {
        let address = |port: u16| format!("127.0.0.1:{port}");
        let file = |name: &str| node.dir.join(name);
        let NodePorts { postgres, rest, dcs } = &node.ports;
        json!({
            "scope": DATABASE,
            "name": node.name,
            "restapi": {
                "listen": address(rest.own),
                "connect_address": address(rest.seen),
                "authentication": {"username": "patroni", "password": self.passwords.rest},
            },
            "etcd3": {
                "hosts": [address(*dcs)],
                // It asks there and nowhere else, whatever the etcd says of where it is: that may be a way around a cable.
                "use_proxies": true,
                "protocol": "https",
                "cacert": file("etcd-ca.crt"),
                "cert": file("etcd.crt"),
                "key": file("etcd.key"),
            },
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": LOOP_WAIT,
                    "retry_timeout": RETRY_TIMEOUT,
                    // Another node takes over at once from one whose PostgreSQL has died.
                    "primary_start_timeout": 0,
                    // While the etcd is gone, a leader whom all others still see goes on.
                    "failsafe_mode": true,
                    "synchronous_mode": true,
                    "synchronous_mode_strict": true,
                    "postgresql": {
                        "use_pg_rewind": true,
                        "parameters": {
                            "max_connections": MAX_CONNECTIONS,
                            "max_wal_size": "256MB",
                            "wal_keep_size": "128MB",
                        },
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
                "post_bootstrap": format!("/bin/sh {}", file("create.sh").display()),
            },
            "postgresql": {
                "listen": address(postgres.own),
                "connect_address": address(postgres.seen),
                "data_dir": file("data"),
                "bin_dir": self.programs,
                "pgpass": file("pgpass"),
                "basebackup": [{"checkpoint": "fast"}],
                "authentication": {
                    "superuser": {"username": "postgres", "password": self.passwords.superuser},
                    "replication": {"username": "replicator", "password": self.passwords.replication},
                },
                "pg_hba": [
                    "local all postgres scram-sha-256",
                    "host all all 127.0.0.1/32 scram-sha-256",
                    "host replication replicator 127.0.0.1/32 scram-sha-256",
                ],
                "parameters": {"unix_socket_directories": ""},
            },
        })
    }

    /// Routes clients to the leader, and closes their connections to a former leader.
    fn haproxy(&self) -> String {
        let server = |node: &PatroniNode| {
            let (postgres, rest) = (node.ports.postgres.seen, node.ports.rest.seen);
            format!("  server {} 127.0.0.1:{postgres} check port {rest}\n", node.name)
        };
        let servers = self.nodes.iter().map(server).collect::<Vec<_>>().concat();
        format!(
            "global\n  maxconn 1000\ndefaults\n  mode tcp\n  retries 1\n  timeout connect 2s\n  timeout client 1h\n  \
             timeout server 1h\n  timeout check 4s\nlisten postgres\n  bind 127.0.0.1:{}\n  option httpchk GET /primary\n  \
             http-check expect status 200\n  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions\n{servers}",
            self.ports.proxy
        )
    }

    fn haproxy_settings(&self) -> PathBuf {
        self.layout.path("haproxy.cfg")
    }

    fn dcs(&self) -> Result<Spec> {
        controlplane::etcd_named(DCS, &self.layout, self.ports.dcs, self.ports.dcs_peer)
    }

    /// Its processes, in the order of their start.
    pub fn specs(&self) -> Result<Vec<Spec>> {
        let mut specs = vec![self.dcs()?];
        for node in &self.nodes {
            if let Some(cable) = &node.cable {
                let NodePorts { postgres, rest, dcs } = &node.ports;
                let way = |from: u16, to: u16| format!("{from}:{to}");
                let ways =
                    [way(postgres.seen, postgres.own), way(rest.seen, rest.own), way(*dcs, self.ports.dcs)];
                specs.push(Spec::new(cable, &layout::program_path("instance")?).args(["cable"]).args(ways));
            }
        }
        for node in &self.nodes {
            let file = node.dir.join("patroni.json");
            let mut spec = Spec::new(&node.name, &self.python);
            spec = spec.args(["-m", "patroni"]).args([file.to_string_lossy()]);
            // libpq and Python look for files of the user who calls them.
            spec.env = vec![
                ("HOME".to_owned(), node.dir.to_string_lossy().into_owned()),
                ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
            ];
            spec.user = self.user;
            specs.push(spec);
        }
        let settings = self.haproxy_settings();
        specs.push(
            Spec::new(HAPROXY, &layout::bin().join("haproxy"))
                .args(["-db", "-f"])
                .args([settings.to_string_lossy()]),
        );
        Ok(specs)
    }

    /// The address at which clients reach the leader.
    pub fn url(&self) -> String {
        self.url_at(self.ports.proxy)
    }

    /// Where a node is, whether it leads or not, and whatever becomes of its network.
    pub fn url_of(&self, node: &PatroniNode) -> String {
        self.url_at(node.ports.postgres.own)
    }

    fn url_at(&self, port: u16) -> String {
        format!("postgres://{DATABASE}:{}@127.0.0.1:{port}/{DATABASE}", self.passwords.application)
    }

    /// Waits until it takes writes: a leader, with a synchronous standby.
    pub fn wait(&self, supervisor: &Supervisor) -> Result<()> {
        let first = self.nodes.first().context("no node")?;
        supervisor.wait(&first.name, READY, || {
            let led = postgres::probe(self.ports.proxy).unwrap_or(false);
            Ok(match (self.members(), led) {
                (Ok(members), true) if members.whole() => Progress::Done(()),
                (members, _) => Progress::Pending(format!("{members:?}")),
            })
        })
    }

    /// Waits until all nodes are members and replicate.
    pub fn until_whole(&self, deadline: Duration) -> Result<()> {
        wait::until("all nodes of PostgreSQL", deadline, || {
            Ok(match self.members() {
                Ok(members) if members.whole() && members.0.len() == usize::from(NODES) => Progress::Done(()),
                members => Progress::Pending(format!("{members:?}")),
            })
        })
    }

    /// The members, as reported by the first node that answers.
    pub fn members(&self) -> Result<Members> {
        let mut last = None;
        for node in &self.nodes {
            match programs::get(node.ports.rest.own, "/cluster") {
                Ok((200, text)) => return Members::read(&text),
                other => last = Some(other),
            }
        }
        bail!("no node answers: {last:?}")
    }

    /// The node with this role.
    pub fn node(&self, role: Role) -> Result<&PatroniNode> {
        let members = self.members()?;
        let name = members.0.iter().find(|member| member.role == role).map(|member| member.name.as_str());
        let node = name.and_then(|name| self.nodes.iter().find(|node| node.name == name));
        node.with_context(|| format!("no {role:?} among {members:?}"))
    }

    /// Does a planned switchover.
    pub fn switchover(&self) -> Result<()> {
        let leader = self.node(Role::Leader)?;
        let body = json!({"leader": leader.name});
        let (code, text) = self.tell(leader, "POST", "/switchover", &body)?;
        ensure!(code == 200, "switchover: {code}: {}", text.trim());
        Ok(())
    }

    /// Changes settings that all nodes share.
    pub fn configure(&self, settings: &Value) -> Result<()> {
        let leader = self.node(Role::Leader)?;
        let (code, text) = self.tell(leader, "PATCH", "/config", settings)?;
        ensure!(code == 200, "settings: {code}: {}", text.trim());
        Ok(())
    }

    /// Whether a leader goes on without the etcd while all others still see it; waits until the leader knows.
    pub fn set_failsafe(&self, on: bool) -> Result<()> {
        self.configure(&json!({"failsafe_mode": on}))?;
        let since = SystemTime::UNIX_EPOCH.elapsed()?.as_secs();
        let rest = self.node(Role::Leader)?.ports.rest.own;
        wait::until("the leader to read its settings", ANSWER, || {
            let text = programs::get(rest, "/patroni").map(|(_, text)| text).unwrap_or_default();
            let told: Value = serde_json::from_str(&text).unwrap_or_default();
            let read = told.get("dcs_last_seen").and_then(Value::as_u64);
            Ok(if read.is_some_and(|read| read > since) {
                Progress::Done(())
            } else {
                Progress::Pending(text)
            })
        })
    }

    fn tell(&self, node: &PatroniNode, method: &str, path: &str, body: &Value) -> Result<(u16, String)> {
        let body = body.to_string();
        let user = BASE64_STANDARD.encode(format!("patroni:{}", self.passwords.rest));
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic {user}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(programs::exchange(node.ports.rest.own, &request, ANSWER)?)
    }

    /// A command that shows the leader to a person.
    pub fn show(&self) -> String {
        let rest = self.nodes.first().map_or(0, |node| node.ports.rest.own);
        format!("curl -s http://127.0.0.1:{rest}/cluster")
    }

    /// Where a node is for whoever may do everything there.
    pub fn superuser_url(&self, node: &PatroniNode) -> String {
        let NodePorts { postgres, .. } = &node.ports;
        format!("postgres://postgres:{}@127.0.0.1:{}/{DATABASE}", self.passwords.superuser, postgres.own)
    }
}

/// Takes the small disks below a directory away; who used them is to be stopped.
pub fn remove_disks(base: &Path) -> Result<()> {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else { return Ok(()) };
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
    for place in places.filter(|place| place.starts_with(base)) {
        let done = Command::new("umount").arg(place).status()?;
        ensure!(done.success(), "umount {} failed", place.display());
    }
    Ok(())
}

fn is_mount(dir: &Path) -> Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let dir = dir.to_string_lossy();
    Ok(mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*dir)))
}

/// Puts a small file system, which lies in memory, under a directory.
fn small_disk(dir: &Path, bytes: u64) -> Result<()> {
    if is_mount(dir)? {
        return Ok(());
    }
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(dir);
    let done = mount.status().context("start mount")?;
    ensure!(done.success(), "a small disk cannot be mounted on {}", dir.display());
    Ok(())
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    /// Has each commit before it is acknowledged.
    Synchronous,
    /// Replicates asynchronously.
    Asynchronous,
}

/// A node, as another sees it.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub role: Role,
    pub state: String,
}

/// All known members.
#[derive(Clone, Debug)]
pub struct Members(pub Vec<Member>);

impl Members {
    fn read(text: &str) -> Result<Self> {
        let answer: Value = serde_json::from_str(text).context("read Patroni's answer")?;
        let member = |member: &Value| {
            let text = |name: &str| member.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let role = match text("role").as_str() {
                "leader" => Role::Leader,
                "sync_standby" | "quorum_standby" => Role::Synchronous,
                _ => Role::Asynchronous,
            };
            Member { name: text("name"), role, state: text("state") }
        };
        let members = answer.get("members").and_then(Value::as_array).context("Patroni names no members")?;
        Ok(Self(members.iter().map(member).collect()))
    }

    /// Whether there are a leader and a synchronous standby, and everybody follows.
    fn whole(&self) -> bool {
        let has = |role: Role| self.0.iter().any(|member| member.role == role);
        let well = |member: &Member| matches!(member.state.as_str(), "running" | "streaming");
        has(Role::Leader) && has(Role::Synchronous) && self.0.iter().all(well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_whole_with_a_leader_and_a_synchronous_standby() {
        let read = |roles: &[(&str, &str)]| {
            let members: Vec<Value> = roles
                .iter()
                .map(|(role, state)| json!({"name": role, "role": role, "state": state}))
                .collect();
            Members::read(&json!({"members": members}).to_string()).unwrap().whole()
        };
        assert!(read(&[("leader", "running"), ("sync_standby", "streaming"), ("replica", "streaming")]));
        assert!(!read(&[("leader", "running"), ("replica", "streaming")]));
        assert!(!read(&[("sync_standby", "streaming"), ("replica", "streaming")]));
        assert!(!read(&[("leader", "running"), ("sync_standby", "streaming"), ("replica", "starting")]));
    }
}

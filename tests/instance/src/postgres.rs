//! A private PostgreSQL: runs as an unprivileged user, and takes TCP connections with a password.

use crate::layout::{self, Layout};
use crate::pki::{CertificateSubject, Pki, password, random, secret};
use crate::supervisor::{Spec, Supervisor};
use crate::wait::Progress;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The database, and the role that owns it.
pub(crate) const DATABASE: &str = "business";
/// Of its certificate, where it has one.
pub const AUTHORITY: &str = "database-ca";
const READY: Duration = Duration::from_mins(3);
const PROBE: Duration = Duration::from_secs(2);
pub(crate) const MAX_CONNECTIONS: u16 = 200;
/// A finished data directory holds this file with the directory of the programs that made it.
const MARKER: &str = "made-by";

/// An instance to be started.
#[derive(Clone, Debug)]
pub struct Postgres {
    pub(crate) programs: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) user: Option<(u32, u32)>,
    password: String,
    port: u16,
    /// Whether it has a certificate.
    tls: bool,
    /// Whether it archives its WAL, and gives base backups.
    archives: bool,
}

fn complete(dir: &Path) -> bool {
    dir.join("initdb").is_file() && dir.join("postgres").is_file()
}

/// The user PostgreSQL runs as when we are root, which it refuses to be.
pub(crate) fn unprivileged() -> Option<(u32, u32)> {
    if nix_is_root() {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let find = |name: &str| {
            let mut fields =
                passwd.lines().find(|line| line.split(':').next() == Some(name))?.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        };
        return Some(find("postgres").or_else(|| find("nobody")).unwrap_or((65534, 65534)));
    }
    None
}

fn nix_is_root() -> bool {
    std::fs::metadata("/proc/self")
        .map_or_else(|_| std::env::var("USER").is_ok_and(|user| user == "root"), |me| me.uid() == 0)
}

/// Whether other users can access this directory.
fn traversable(dir: &Path) -> bool {
    dir.ancestors()
        .filter(|part| part.exists())
        .all(|part| part.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0))
}

/// Where data lies: in the instance's directory, unless the user who runs PostgreSQL cannot get there.
pub(crate) fn base_directory(layout: &Layout, supervisor: &Supervisor) -> Result<PathBuf> {
    let known = supervisor.state(|state| state.postgres_dir.clone())?.filter(|dir| dir.exists());
    let base = known.unwrap_or_else(|| {
        if unprivileged().is_none() || traversable(&layout.dir) {
            layout.path("postgres")
        } else {
            Path::new("/var/tmp").join(format!("tke-business-{}", layout.short_hash()))
        }
    });
    supervisor.state(|state| state.postgres_dir = Some(base.clone()))?;
    std::fs::create_dir_all(&base)?;
    Ok(base)
}

impl Postgres {
    /// Creates the data directory unless it is there.
    pub fn prepare(layout: &Layout, supervisor: &Supervisor, port: u16, archives: bool) -> Result<Self> {
        let user = unprivileged();
        let base = base_directory(layout, supervisor)?;
        let password = password(&layout.path("postgres.password"))?;
        let data = base.join("data");
        // Data of one major version is of no use to another: the programs that made it go on with it.
        let made_by = std::fs::read_to_string(data.join(MARKER)).ok().map(PathBuf::from);
        let programs = match made_by.filter(|dir| complete(dir)) {
            Some(dir) => dir,
            None => layout::postgresql()?,
        };
        let this = Self { programs, data, user, password, port, tls: false, archives };
        if !this.data.join(MARKER).exists() {
            this.initialize()?;
        }
        if archives {
            this.make_archive()?;
        }
        Ok(this)
    }

    /// With a certificate of the authority [`AUTHORITY`].
    pub fn with_tls(self, pki: &Pki) -> Result<Self> {
        pki.authority(AUTHORITY)?;
        pki.issue(AUTHORITY, DATABASE, &CertificateSubject::server(&["127.0.0.1"]))?;
        for (from, to) in [(pki.cert(DATABASE), "server.crt"), (pki.key(DATABASE), "server.key")] {
            let to = self.data.join(to);
            std::fs::copy(&from, &to).with_context(|| format!("write {}", to.display()))?;
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600))?;
            if let Some((uid, gid)) = self.user {
                chown(&to, Some(uid), Some(gid))?;
            }
        }
        Ok(Self { tls: true, ..self })
    }

    pub fn url(&self) -> String {
        format!("postgres://{DATABASE}:{}@127.0.0.1:{}/{DATABASE}", self.password, self.port)
    }

    pub fn spec(&self) -> Spec {
        let mut spec = Spec::new("postgres", &self.programs.join("postgres")).args([
            "-D".to_owned(),
            self.data.to_string_lossy().into_owned(),
            "-c".to_owned(),
            format!("port={}", self.port),
            "-c".to_owned(),
            "listen_addresses=127.0.0.1".to_owned(),
            "-c".to_owned(),
            "unix_socket_directories=".to_owned(),
            "-c".to_owned(),
            format!("max_connections={MAX_CONNECTIONS}"),
            "-c".to_owned(),
            format!("ssl={}", if self.tls { "on" } else { "off" }),
        ]);
        if self.archives {
            spec = spec.args(self.archiving().into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
        }
        spec.user = self.user;
        // Fast shutdown: open connections are closed, not waited for.
        spec.stop = Signal::SIGINT;
        spec
    }

    pub fn wait(&self, supervisor: &Supervisor) -> Result<()> {
        supervisor.wait("postgres", READY, || {
            Ok(match probe(self.port) {
                Ok(true) => Progress::Done(()),
                Ok(false) => Progress::Pending("it is starting".to_owned()),
                Err(error) => Progress::Pending(error.to_string()),
            })
        })
    }

    fn initialize(&self) -> Result<()> {
        if self.data.exists() {
            std::fs::remove_dir_all(&self.data).context("remove a half-made data directory")?;
        }
        std::fs::create_dir_all(&self.data)?;
        std::fs::set_permissions(&self.data, std::fs::Permissions::from_mode(0o700))?;
        if let Some((uid, gid)) = self.user {
            chown(&self.data, Some(uid), Some(gid))?;
        }
        let mut init = self.command("initdb");
        init.arg("-D").arg(&self.data);
        init.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]);
        // The superuser gets a password nobody knows; the programs have a role of their own.
        let unknown = self.data.with_file_name("superuser.password");
        secret(&unknown, &random()?)?;
        if let Some((uid, gid)) = self.user {
            chown(&unknown, Some(uid), Some(gid))?;
        }
        init.arg("--pwfile").arg(&unknown).arg("--no-instructions");
        let made = feed(init, "");
        std::fs::remove_file(&unknown)?;
        made?;
        let mut single = self.command("postgres");
        single.args(["--single", "-D"]).arg(&self.data).arg("postgres");
        let replication = if self.archives { "REPLICATION " } else { "" };
        let sql = format!(
            "CREATE ROLE {DATABASE} LOGIN {replication}PASSWORD '{}'\nCREATE DATABASE {DATABASE} OWNER {DATABASE}\n",
            self.password
        );
        feed(single, &sql)?;
        let marker = self.data.join(MARKER);
        std::fs::write(&marker, self.programs.to_string_lossy().as_bytes())?;
        if let Some((uid, gid)) = self.user {
            chown(&marker, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        self.run(&self.programs.join(program))
    }

    /// As the user that PostgreSQL runs as.
    pub(crate) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env("LC_ALL", "C");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// Says hello as a client does: an answer `R` asks for the password, so the server takes connections.
pub(crate) fn probe(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PROBE)?;
    stream.set_read_timeout(Some(PROBE))?;
    let mut body = vec![0, 3, 0, 0];
    body.extend(format!("user\0{DATABASE}\0database\0{DATABASE}\0\0").bytes());
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&body)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer == *b"R")
}

fn feed(mut command: Command, input: &str) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {name}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !complaint.contains("ERROR:"), "{name}: {}", complaint.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_only_its_owner_may_enter_is_not_for_another_user() {
        let dir = std::env::temp_dir().join(format!("xtask-enter-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        let set = |mode| std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o700);
        assert!(!traversable(&dir.join("below")));
        set(0o755);
        assert!(traversable(&dir.join("below")));
        std::fs::remove_dir_all(dir).unwrap();
    }
}

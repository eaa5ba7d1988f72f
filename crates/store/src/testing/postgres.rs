use crate::{Error, Store, connect, functions, migrate};
use sqlx::{AssertSqlSafe, PgConnection};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// A server for tests, listening on 127.0.0.1. When this is dropped, or the process ends, the server stops and its data
/// is removed.
#[derive(Debug)]
pub struct Server {
    url: String,
    own: Option<OwnServer>,
}

#[derive(Debug)]
struct OwnServer {
    programs: PathBuf,
    data: PathBuf,
    port: u16,
    settings: Vec<String>,
    small_disk: Option<SmallDisk>,
    keeper: Option<Child>,
}

/// A file system of a few megabytes that only the server sees.
#[derive(Clone, Debug)]
struct SmallDisk {
    place: PathBuf,
    bytes: u64,
}

/// An empty, migrated database.
#[derive(Clone, Debug)]
pub struct Database {
    /// `postgres://…`
    pub url: String,
}

/// Any error here: the test cannot go on.
pub type TestError = Box<dyn std::error::Error + Send + Sync>;

/// Settings for tests in which the machine does not lose power.
pub const NOT_DURABLE: [&str; 3] = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"];

const START_DEADLINE: Duration = Duration::from_mins(5);
const SETTING_DEADLINE: Duration = Duration::from_mins(1);
/// How long a starting server may refuse connections. A server that says that it is starting gets more time.
const START_ATTEMPT: Duration = Duration::from_secs(10);
/// A shell script that runs a server until the script's input ends, and then stops it. It removes the data unless the
/// input says `keep`.
const KEEPER: &str = r#"data="$1"; shift; "$@" & server=$!; read -r word; kill -QUIT "$server" 2>/dev/null
wait "$server"; test "$word" = keep || rm -rf "$data""#;

/// A shell script that mounts a small file system which only it and its children see, and then runs a command as
/// another user.
const MOUNTER: &str = r#"mount -t tmpfs -o "size=$1,uid=$3,mode=0700" tmpfs "$2" && user="$3" && shift 3 &&
exec setpriv --reuid "$user" --clear-groups -- "$@""#;

static SHARED: OnceCell<Server> = OnceCell::const_new();

/// A database on the server that all tests of the process share: the one at `TEST_DATABASE_URL`, or one that is started
/// for them.
pub async fn database() -> Result<Database, TestError> {
    let server = SHARED.get_or_try_init(shared).await?;
    server.database().await
}

async fn shared() -> Result<Server, TestError> {
    let server = match std::env::var("TEST_DATABASE_URL") {
        Ok(url) => Server { url, own: None },
        Err(_) => Server::start(&NOT_DURABLE).await?,
    };
    Ok(server)
}

impl Server {
    /// Starts a server with these settings (`name=value`).
    pub async fn start(settings: &[&str]) -> Result<Self, TestError> {
        Self::start_on(settings, None).await
    }

    /// Starts a server that sees a file system of so many bytes, and returns its path. `None` if this process may not
    /// mount one.
    pub async fn start_with_small_disk(
        settings: &[&str],
        bytes: u64,
    ) -> Result<Option<(Self, PathBuf)>, TestError> {
        let trial =
            Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
        if !trial.is_ok_and(|trial| trial.status.success()) {
            return Ok(None);
        }
        let place = PathBuf::from(format!("/var/tmp/store-test-disk-{}", Uuid::new_v4()));
        std::fs::create_dir(&place)?;
        let server = Self::start_on(settings, Some(SmallDisk { place: place.clone(), bytes })).await?;
        Ok(Some((server, place)))
    }

    /// Starts a server that accepts TLS, with this certificate and key in PEM.
    pub async fn start_with_certificate(
        settings: &[&str],
        certificate: &str,
        key: &str,
    ) -> Result<Self, TestError> {
        let settings = [settings, &["ssl=on"]].concat();
        let mut server = Self::prepare(&settings, None)?;
        let own = server.own.as_ref().ok_or("the server is not ours")?;
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let file = own.data.join(name);
            std::fs::write(&file, text)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
            unprivileged(&file)?;
        }
        server.launch().await?;
        Ok(server)
    }

    async fn start_on(settings: &[&str], small_disk: Option<SmallDisk>) -> Result<Self, TestError> {
        let mut server = Self::prepare(settings, small_disk)?;
        server.launch().await?;
        Ok(server)
    }

    /// A server with an empty data directory that is not started yet.
    fn prepare(settings: &[&str], small_disk: Option<SmallDisk>) -> Result<Self, TestError> {
        let programs = programs()?;
        let data = PathBuf::from(format!("/var/tmp/store-test-{}", Uuid::new_v4()));
        std::fs::create_dir(&data)?;
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.args(["--pgdata", &data.to_string_lossy(), "--username=postgres", "--auth=trust"]);
        initdb.args(["--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]).stdout(Stdio::null());
        if let Some(uid) = unprivileged(&data)? {
            initdb.uid(uid);
        }
        if !initdb.current_dir("/").status()?.success() {
            return Err("initdb failed".into());
        }
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let own = OwnServer { programs, data, port, settings, small_disk, keeper: None };
        Ok(Self { url: format!("postgres://postgres@127.0.0.1:{port}/postgres"), own: Some(own) })
    }

    /// Starts a standby that streams from this server, which is stopped while its data is copied.
    pub async fn standby(&mut self, settings: &[&str]) -> Result<Self, TestError> {
        self.stop()?;
        let own = self.own.as_ref().ok_or("the server is not ours")?;
        let data = PathBuf::from(format!("/var/tmp/store-test-{}", Uuid::new_v4()));
        if !Command::new("cp").arg("-a").args([&own.data, &data]).status()?.success() {
            return Err("the data could not be copied".into());
        }
        let _stopped_already = std::fs::remove_file(data.join("postmaster.pid"));
        std::fs::write(data.join("standby.signal"), "")?;
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let source = format!("primary_conninfo=host=127.0.0.1 port={} user=postgres", own.port);
        let again = "wal_retrieve_retry_interval=100ms".to_owned();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).chain([source, again]).collect();
        let copy = OwnServer {
            programs: own.programs.clone(),
            data,
            port,
            settings,
            small_disk: None,
            keeper: None,
        };
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let mut standby = Self { url, own: Some(copy) };
        self.launch().await?;
        standby.launch().await?;
        Ok(standby)
    }

    /// The URL of a database of this server.
    pub fn url(&self, database: &str) -> String {
        let (server, _) = self.url.rsplit_once('/').unwrap_or((&self.url, ""));
        format!("{server}/{database}")
    }

    /// A new database with the schema.
    pub async fn database(&self) -> Result<Database, TestError> {
        let database = self.empty_database().await?;
        Store::migrate(&database.url).await?;
        Ok(database)
    }

    /// A new database with the schema of the version before this one.
    pub async fn old_database(&self) -> Result<Database, TestError> {
        let database = self.empty_database().await?;
        migrate::migrate_to_former(&database.url).await?;
        Ok(database)
    }

    /// A new database without a schema.
    pub async fn empty_database(&self) -> Result<Database, TestError> {
        // A server that is not ours keeps what earlier processes have made, and pids come again.
        let name = format!("store_{}", Uuid::new_v4().simple());
        let mut admin = self.admin().await?;
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut admin).await?;
        Ok(Database { url: self.url(&name) })
    }

    /// A connection to the database `postgres`.
    pub async fn admin(&self) -> Result<PgConnection, TestError> {
        Ok(connect::connect(&self.url, "test").await?)
    }

    /// Starts the server, maybe again. After a kill, processes of the old one may be in the way for a moment.
    pub async fn launch(&mut self) -> Result<(), TestError> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            self.spawn()?;
            match self.ready(deadline).await {
                Err(_) if Instant::now() < deadline => self.stop()?,
                outcome => return outcome,
            }
        }
    }

    fn spawn(&mut self) -> Result<(), TestError> {
        let own = self.own.as_mut().ok_or("the server is not ours")?;
        let data = own.data.to_string_lossy().into_owned();
        let port = own.port.to_string();
        let postgres = own.programs.join("postgres").to_string_lossy().into_owned();
        let mut line = vec!["sh", "-c", KEEPER, "sh", &data, &postgres, "-D", &data, "-p", &port];
        line.extend(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        for setting in &own.settings {
            line.extend(["-c", setting]);
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(own.data.join("log"))?;
        let uid = unprivileged(&own.data)?;
        let mut keeper;
        if let (Some(disk), Some(uid)) = (&own.small_disk, uid) {
            let (bytes, uid) = (disk.bytes.to_string(), uid.to_string());
            keeper = Command::new("unshare");
            keeper.args(["--mount", "sh", "-c", MOUNTER, "sh", &bytes]).arg(&disk.place).arg(&uid);
            keeper.args(&line);
        } else {
            keeper = Command::new("sh");
            keeper.args(line.iter().skip(1));
            if let Some(uid) = uid {
                keeper.uid(uid);
            }
        }
        keeper.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).current_dir("/");
        own.keeper = Some(keeper.spawn()?);
        Ok(())
    }

    async fn ready(&self, deadline: Instant) -> Result<(), TestError> {
        let mut heard = Instant::now();
        loop {
            let error = match connect::connect(&self.url, "test").await {
                Ok(_connection) => return Ok(()),
                Err(error) => error,
            };
            let now = Instant::now();
            let refused =
                matches!(&error, sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused);
            if !refused {
                heard = now;
            }
            if now > deadline || now.duration_since(heard) > START_ATTEMPT {
                return Err(error.into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the server at once, as `pg_ctl stop -m immediate` does. The data stays.
    pub fn stop(&mut self) -> Result<(), TestError> {
        let own = self.own.as_mut().ok_or("the server is not ours")?;
        let Some(mut keeper) = own.keeper.take() else { return Ok(()) };
        if let Some(mut input) = keeper.stdin.take() {
            input.write_all(b"keep\n")?;
        }
        keeper.wait()?;
        Ok(())
    }

    /// Kills the server with SIGKILL. The data stays.
    pub fn kill(&mut self) -> Result<(), TestError> {
        let own = self.own.as_ref().ok_or("the server is not ours")?;
        let file = std::fs::read_to_string(own.data.join("postmaster.pid"))?;
        let pid = file.lines().next().unwrap_or_default();
        Command::new("kill").args(["-KILL", pid]).status()?;
        self.stop()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            if let Some(disk) = &own.small_disk {
                let _removed = std::fs::remove_dir(&disk.place);
            }
            match own.keeper.take() {
                Some(mut keeper) => {
                    drop(keeper.stdin.take());
                    let _ended = keeper.wait();
                }
                None => {
                    let _removed = std::fs::remove_dir_all(&own.data);
                }
            }
        }
    }
}

impl Database {
    /// Installs the functions of a former release beside those of this one, under names that end in `_former`.
    pub async fn install_former(&self) -> Result<(), TestError> {
        Ok(functions::install_as(&mut self.connect().await?, migrate::FORMER).await?)
    }

    /// A connection for the test itself.
    pub async fn connect(&self) -> Result<PgConnection, Error> {
        connect::connect(&self.url, "test").await.map_err(connect::unavailable)
    }

    /// Waits until commits wait for a standby, as `synchronous_standby_names` says. The setting is in force once the
    /// server's checkpointer has read it, and only a commit shows that.
    pub async fn until_commits_wait(&self) -> Result<(), TestError> {
        let (mut probe, mut looking) = (self.connect().await?, self.connect().await?);
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut probe).await?;
        let committing = async {
            let deadline = Instant::now() + SETTING_DEADLINE;
            while Instant::now() < deadline {
                sqlx::query("SELECT pg_logical_emit_message(true, '', '')").execute(&mut probe).await?;
            }
            Err::<(), TestError>("commits wait for no standby".into())
        };
        let waiting = async {
            let query =
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep')";
            while !sqlx::query_scalar::<_, bool>(query).bind(pid).fetch_one(&mut looking).await? {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok::<(), TestError>(())
        };
        tokio::select! {
            ended = committing => ended,
            ended = waiting => ended,
        }
    }
}

/// The folder of `initdb` and `postgres`.
fn programs() -> Result<PathBuf, TestError> {
    let mut places: Vec<PathBuf> = std::env::var_os("POSTGRES_BIN").map(PathBuf::from).into_iter().collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
        found.sort();
        places.extend(found.into_iter().rev());
    }
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let found =
        places.into_iter().find(|place| place.join("initdb").is_file() && place.join("postgres").is_file());
    found.ok_or_else(|| "PostgreSQL is not installed; POSTGRES_BIN may name its programs' folder".into())
}

/// The user to run PostgreSQL as, if it is another one: PostgreSQL refuses to run as root. Gives that user the data.
fn unprivileged(data: &Path) -> Result<Option<u32>, TestError> {
    use std::os::unix::fs::MetadataExt as _;
    const NOBODY: u32 = 65_534;
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    std::os::unix::fs::chown(data, Some(NOBODY), None)?;
    Ok(Some(NOBODY))
}

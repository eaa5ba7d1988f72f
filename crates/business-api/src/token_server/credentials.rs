use super::accounts::RegistryAccount;
use super::is_same;
use super::last_used::LastUsedSender;
use apiserver::Caller;
use apiserver::caller::Via;
use apiserver::dialect::{BasicCredentials, Judgement};
use apiserver::strategy::WriteContext;
use business_types::names::{GROUP, NAMESPACES, PROJECTS, REGISTRY_CREDENTIALS};
use business_types::namespace::pull_credential::{NamespaceLogin, namespace_of};
use business_types::registry_credential::username;
use business_types::{
    CredentialHolder, NamespaceSpec, NamespaceStatus, PullCredential, PullPassword, RegistryCredentialSpec,
    RegistryCredentialStatus, Robot, RobotAccess,
};
use meta::object::Object;
use meta::time::{self, DAY_SECONDS};
use runtime::Clock;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use store::read::At;
use store::{Access, Key, KindId, Store};
use tokio::sync::Semaphore;

/// The prefix of our passwords. It tells them from tokens, and lets secret scanners recognize them.
pub const PASSWORD_PREFIX: &str = "regcred_";
/// The key under which the extra information of a robot has the user name of its credential.
const ROBOT_KEY: &str = "business.tkestack.io/registry-robot";
/// The key under which the extra information of a person has the tenant of the credential.
const TENANT_KEY: &str = "business.tkestack.io/registry-tenant";

/// The most concurrent lookups in the newest state. These are for passwords that the cache does not know, and wrong
/// ones.
const LATEST_LOOKUPS_MAX: usize = 8;

/// Authenticates by the names and passwords in the store.
#[derive(Debug)]
pub struct Credentials {
    store: Store,
    access: Access,
    kind: KindId,
    namespaces: KindId,
    projects: KindId,
    uses: LastUsedSender,
    controller: Option<RegistryAccount>,
    clock: Clock,
    latest_lookups: Semaphore,
}

/// A robot and its project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRobot {
    /// Its project.
    pub project: String,
    /// Whether it may also act in the projects below.
    pub includes_children: bool,
    /// What it may do there.
    pub robot: Robot,
}

/// A credential that was found by its user name.
struct StoredCredential {
    key: Key,
    is_deleting: bool,
    tenant: String,
    host_user: bool,
    holder: Option<CredentialHolder>,
    passwords: Vec<StoredPassword>,
    project_uid: String,
    last_used: LastUsed,
}

/// What the store has of a password.
struct StoredPassword {
    hash: String,
    expires_at: String,
}

/// Whether the last use of a credential is recorded.
enum LastUsed {
    /// The last day on which it was used.
    Recorded(Option<String>),
    /// Not recorded, because it is used whenever a pod starts.
    NotRecorded,
}

impl Credentials {
    /// `None` where the store keeps no credentials. `controller`: the controller's own account.
    pub fn new(
        store: Store,
        uses: LastUsedSender,
        controller: Option<RegistryAccount>,
        clock: Clock,
    ) -> Option<Self> {
        let kind = store.kind_id(GROUP, REGISTRY_CREDENTIALS)?;
        let namespaces = store.kind_id(GROUP, NAMESPACES)?;
        let projects = store.kind_id(GROUP, PROJECTS)?;
        let (access, latest_lookups) = (Access::internal("token server"), Semaphore::new(LATEST_LOOKUPS_MAX));
        Some(Self { store, access, kind, namespaces, projects, uses, controller, clock, latest_lookups })
    }

    /// Authenticates a name and a password. A password that is not ours may be a token.
    pub async fn authenticate(&self, basic: &BasicCredentials) -> Judgement {
        if let Some(caller) = self.controller.as_ref().and_then(|account| account.caller(basic)) {
            return Judgement::Known(Box::new(caller));
        }
        if !basic.password.starts_with(PASSWORD_PREFIX) {
            return Judgement::Token;
        }
        if let Ok(caller) = self.caller(basic, At::Any).await {
            return Judgement::Known(Box::new(caller));
        }
        // Another replica may have issued it a moment ago.
        let Ok(_look) = self.latest_lookups.try_acquire() else {
            return Judgement::Wrong("too many others are wrong, too");
        };
        match self.caller(basic, At::Latest).await {
            Ok(caller) => Judgement::Known(Box::new(caller)),
            Err(why) => Judgement::Wrong(why),
        }
    }

    async fn caller(&self, basic: &BasicCredentials, at: At) -> Result<Caller, &'static str> {
        let hash = hash(&basic.password);
        let found = self.find(&basic.user, at).await.ok_or("no such credential")?;
        let known = found.passwords.iter().find(|known| is_same(hash.as_bytes(), known.hash.as_bytes()));
        let known = known.ok_or("another password")?;
        let now = self.clock.unix_seconds();
        let ends = time::parse(&known.expires_at).ok();
        if found.is_deleting || ends.is_none_or(|ends| ends <= now) {
            return Err("the password has ended");
        }
        if !self.is_of_same_project(&found).await {
            return Err("its project is another one by now");
        }
        if let LastUsed::Recorded(last_used) = &found.last_used {
            self.uses.record(&found.key, last_used.as_deref(), now);
        }
        let (name, key, told) = match found.holder.ok_or("it is neither a person's nor a robot's")? {
            CredentialHolder::Person(user) => (user, TENANT_KEY, found.tenant.clone()),
            CredentialHolder::Robot(_) => (basic.user.clone(), ROBOT_KEY, basic.user.clone()),
        };
        let extra = BTreeMap::from([(key.to_owned(), vec![told])]);
        let tenant = Some(found.tenant).filter(|_| !found.host_user);
        Ok(Caller { name, tenant, extra, via: Via::Password, expires: ends, ..Caller::default() })
    }

    /// Whether a caller is a robot, not a person of the tenant.
    pub fn is_robot(caller: &Caller) -> bool {
        caller.via == Via::Password && caller.extra.contains_key(ROBOT_KEY)
    }

    /// The tenant that a person is confined to by the password that he came with.
    pub fn tenant(caller: &Caller) -> Option<&str> {
        let told = caller.extra.get(TENANT_KEY).filter(|_| caller.via == Via::Password)?;
        told.first().map(String::as_str)
    }

    /// What a robot may do, by its credential's present state.
    pub async fn robot(&self, caller: &Caller) -> Option<ProjectRobot> {
        let [name] = caller.extra.get(ROBOT_KEY)?.as_slice() else { return None };
        let found = self.find(name, At::Any).await?;
        let includes_children = found.key.kind == self.namespaces;
        match found.holder? {
            CredentialHolder::Robot(robot) => {
                Some(ProjectRobot { project: found.key.namespace.to_string(), includes_children, robot })
            }
            CredentialHolder::Person(_) => None,
        }
    }

    async fn find(&self, user: &str, at: At) -> Option<StoredCredential> {
        if let Some(NamespaceLogin { project, name }) = namespace_of(user) {
            let key = Key::new(self.namespaces, project, name);
            return StoredCredential::of_namespace(&self.read(&key, at).await?, key);
        }
        let (project, name) = user.split_once('/')?;
        let key = Key::new(self.kind, project, name);
        StoredCredential::of_credential(&self.read(&key, at).await?, key)
    }

    async fn read(&self, key: &Key, at: At) -> Option<Object> {
        let entry = self.store.get(&self.access, key, at).await.ok()?;
        Object::from_stored(&entry.body, entry.revision.0).ok()
    }

    /// Whether the project is still the one for which the password was issued, not another one of its name.
    async fn is_of_same_project(&self, found: &StoredCredential) -> bool {
        let key = Key::new(self.projects, "", &found.key.namespace);
        let project = self.store.get(&self.access, &key, At::Any).await;
        project.is_ok_and(|project| project.uid.to_string() == found.project_uid)
    }
}

impl StoredCredential {
    /// Reads the credential of a `RegistryCredential`.
    fn of_credential(object: &Object, key: Key) -> Option<Self> {
        let (spec, status) =
            (RegistryCredentialSpec::of(object).ok()?, RegistryCredentialStatus::of(object).ok()?);
        let known =
            StoredPassword { hash: status.password_hash, expires_at: status.expires_at.unwrap_or_default() };
        Some(Self {
            key,
            is_deleting: object.is_deleting(),
            holder: spec.holder(),
            tenant: spec.tenant_id,
            host_user: spec.host_user,
            passwords: vec![known],
            project_uid: status.project_uid,
            last_used: LastUsed::Recorded(status.last_used),
        })
    }

    /// Reads the pull credential of a Namespace.
    fn of_namespace(object: &Object, key: Key) -> Option<Self> {
        let (spec, status) = (NamespaceSpec::of(object).ok()?, NamespaceStatus::of(object).ok()?);
        let PullCredential { username: _, project_uid, names, passwords } = status.pull_credential?;
        let known = |PullPassword { hash, expires_at, .. }| StoredPassword { hash, expires_at };
        Some(Self {
            key,
            is_deleting: object.is_deleting(),
            tenant: spec.tenant_id,
            host_user: false,
            holder: Some(CredentialHolder::Robot(Robot { access: RobotAccess::Pull, names })),
            passwords: passwords.into_iter().map(known).collect(),
            project_uid,
            last_used: LastUsed::NotRecorded,
        })
    }
}

/// A password that is issued by a write.
pub(crate) struct IssuedPassword {
    password: String,
    /// What is stored of it.
    pub(crate) hash: String,
    /// RFC 3339.
    pub(crate) expires_at: String,
}

impl IssuedPassword {
    /// A new password. `now` is the time of the write in Unix seconds.
    pub(crate) fn new(now: i64, valid_days: i64) -> Self {
        let password = new_password();
        let expires_at = time::rfc3339(now.saturating_add(valid_days.saturating_mul(DAY_SECONDS)));
        Self { hash: hash(&password), password, expires_at }
    }

    /// The answer to the write. Only it contains the password; that of a dry run does not, as it opens nothing.
    pub(crate) fn answer(&self, cx: &WriteContext<'_>, username: &str) -> Object {
        let password = if cx.dry_run { "" } else { &self.password };
        let status =
            json!({"username": username, "password": password, "expirationTimestamp": self.expires_at});
        let mut answer = Object::default();
        answer.set(&["status"], status);
        answer
    }
}

/// A new password: 256 random bits.
fn new_password() -> String {
    let bits: [u8; 32] = rand::random();
    format!("{PASSWORD_PREFIX}{}", hex::encode(bits))
}

/// The hash of a password. Only the hash is stored. A password has 256 random bits, so a slower hash would not make
/// guessing harder.
pub fn hash(password: &str) -> String {
    hex::encode(Sha256::digest(password.as_bytes()))
}

/// The user name of a credential.
pub fn login_name(object: &Object) -> String {
    username(object.namespace(), object.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_new_each_time_and_known_by_their_hash() {
        let (one, other) = (new_password(), new_password());
        assert!(one.starts_with(PASSWORD_PREFIX) && one.len() == PASSWORD_PREFIX.len() + 64 && one != other);
        assert!(is_same(hash(&one).as_bytes(), hash(&one).as_bytes()));
        assert!(!is_same(hash(&one).as_bytes(), hash(&other).as_bytes()));
        assert!(!is_same(hash(&one).as_bytes(), b""), "no password was issued yet");
        assert_eq!(hash("regcred_x").len(), 64);
    }
}

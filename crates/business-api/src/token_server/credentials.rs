use super::accounts::RegistryAccount;
use super::is_same;
use super::uses::Uses;
use apiserver::Caller;
use apiserver::caller::Via;
use apiserver::dialect::{Basic, Judgement};
use business_types::names::{GROUP, NAMESPACES, PROJECTS, REGISTRY_CREDENTIALS};
use business_types::namespace::pull_credential::{NamespaceLogin, namespace_of};
use business_types::registry_credential::username;
use business_types::{
    CredentialHolder, NamespaceSpec, NamespaceStatus, PullCredential, PullPassword, RegistryCredentialSpec,
    RegistryCredentialStatus, Robot, RobotAccess,
};
use meta::object::Object;
use meta::time;
use runtime::Clock;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use store::read::At;
use store::{Access, Key, KindId, Store};
use tokio::sync::Semaphore;

/// Each of our passwords begins with this, so that none is taken for a token, and scanners recognize it.
pub const PASSWORD_PREFIX: &str = "regcred_";
/// The key of the credential that a robot came with, in the extra information of a caller who is known by a password.
const ROBOT_KEY: &str = "business.tkestack.io/registry-robot";
/// The key of the tenant whose credential a person came with, in the same place.
const TENANT_KEY: &str = "business.tkestack.io/registry-tenant";

/// Names and passwords that are looked up in the newest state at a time: those that the cache does not know, and wrong ones.
const SECOND_LOOKS_MAX: usize = 8;

/// Names and passwords, as the store keeps them.
#[derive(Debug)]
pub struct Credentials {
    store: Store,
    access: Access,
    kind: KindId,
    namespaces: KindId,
    projects: KindId,
    uses: Uses,
    controller: Option<RegistryAccount>,
    clock: Clock,
    second_looks: Semaphore,
}

/// A robot, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotOf {
    /// Its project.
    pub project: String,
    /// Whether it acts in the projects below it, too.
    pub below: bool,
    /// What it may do there.
    pub robot: Robot,
}

/// A credential that was found by its name.
struct FoundCredential {
    key: Key,
    is_deleting: bool,
    tenant: String,
    host_user: bool,
    holder: Option<CredentialHolder>,
    passwords: Vec<KnownPassword>,
    project_uid: String,
    last_used: LastUsed,
}

/// What is known of a password.
struct KnownPassword {
    hash: String,
    expires_at: String,
}

/// Whether the last use of a credential is recorded.
enum LastUsed {
    Told(Option<String>),
    /// Not recorded: it is used whenever a pod starts.
    Untold,
}

impl Credentials {
    /// `None` where the store keeps no credentials. `controller`: the controller's own account.
    pub fn new(store: Store, uses: Uses, controller: Option<RegistryAccount>, clock: Clock) -> Option<Self> {
        let kind = store.kind_id(GROUP, REGISTRY_CREDENTIALS)?;
        let namespaces = store.kind_id(GROUP, NAMESPACES)?;
        let projects = store.kind_id(GROUP, PROJECTS)?;
        let (access, second_looks) = (Access::internal("token server"), Semaphore::new(SECOND_LOOKS_MAX));
        Some(Self { store, access, kind, namespaces, projects, uses, controller, clock, second_looks })
    }

    /// Finds out whose name and password these are. Passwords that are not ours may be tokens.
    pub async fn judge(&self, basic: &Basic) -> Judgement {
        if let Some(caller) = self.controller.as_ref().and_then(|account| account.caller(basic)) {
            return Judgement::Known(Box::new(caller));
        }
        if !basic.password.starts_with(PASSWORD_PREFIX) {
            return Judgement::Token;
        }
        if let Ok(caller) = self.known(basic, At::Any).await {
            return Judgement::Known(Box::new(caller));
        }
        // It may have been issued a moment ago, by another replica.
        let Ok(_look) = self.second_looks.try_acquire() else {
            return Judgement::Wrong("too many others are wrong, too");
        };
        match self.known(basic, At::Latest).await {
            Ok(caller) => Judgement::Known(Box::new(caller)),
            Err(why) => Judgement::Wrong(why),
        }
    }

    async fn known(&self, basic: &Basic, at: At) -> Result<Caller, &'static str> {
        let hash = hash(&basic.password);
        let found = self.find(&basic.user, at).await.ok_or("no such credential")?;
        let known = found.passwords.iter().find(|known| is_same(hash.as_bytes(), known.hash.as_bytes()));
        let known = known.ok_or("another password")?;
        let now = self.clock.unix_seconds();
        let ends = time::parse(&known.expires_at).ok();
        if found.is_deleting || ends.is_none_or(|ends| ends <= now) {
            return Err("the password has ended");
        }
        if !self.is_of_its_project(&found).await {
            return Err("its project is another one by now");
        }
        if let LastUsed::Told(last_used) = &found.last_used {
            self.uses.tell(&found.key, last_used.as_deref(), now);
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

    /// What a robot may do now.
    pub async fn robot(&self, caller: &Caller) -> Option<RobotOf> {
        let [name] = caller.extra.get(ROBOT_KEY)?.as_slice() else { return None };
        let found = self.find(name, At::Any).await?;
        let below = found.key.kind == self.namespaces;
        match found.holder? {
            CredentialHolder::Robot(robot) => {
                Some(RobotOf { project: found.key.namespace.to_string(), below, robot })
            }
            CredentialHolder::Person(_) => None,
        }
    }

    async fn find(&self, user: &str, at: At) -> Option<FoundCredential> {
        if let Some(NamespaceLogin { project, name }) = namespace_of(user) {
            let key = Key::new(self.namespaces, project, name);
            return FoundCredential::of_namespace(&self.read(&key, at).await?, key);
        }
        let (project, name) = user.split_once('/')?;
        let key = Key::new(self.kind, project, name);
        FoundCredential::of_credential(&self.read(&key, at).await?, key)
    }

    async fn read(&self, key: &Key, at: At) -> Option<Object> {
        let entry = self.store.get(&self.access, key, at).await.ok()?;
        Object::from_stored(&entry.body, entry.revision.0).ok()
    }

    async fn is_of_its_project(&self, found: &FoundCredential) -> bool {
        let key = Key::new(self.projects, "", &found.key.namespace);
        let project = self.store.get(&self.access, &key, At::Any).await;
        project.is_ok_and(|project| project.uid.to_string() == found.project_uid)
    }
}

impl FoundCredential {
    /// Reads a credential with an object of its own.
    fn of_credential(object: &Object, key: Key) -> Option<Self> {
        let (spec, status) =
            (RegistryCredentialSpec::of(object).ok()?, RegistryCredentialStatus::of(object).ok()?);
        let known =
            KnownPassword { hash: status.password_hash, expires_at: status.expires_at.unwrap_or_default() };
        Some(Self {
            key,
            is_deleting: object.is_deleting(),
            holder: spec.holder(),
            tenant: spec.tenant_id,
            host_user: spec.host_user,
            passwords: vec![known],
            project_uid: status.project_uid,
            last_used: LastUsed::Told(status.last_used),
        })
    }

    /// Reads the credential with which the pods of a namespace pull.
    fn of_namespace(object: &Object, key: Key) -> Option<Self> {
        let (spec, status) = (NamespaceSpec::of(object).ok()?, NamespaceStatus::of(object).ok()?);
        let PullCredential { username: _, project_uid, names, passwords } = status.pull_credential?;
        let known = |PullPassword { hash, expires_at, .. }| KnownPassword { hash, expires_at };
        Some(Self {
            key,
            is_deleting: object.is_deleting(),
            tenant: spec.tenant_id,
            host_user: false,
            holder: Some(CredentialHolder::Robot(Robot { access: RobotAccess::Pull, names })),
            passwords: passwords.into_iter().map(known).collect(),
            project_uid,
            last_used: LastUsed::Untold,
        })
    }
}

/// A new password: 256 random bits.
pub fn new_password() -> String {
    let bits: [u8; 32] = rand::random();
    format!("{PASSWORD_PREFIX}{}", hex::encode(bits))
}

/// The hash of a password, which alone is stored. A password has as many random bits as the hash, so a slower hash
/// would not make guessing harder.
pub fn hash(password: &str) -> String {
    hex::encode(Sha256::digest(password.as_bytes()))
}

/// The name to log in with.
pub fn login(object: &Object) -> String {
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

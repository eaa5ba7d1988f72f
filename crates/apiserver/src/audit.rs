use crate::caller::Caller;
use crate::flow::Class;
use crate::request::{RequestInfo, ResourceRequest};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The header with the audit id of a request.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// A longer id is replaced by a new one.
const ID_LIMIT: usize = 128;
/// A request that takes this long is logged as slow.
const SLOW: Duration = Duration::from_secs(1);

/// What a write did, as its handler records it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedChange {
    /// Name of the object, if the URL does not have it.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion before; empty for a create.
    pub old: String,
    /// Its resourceVersion after; empty for a removal.
    pub new: String,
    /// Whether nothing was stored.
    pub dry_run: bool,
    /// Further information, such as a forced write and its reason.
    pub note: String,
}

/// The request's id: the client's, or a new one.
pub(crate) fn id(headers: &HeaderMap) -> (Arc<str>, HeaderValue) {
    if let Some(value) = headers.get(&AUDIT_ID)
        && let Ok(text) = value.to_str()
        && (1..=ID_LIMIT).contains(&text.len())
    {
        return (Arc::from(text), value.clone());
    }
    let mut buffer = uuid::Uuid::encode_buffer();
    // Unlike an object's uid, not from the kernel's random numbers, which take a system call.
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let text: &str = id.hyphenated().encode_lower(&mut buffer);
    let value = HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("invalid"));
    (Arc::from(text), value)
}

/// The time from the start of a request to the end of each phase. Zero if it did not get there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    pub(crate) authenticated: Duration,
    pub(crate) authorized: Duration,
}

/// One request that was answered.
#[derive(Debug)]
pub(crate) struct AuditRecord<'a> {
    pub(crate) audit_id: &'a str,
    pub(crate) peer: SocketAddr,
    /// Who was authenticated.
    pub(crate) caller: Option<&'a Caller>,
    /// The caller that he impersonated.
    pub(crate) impersonated: Option<&'a Caller>,
    pub(crate) info: Option<&'a RequestInfo>,
    pub(crate) class: Class,
    pub(crate) code: u16,
    pub(crate) took: Duration,
    pub(crate) phases: Phases,
    pub(crate) change: Option<&'a AuditedChange>,
}

impl AuditRecord<'_> {
    /// Logs writes to the target `audit`, and slow requests as warnings. Returns whether it was a write.
    pub(crate) fn log(&self) -> bool {
        let Some(info) = self.info else { return false };
        let is_write = self.class == Class::Write;
        if is_write {
            self.log_write(info);
        }
        if self.took >= SLOW && self.class != Class::Stream {
            self.warn_slow(info);
        }
        is_write
    }

    /// Logs a slow request with the time of each phase, which tells a slow authenticator or authorizer from a slow
    /// database.
    fn warn_slow(&self, info: &RequestInfo) {
        let Phases { authenticated, authorized } = self.phases;
        let handled =
            if authorized.is_zero() { Duration::ZERO } else { self.took.saturating_sub(authorized) };
        tracing::warn!(
            audit_id = self.audit_id,
            user = name_of(self.caller),
            verb = info.verb(),
            path = info.path(),
            code = self.code,
            milliseconds = milliseconds(self.took),
            authentication_milliseconds = milliseconds(authenticated),
            authorization_milliseconds = milliseconds(authorized.saturating_sub(authenticated)),
            handler_milliseconds = milliseconds(handled),
            "slow request"
        );
    }

    fn log_write(&self, info: &RequestInfo) {
        let nothing = AuditedChange::default();
        let change = self.change.unwrap_or(&nothing);
        let user = name_of(self.caller);
        let impersonated = name_of(self.impersonated);
        let acting = self.impersonated.or(self.caller);
        let tenant = acting.and_then(|caller| caller.tenant.as_deref()).unwrap_or_default();
        let no_resource = ResourceRequest::default();
        let request = info.resource().unwrap_or(&no_resource);
        let name = match info {
            RequestInfo::Path(request) => &request.path,
            RequestInfo::Resource(request) if request.name.is_empty() => &change.name,
            RequestInfo::Resource(request) => &request.name,
        };
        tracing::info!(
            target: "audit",
            audit_id = self.audit_id,
            peer = %self.peer,
            user,
            impersonated,
            tenant,
            via = ?self.caller.map(|caller| caller.via).unwrap_or_default(),
            verb = info.verb(),
            resource = request.resource,
            subresource = request.subresource,
            namespace = request.namespace,
            name,
            uid = change.uid,
            old = change.old,
            new = change.new,
            dry_run = change.dry_run,
            note = change.note,
            code = self.code,
            milliseconds = milliseconds(self.took),
            "write"
        );
    }
}

fn name_of(caller: Option<&Caller>) -> &str {
    caller.map_or("", |caller| caller.name.as_str())
}

fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

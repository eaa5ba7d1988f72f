//! The token server of an OCI registry, as docker, helm and containerd ask it: the registry answers 401 with a *scope*,
//! and its client comes here for a token of that scope.

use crate::freshness;
use crate::policy::OPERATE;
use crate::rights::Role;
use crate::roles::Roles;
use crate::token_server::accounts::Duty;
use crate::token_server::credentials::{Credentials, RobotOf};
use crate::token_server::grant::{self, NoPush, RegistryRole};
use crate::token_server::keys::TokenKeys;
use crate::token_server::prefixes::Prefixes;
use crate::token_server::scope::{Actions, Granted, Prefix, RegistryScope, Repository};
use apiserver::authz::{Admits, Attributes};
use apiserver::dialect::{Basic, Dialect, Judgement};
use apiserver::flow::Class;
use apiserver::request::{ResourceRequest, query};
use apiserver::routes::{GET, Reach, Route, RouteHandler};
use apiserver::{Caller, RequestContext, Verb};
use axum::body::Body;
use axum::response::IntoResponse;
use business_types::names::{GROUP, PROJECTS};
use business_types::registry::{Offer, STORAGE, TOKEN_SECONDS_MAX};
use business_types::{RegistrySpec, RegistryStatus};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, Response, StatusCode};
use meta::object::Object;
use meta::quantity::Quantity;
use meta::status::Status;
use meta::time;
use runtime::Clock;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use store::read::At;
use store::{Access, Error, Key, Visibility};
use uuid::Uuid;

/// Where clients come.
pub const PATH: &str = "/registry/token";
const RETRY_AFTER_SECONDS: u32 = 1;

/// What the page is made of.
#[derive(Debug)]
pub struct TokenPage {
    /// The registry's name, the audience of its tokens.
    pub service: String,
    /// The name by which the registry knows us.
    pub issuer: String,
    /// The keys that tokens are signed with.
    pub keys: TokenKeys,
    /// Whose the repositories are, by kind.
    pub prefixes: Vec<Prefixes>,
    /// Checks names and passwords.
    pub credentials: Credentials,
    /// The roles of people in the projects.
    pub roles: Roles,
    /// The objects.
    pub store: store::Store,
    /// The clock.
    pub clock: Clock,
}

/// The claims of a token, as distribution reads them.
#[derive(Debug, Serialize)]
struct RegistryClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    exp: i64,
    nbf: i64,
    iat: i64,
    jti: Uuid,
    access: &'a [Granted],
}

/// Who asks.
enum Asker<'a> {
    /// He sees everything: the controller, which measures and deletes, and operators.
    Operator,
    /// Somebody with rights of his own, in one tenant or in all of his.
    Person { access: &'a Access, caller: &'a Caller, within: Option<&'a str> },
    /// A robot.
    Robot(RobotOf),
    /// Somebody who has no rights here.
    Nobody,
}

impl Asker<'_> {
    /// Whether it asks with the credential of a namespace.
    fn is_pod(&self) -> bool {
        matches!(self, Self::Robot(RobotOf { below: true, .. }))
    }
}

/// An object that its asker sees.
struct SeenObject {
    words: &'static str,
    project: String,
    standing: RegistryRole,
    spec: RegistrySpec,
    status: RegistryStatus,
    offer: Offer,
}

impl TokenPage {
    /// The route. The page itself answers a request without credentials, in the words of the protocol.
    pub fn route(self) -> Route {
        let page = Arc::new(self);
        Route {
            path: PATH.to_owned(),
            reach: Reach::Path,
            methods: GET,
            admits: Admits::Everybody,
            sees: true,
            class: Class::Read,
            dialect: Some(Arc::<Self>::clone(&page)),
            listed: vec![PATH.to_owned()],
            handler: page,
        }
    }

    async fn issue(&self, cx: &RequestContext, query: &str) -> Result<Response<Body>, Status> {
        if !cx.caller.is_known() {
            return Err(Status::unauthorized());
        }
        let service = query::first(query, "service").unwrap_or_default();
        if !service.is_empty() && service != self.service {
            return Err(Status::bad_request(format!(
                "tokens are made here for the service {:?} only",
                self.service
            )));
        }
        let asked: Vec<_> =
            query::pairs(query).filter(|(key, _)| key == "scope").map(|(_, value)| value).collect();
        let scopes = RegistryScope::read_all(asked.iter().map(AsRef::as_ref))?;
        let asker = self.asker(cx).await?;
        let mut access = Vec::new();
        for scope in scopes {
            access.extend(self.grant(&asker, scope).await?);
        }
        self.answer(&cx.caller.name, &access)
    }

    async fn asker<'a>(&self, cx: &'a RequestContext) -> Result<Asker<'a>, Status> {
        if Duty::Controller.is_of(&cx.caller) {
            return Ok(Asker::Operator);
        }
        if Credentials::is_robot(&cx.caller) {
            return Ok(self.credentials.robot(&cx.caller).await.map_or(Asker::Nobody, Asker::Robot));
        }
        let within = Credentials::tenant(&cx.caller);
        Ok(match cx.access.visibility() {
            Visibility::Tenants(_) => Asker::Person { access: &cx.access, caller: &cx.caller, within },
            // Parts of Kubernetes see everything, too, and have no business here.
            Visibility::Everything if may_operate(cx).await? => Asker::Operator,
            Visibility::Everything | Visibility::Nothing => Asker::Nobody,
        })
    }

    async fn grant(&self, asker: &Asker<'_>, scope: RegistryScope) -> Result<Option<Granted>, Status> {
        let repository = match (scope, asker) {
            (RegistryScope::Catalog, Asker::Operator) => {
                return Ok(Some(Granted {
                    kind: "registry",
                    name: "catalog".to_owned(),
                    actions: vec!["*"],
                }));
            }
            (RegistryScope::Catalog, _) => return Ok(None),
            (RegistryScope::Repository(repository), _) => repository,
        };
        let allowed = match asker {
            Asker::Operator => Actions { push: false, ..Actions::ALL },
            _ => self.allowed(asker, &repository).await?,
        };
        let actions = repository.asked.and(allowed).names();
        let granted = Granted { kind: "repository", name: repository.name, actions };
        Ok((!granted.actions.is_empty()).then_some(granted))
    }

    /// What may be done with a repository. One that the asker does not see is answered like one that is not there.
    async fn allowed(&self, asker: &Asker<'_>, repository: &Repository) -> Result<Actions, Status> {
        let Some(prefix) = repository.prefix() else { return Ok(Actions::NONE) };
        // While the database is away, everybody may pull, since pods may have anybody's password. While the standby
        // that is read stands still, only pods with the credential of a namespace may pull: the rights of others may
        // have been taken away.
        let changes = repository.asked.push || repository.asked.delete;
        if changes || !asker.is_pod() && self.store.database_ok() {
            freshness::check_roles(&self.store)?;
        }
        let Some(seen) = self.look(asker, prefix).await? else { return Ok(Actions::NONE) };
        let offer = seen.offer;
        if repository.is_for_push()
            && let Some(why) = grant::no_push(seen.standing, offer)
        {
            return Err(Status::failure(403, "Forbidden", seen.refusal(prefix, why)));
        }
        Ok(grant::allowed(seen.standing, offer))
    }

    async fn look(&self, asker: &Asker<'_>, prefix: Prefix<'_>) -> Result<Option<SeenObject>, Status> {
        let all = Access::internal("token server");
        for prefixes in &self.prefixes {
            if !prefixes.is_complete() {
                return Err(Status::unavailable("the registry's names are being read", RETRY_AFTER_SECONDS));
            }
            let Some(key) = prefixes.owner(prefix) else { continue };
            let (access, standing) = match asker {
                Asker::Person { within: Some(tenant), .. } if *tenant != prefix.tenant => continue,
                Asker::Person { access, caller, .. } => (*access, self.role(access, caller, &key)),
                Asker::Robot(of) if of.robot.is_for(prefix.name) && self.reaches(of, &key.namespace) => {
                    (&all, RegistryRole::Robot(of.robot.access))
                }
                Asker::Robot(_) | Asker::Operator | Asker::Nobody => continue,
            };
            let entry = match self.store.get(access, &key, At::Any).await {
                Ok(entry) => entry,
                Err(Error::NotFound) => continue,
                Err(error) => {
                    tracing::debug!(%error, "an object of the registry cannot be read");
                    return Err(Status::unavailable("the objects cannot be read", RETRY_AFTER_SECONDS));
                }
            };
            let read = Object::from_stored(&entry.body, entry.revision.0).and_then(|object| {
                let (spec, status) = (RegistrySpec::of(&object)?, RegistryStatus::of(&object)?);
                let offer = status.offer_of(&object, &spec);
                Ok((spec, status, offer))
            });
            let (spec, status, offer) = read.map_err(|error| {
                tracing::error!(%error, "an object of the registry does not read as its kind");
                Status::internal("the object cannot be read")
            })?;
            let (words, project) = (prefixes.words(), key.namespace.to_string());
            return Ok(Some(SeenObject { words, project, standing, spec, status, offer }));
        }
        Ok(None)
    }

    /// Whether a robot acts in a project: rights hold in what lies below, as those of people do.
    fn reaches(&self, RobotOf { project, below, .. }: &RobotOf, place: &str) -> bool {
        *project == place || *below && self.roles.projects.is_descendant(place, project)
    }

    /// The role of somebody in the project of an object, if he sees the object.
    fn role(&self, access: &Access, caller: &Caller, key: &Key) -> RegistryRole {
        match self.roles.in_project(caller, access.visibility(), &key.namespace) {
            Some(role) if role >= Role::Edit => RegistryRole::Editor,
            _ => RegistryRole::Viewer,
        }
    }

    fn answer(&self, subject: &str, access: &[Granted]) -> Result<Response<Body>, Status> {
        let now = self.clock.unix_seconds();
        let lives = i64::try_from(TOKEN_SECONDS_MAX).unwrap_or_default();
        let claims = RegistryClaims {
            iss: &self.issuer,
            sub: subject,
            aud: &self.service,
            exp: now.saturating_add(lives),
            nbf: now,
            iat: now,
            jti: Uuid::new_v4(),
            access,
        };
        let token = self.keys.sign(&claims).map_err(|error| {
            tracing::error!(%error, "a token for the registry cannot be signed");
            Status::internal("the token cannot be signed")
        })?;
        let answer = json!({
            "token": token, "access_token": token, "expires_in": lives, "issued_at": time::rfc3339(now),
        });
        Ok(document(StatusCode::OK, answer.to_string()))
    }
}

/// Whether the caller has the cross-tenant right.
async fn may_operate(cx: &RequestContext) -> Result<bool, Status> {
    let Some(authorization) = &cx.authorization else { return Ok(false) };
    let operate = ResourceRequest {
        verb: Verb::Other(OPERATE),
        group: GROUP.to_owned(),
        resource: PROJECTS.to_owned(),
        ..ResourceRequest::default()
    };
    let attributes = Attributes { caller: Arc::clone(&cx.caller), info: operate.into() };
    match authorization.authorize(&attributes).await {
        Ok(_proof) => Ok(true),
        Err(refused) if refused.code == 403 => Ok(false),
        Err(unanswered) => Err(unanswered),
    }
}

impl SeenObject {
    /// Why nothing can be pushed, for the person who runs docker or helm.
    fn refusal(&self, prefix: Prefix<'_>, why: NoPush) -> String {
        let Self { words, project, spec, status, offer, .. } = self;
        let what = format!("{words} {:?} of project {project:?}", prefix.name);
        match why {
            NoPush::LooksOnly => format!("{what}: to push there needs the role edit in the project"),
            NoPush::PullOnly => format!("{what}: this credential is for pulling only"),
            NoPush::UsedUp if !status.is_used_up(spec) => match status.beyond_measure() {
                Some(why) => {
                    format!(
                        "{what}: {why}; delete what is not needed: nothing is pushed until it is measured"
                    )
                }
                None => {
                    format!(
                        "{what}: what was pushed last is not measured yet, and nothing is pushed until it is"
                    )
                }
            },
            NoPush::UsedUp => {
                let hard = spec.storage().unwrap_or(Quantity::ZERO);
                format!(
                    "{what} is full: used {STORAGE}={}, hard {hard}; delete what is not needed, or ask for a larger spec.hard",
                    status.storage()
                )
            }
            NoPush::ReadOnly if *offer == Offer::Read && status.is_locked() => {
                format!("{what} is locked by an operator: it can be pulled from only")
            }
            NoPush::ReadOnly => format!("{what} is {}: it can be pulled from only", status.phase.as_str()),
            NoPush::Closed if status.reason.is_empty() => format!("{what} is {}", status.phase.as_str()),
            NoPush::Closed => format!("{what} is {}: {}", status.phase.as_str(), status.reason),
        }
    }
}

impl RouteHandler for TokenPage {
    fn answer<'a>(
        &'a self,
        cx: &'a mut RequestContext,
        request: Request<Body>,
    ) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            let query = request.uri().query().unwrap_or_default();
            self.issue(cx, query).await.unwrap_or_else(|status| refusal(&status))
        })
    }
}

impl Dialect for TokenPage {
    fn judge<'a>(&'a self, basic: &'a Basic) -> BoxFuture<'a, Judgement> {
        self.credentials.judge(basic).boxed()
    }

    fn refusal(&self, status: &Status) -> Response<Body> {
        refusal(status)
    }
}

/// An error as the OCI distribution specification has it: docker, helm and their like show its message.
pub(super) fn refusal(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (word, message) = match code {
        StatusCode::UNAUTHORIZED => {
            ("UNAUTHORIZED", "authentication required: unknown name or wrong password")
        }
        StatusCode::FORBIDDEN => ("DENIED", status.message.as_str()),
        StatusCode::TOO_MANY_REQUESTS => ("TOOMANYREQUESTS", status.message.as_str()),
        StatusCode::BAD_REQUEST => ("UNSUPPORTED", status.message.as_str()),
        _ => ("UNKNOWN", status.message.as_str()),
    };
    let body = json!({"errors": [{"code": word, "message": message}]});
    let mut response = document(code, body.to_string());
    if code == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"registry\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) =
        status.details.as_ref().map(|details| details.retry_after_seconds).filter(|s| *s > 0)
    {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn document(code: StatusCode, body: String) -> Response<Body> {
    (code, [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], body).into_response()
}

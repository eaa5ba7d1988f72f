//! The token endpoint for clients of the OCI registry, such as docker, helm and containerd. The registry answers them
//! 401 with a *scope*, and they request a token of that scope here.

use crate::freshness;
use crate::policy::OPERATE;
use crate::rights::Role;
use crate::roles::Roles;
use crate::token_server::accounts::AccountPurpose;
use crate::token_server::credentials::{Credentials, ProjectRobot};
use crate::token_server::grant::{self, PushRefusal, RegistryRole};
use crate::token_server::keys::TokenKeys;
use crate::token_server::prefix_index::PrefixIndex;
use crate::token_server::scope::{Actions, Prefix, RegistryScope, Repository, ResourceActions};
use apiserver::authz::{AuthorizationAttributes, RouteAccess};
use apiserver::dialect::{BasicCredentials, Dialect, Judgement};
use apiserver::flow::Class;
use apiserver::request::{ResourceRequest, query};
use apiserver::routes::{GET, PathMatch, Route, RouteHandler};
use apiserver::{Caller, RequestContext, Verb};
use axum::body::Body;
use axum::response::IntoResponse;
use business_types::names::{GROUP, PROJECTS};
use business_types::registry::{RegistryAccess, STORAGE, TOKEN_SECONDS_MAX};
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

/// The path of the route.
pub const PATH: &str = "/registry/token";
const RETRY_AFTER_SECONDS: u32 = 1;

/// The route and what it depends on.
#[derive(Debug)]
pub struct TokenRoute {
    /// The registry's name, the audience of its tokens.
    pub service: String,
    /// The issuer of the tokens.
    pub issuer: String,
    /// The keys that tokens are signed with.
    pub keys: TokenKeys,
    /// The owners of repositories, one index per kind.
    pub prefixes: Vec<PrefixIndex>,
    /// Checks names and passwords.
    pub credentials: Credentials,
    /// The roles of people in the projects.
    pub roles: Roles,
    /// The store of the objects.
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
    access: &'a [ResourceActions],
}

/// Who requests a token.
enum Requester<'a> {
    /// An operator, or the controller, which measures and deletes.
    Operator,
    /// A person with roles in projects. `tenant`: his credential confines him to it.
    Person { access: &'a Access, caller: &'a Caller, tenant: Option<&'a str> },
    /// A robot.
    Robot(ProjectRobot),
    /// Somebody without rights in the registry.
    Nobody,
}

impl Requester<'_> {
    /// Whether it uses the pull credential of a namespace.
    fn is_pod(&self) -> bool {
        matches!(self, Self::Robot(ProjectRobot { includes_children: true, .. }))
    }
}

/// An object that the requester sees.
struct VisibleObject {
    words: &'static str,
    project: String,
    role: RegistryRole,
    spec: RegistrySpec,
    status: RegistryStatus,
    offer: RegistryAccess,
}

impl TokenRoute {
    /// The route. It admits everybody and itself answers a request without credentials, in the format of the protocol.
    pub fn route(self) -> Route {
        let route = Arc::new(self);
        Route {
            path: PATH.to_owned(),
            path_match: PathMatch::Exact,
            methods: GET,
            access: RouteAccess::Public,
            reads_store: true,
            class: Class::Read,
            dialect: Some(Arc::<Self>::clone(&route)),
            listed: vec![PATH.to_owned()],
            handler: route,
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
        let requested: Vec<_> =
            query::pairs(query).filter(|(key, _)| key == "scope").map(|(_, value)| value).collect();
        let scopes = RegistryScope::parse_all(requested.iter().map(AsRef::as_ref))?;
        let requester = self.requester(cx).await?;
        let mut access = Vec::new();
        for scope in scopes {
            access.extend(self.grant(&requester, scope).await?);
        }
        self.answer(&cx.caller.name, &access)
    }

    async fn requester<'a>(&self, cx: &'a RequestContext) -> Result<Requester<'a>, Status> {
        if AccountPurpose::Controller.is_of(&cx.caller) {
            return Ok(Requester::Operator);
        }
        if Credentials::is_robot(&cx.caller) {
            return Ok(self.credentials.robot(&cx.caller).await.map_or(Requester::Nobody, Requester::Robot));
        }
        let tenant = Credentials::tenant(&cx.caller);
        Ok(match cx.access.visibility() {
            Visibility::Tenants(_) => Requester::Person { access: &cx.access, caller: &cx.caller, tenant },
            // Components of Kubernetes see everything, too, but get nothing in the registry.
            Visibility::Everything if is_operator(cx).await? => Requester::Operator,
            Visibility::Everything | Visibility::Nothing => Requester::Nobody,
        })
    }

    async fn grant(
        &self,
        requester: &Requester<'_>,
        scope: RegistryScope,
    ) -> Result<Option<ResourceActions>, Status> {
        let repository = match (scope, requester) {
            (RegistryScope::Catalog, Requester::Operator) => {
                return Ok(Some(ResourceActions {
                    kind: "registry",
                    name: "catalog".to_owned(),
                    actions: vec!["*"],
                }));
            }
            (RegistryScope::Catalog, _) => return Ok(None),
            (RegistryScope::Repository(repository), _) => repository,
        };
        let allowed = match requester {
            Requester::Operator => Actions { push: false, ..Actions::ALL },
            _ => self.allowed(requester, &repository).await?,
        };
        let actions = repository.requested.intersection(allowed).names();
        let granted = ResourceActions { kind: "repository", name: repository.name, actions };
        Ok((!granted.actions.is_empty()).then_some(granted))
    }

    /// The actions that the requester may do with a repository: none if he does not see it, as if it did not exist.
    async fn allowed(&self, requester: &Requester<'_>, repository: &Repository) -> Result<Actions, Status> {
        let Some(prefix) = repository.prefix() else { return Ok(Actions::NONE) };
        // While the database is unavailable, everybody may pull, as pods may use anybody's password. While the standby
        // that is read from is stale, only pods with the pull credential of a namespace may: the rights of others may
        // have been revoked.
        let changes = repository.requested.push || repository.requested.delete;
        if changes || !requester.is_pod() && self.store.database_ok() {
            freshness::check_roles(&self.store)?;
        }
        let Some(object) = self.find_object(requester, prefix).await? else { return Ok(Actions::NONE) };
        let offer = object.offer;
        if repository.is_for_push()
            && let Some(why) = grant::push_refusal(object.role, offer)
        {
            return Err(Status::failure(403, "Forbidden", object.refusal(prefix, why)));
        }
        Ok(grant::allowed(object.role, offer))
    }

    async fn find_object(
        &self,
        requester: &Requester<'_>,
        prefix: Prefix<'_>,
    ) -> Result<Option<VisibleObject>, Status> {
        let all = Access::internal("token server");
        for index in &self.prefixes {
            if !index.is_complete() {
                return Err(Status::unavailable("the registry's names are being read", RETRY_AFTER_SECONDS));
            }
            let Some(key) = index.owner(prefix) else { continue };
            let (access, role) = match requester {
                Requester::Person { tenant: Some(tenant), .. } if *tenant != prefix.tenant => continue,
                Requester::Person { access, caller, .. } => {
                    (*access, self.role_in_project(access, caller, &key))
                }
                Requester::Robot(of)
                    if of.robot.is_for(prefix.name) && self.robot_acts_in(of, &key.namespace) =>
                {
                    (&all, RegistryRole::Robot(of.robot.access))
                }
                Requester::Robot(_) | Requester::Operator | Requester::Nobody => continue,
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
                let (words, project) = (index.kind_words(), key.namespace.to_string());
                let offer = status.access_to(&object, &spec);
                Ok(VisibleObject { words, project, role, spec, status, offer })
            });
            return read.map(Some).map_err(|error| {
                tracing::error!(%error, "an object of the registry does not read as its kind");
                Status::internal("the object cannot be read")
            });
        }
        Ok(None)
    }

    /// Whether a robot may act in a project. The rights of a namespace also hold in the projects below, as roles do.
    fn robot_acts_in(
        &self,
        ProjectRobot { project, includes_children, .. }: &ProjectRobot,
        place: &str,
    ) -> bool {
        *project == place || *includes_children && self.roles.projects.is_descendant(place, project)
    }

    /// The role of a person for an object, provided that he sees it.
    fn role_in_project(&self, access: &Access, caller: &Caller, key: &Key) -> RegistryRole {
        match self.roles.in_project(caller, access.visibility(), &key.namespace) {
            Some(role) if role >= Role::Edit => RegistryRole::Editor,
            _ => RegistryRole::Viewer,
        }
    }

    fn answer(&self, subject: &str, access: &[ResourceActions]) -> Result<Response<Body>, Status> {
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

/// Whether the caller is an operator: whether he has the cross-tenant right.
async fn is_operator(cx: &RequestContext) -> Result<bool, Status> {
    let Some(authorization) = &cx.authorization else { return Ok(false) };
    let operate = ResourceRequest {
        verb: Verb::Other(OPERATE),
        group: GROUP.to_owned(),
        resource: PROJECTS.to_owned(),
        ..ResourceRequest::default()
    };
    let attributes = AuthorizationAttributes { caller: Arc::clone(&cx.caller), info: operate.into() };
    match authorization.authorize(&attributes).await {
        Ok(_proof) => Ok(true),
        Err(refused) if refused.code == 403 => Ok(false),
        Err(unanswered) => Err(unanswered),
    }
}

impl VisibleObject {
    /// Why the push is refused, for the person who runs docker or helm.
    fn refusal(&self, prefix: Prefix<'_>, why: PushRefusal) -> String {
        let Self { words, project, spec, status, offer, .. } = self;
        let what = format!("{words} {:?} of project {project:?}", prefix.name);
        match why {
            PushRefusal::ViewerOnly => format!("{what}: to push there needs the role edit in the project"),
            PushRefusal::PullOnly => format!("{what}: this credential is for pulling only"),
            PushRefusal::QuotaExceeded if !status.is_used_up(spec) => match status.unmeasurable_reason() {
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
            PushRefusal::QuotaExceeded => {
                let hard = spec.storage().unwrap_or(Quantity::ZERO);
                format!(
                    "{what} is full: used {STORAGE}={}, hard {hard}; delete what is not needed, or ask for a larger spec.hard",
                    status.storage()
                )
            }
            PushRefusal::ReadOnly if *offer == RegistryAccess::Read && status.is_locked() => {
                format!("{what} is locked by an operator: it can be pulled from only")
            }
            PushRefusal::ReadOnly => {
                format!("{what} is {}: it can be pulled from only", status.phase.as_str())
            }
            PushRefusal::NotAvailable if status.reason.is_empty() => {
                format!("{what} is {}", status.phase.as_str())
            }
            PushRefusal::NotAvailable => format!("{what} is {}: {}", status.phase.as_str(), status.reason),
        }
    }
}

impl RouteHandler for TokenRoute {
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

impl Dialect for TokenRoute {
    fn judge<'a>(&'a self, basic: &'a BasicCredentials) -> BoxFuture<'a, Judgement> {
        self.credentials.authenticate(basic).boxed()
    }

    fn refusal(&self, status: &Status) -> Response<Body> {
        refusal(status)
    }
}

/// An error in the format of the OCI distribution specification: docker, helm and similar clients show its message.
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

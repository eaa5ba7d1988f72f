//! `namespaces/NAME/certificate`: a client certificate for the caller, for the namespace in its cluster.

use super::super::is_tenant_administrator;
use super::{internal_decode_error, lineage};
use crate::certificates::rate_limit::RateLimitKey;
use crate::certificates::{CertificateAndKey, CertificateRequest, Certificates};
use crate::kind_ids::{PLATFORM, TENANT};
use crate::kinds::platform;
use crate::role_bindings::ObjectBindings;
use crate::roles::Roles;
use crate::subjects;
use apiserver::request::Query;
use apiserver::strategy::WriteContext;
use apiserver::subresource::{Action, BodySchema, HandlerOutput, SubresourceHandler, TextAnswer};
use apiserver::{Caller, View};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_types::access::AccessRole;
use business_types::condition::{self, ACCESS_READY, READY};
use business_types::issue::GROUPS_MAX;
use business_types::namespace::{group_resource, gvk, schema};
use business_types::{
    AccessHolder, Condition, EffectiveAccess, NamespaceSpec, NamespaceStatus, Subject, SubjectKind,
    TenantSpec, access,
};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, Path};
use meta::object::Object;
use meta::openapi::OpenApiParameter;
use meta::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::Key;

/// The field of the answer that has the certificate. It is never stored.
pub const CERTIFICATE: &[&str] = &["status", "certificate"];
const VALID_DAYS: &str = "validDays";
const FORMAT: &str = "format";
const KUBECONFIG: &str = "kubeconfig";
/// The prefix of the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

const PARAMETERS: &[OpenApiParameter] = &[
    OpenApiParameter {
        name: VALID_DAYS,
        description: "For how many days the certificate is to be valid. The server bounds it.",
    },
    OpenApiParameter {
        name: FORMAT,
        description: "kubeconfig: the answer is a kubeconfig, as YAML, instead of the object.",
    },
];

/// Handles the subresource `certificate`.
#[derive(Debug)]
pub struct CertificateHandler {
    shape: BodySchema,
    certificates: Certificates,
    roles: Roles,
}

impl CertificateHandler {
    /// `roles` know which callers administer a tenant through a group.
    pub fn new(certificates: Certificates, roles: Roles) -> Self {
        Self { shape: BodySchema { kind: gvk(), schema: schema() }, certificates, roles }
    }

    /// The certificate that the caller asks for. Authorization has let him see the object and get a certificate for it.
    async fn certificate_request(
        &self,
        cx: &mut WriteContext<'_>,
        view: View<'_>,
        action: &Action<'_>,
    ) -> Result<CertificateRequest, Status> {
        let object = action.object;
        let days = self.days(action)?;
        if object.is_deleting() {
            return Err(Status::conflict(&group_resource(), object.name(), "the namespace is being deleted"));
        }
        let spec = NamespaceSpec::of(object).map_err(internal_decode_error)?;
        if cx.caller.name.starts_with(SERVICE_ACCOUNT) {
            return Err(Status::forbidden(&group_resource(), object.name(), "certificates are for people"));
        }
        // A caller who sees everything is an operator. He gets the rights of the administrators of the namespace's
        // tenant.
        let tenant = if cx.sees_everything() { "" } else { spec.tenant_id.as_str() };
        let named = cx.sees_everything() || cx.caller.tenant.is_some();
        let user = if named { access::user } else { access::host_user };
        let user = user(tenant, &cx.caller.name).ok_or_else(|| invalid_user_name(object, &cx.caller.name))?;
        let grant = if is_tenant_administrator(cx, &spec.tenant_id) {
            self.administrator_grant(cx, view, &spec.tenant_id).await?
        } else {
            None
        };
        let groups = match grant {
            Some(AdministratorGrant::ByNames(groups)) => groups,
            Some(AdministratorGrant::ByGroup) => {
                let group = access::administrators(&spec.tenant_id);
                vec![group.ok_or_else(|| invalid_user_name(object, &spec.tenant_id))?]
            }
            None => groups_with_a_role(cx, view, object, tenant).await?,
        };
        Ok(CertificateRequest {
            rate_limit_key: RateLimitKey { tenant: tenant.to_owned(), user: cx.caller.name.clone() },
            user,
            groups,
            cluster: spec.cluster_name,
            project: object.namespace().to_owned(),
            name: object.name().to_owned(),
            days,
        })
    }

    /// Why the caller administers the tenant, by the newest state: authorization may lag behind, and a group in a
    /// certificate cannot be revoked.
    async fn administrator_grant(
        &self,
        cx: &WriteContext<'_>,
        view: View<'_>,
        tenant: &str,
    ) -> Result<Option<AdministratorGrant>, Status> {
        if cx.sees_everything() {
            return Ok(Some(AdministratorGrant::ByGroup));
        }
        let newest = view.unfiltered().latest();
        let found = newest.object(&Key::new(TENANT, "", tenant)).await?;
        let spec = found.as_ref().map(TenantSpec::of).transpose().map_err(internal_decode_error)?;
        let administrators = spec.unwrap_or_default().administrators;
        let platforms = newest.list(PLATFORM, None).await?;
        let platforms: Vec<ObjectBindings> = platforms
            .iter()
            .filter(|entry| entry.attributes.tenant.as_deref() == Some(tenant))
            .map(|entry| platform::roles_given_by(&entry.key.name, &entry.body))
            .collect();
        Ok(AdministratorGrant::of(&self.roles, cx.caller, tenant, &administrators, &platforms))
    }

    fn days(&self, action: &Action<'_>) -> Result<u16, Status> {
        let text = action.query.text(VALID_DAYS);
        let days = self.certificates.days.parse(text);
        let days = days.map_err(|why| invalid(action.object, VALID_DAYS, text, &why))?;
        let format = action.query.text(FORMAT);
        if !matches!(format, "" | KUBECONFIG) {
            return Err(invalid(action.object, FORMAT, format, "must be kubeconfig, or not given"));
        }
        Ok(days)
    }
}

fn invalid(object: &Object, field: &str, value: &str, why: &str) -> Status {
    let error = FieldError::invalid(&Path::new(field), &json!(value), why);
    Status::invalid(&gvk(), object.name(), &vec![error])
}

fn invalid_user_name(object: &Object, value: &str) -> Status {
    let why = "cannot be named in a member cluster: it is too long, or has a control character, or a tenant has a colon";
    invalid(object, "user", value, why)
}

/// Why somebody is an administrator of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AdministratorGrant {
    /// The tenant names him or these groups of his. The bindings in the cluster name the same, as long as the tenant
    /// does.
    ByNames(Vec<String>),
    /// Another reason. His certificate has the group of the tenant's administrators, as long as it is valid.
    ByGroup,
}

impl AdministratorGrant {
    /// Why a caller is an administrator of a tenant, by the tenant and the Platforms; `None` if he is none.
    fn of(
        roles: &Roles,
        caller: &Caller,
        tenant: &str,
        administrators: &[Subject],
        platforms: &[ObjectBindings],
    ) -> Option<Self> {
        let names = |kind: SubjectKind, name: &str| {
            administrators.iter().any(|subject| subject.kind == kind && subject.name == name)
        };
        let administrator_groups: BTreeSet<&String> =
            caller.groups.iter().filter(|group| names(SubjectKind::Group, group)).collect();
        let groups: Vec<String> = administrator_groups
            .into_iter()
            .filter_map(|group| access::group(tenant, group))
            .take(GROUPS_MAX)
            .collect();
        if !groups.is_empty() || names(SubjectKind::User, &caller.name) {
            return Some(Self::ByNames(groups));
        }
        let own = subjects::tenant_user(&caller.name);
        let mut platforms = platforms.iter().filter(|bindings| *bindings.tenant == *tenant);
        let by_platform = caller.tenant.as_deref() == Some(tenant)
            && platforms.any(|bindings| bindings.subjects.contains_key(&own));
        (by_platform || roles.tenant_by_group(caller) == Some(tenant)).then_some(Self::ByGroup)
    }
}

/// The caller's groups that have a role in the namespace's project or in one above it, by their names in the cluster.
/// It is an error if neither he nor any of his groups has a role.
async fn groups_with_a_role(
    cx: &mut WriteContext<'_>,
    view: View<'_>,
    object: &Object,
    tenant: &str,
) -> Result<Vec<String>, Status> {
    let lineage = lineage::of(view, object.namespace()).await?;
    let access = EffectiveAccess::of(&lineage);
    let mut roles: Vec<(AccessRole, &str)> = cx
        .caller
        .groups
        .iter()
        .filter_map(|group| Some((access.role(AccessHolder::group(group))?, group.as_str())))
        .collect();
    let own = [AccessHolder::user(&cx.caller.name), AccessHolder::member(&cx.caller.name)];
    let is_named = own
        .into_iter()
        .any(|holder| access.role(holder).is_some() && (!holder.of_tenant || cx.caller.tenant.is_some()));
    if roles.is_empty() && !is_named {
        let why = "you have no role in its project, nor in one above";
        return Err(Status::forbidden(&group_resource(), object.name(), why));
    }
    // The groups with the highest roles come first, as a certificate names only so many.
    roles.sort_by(|(one, first), (other, second)| other.cmp(one).then(first.cmp(second)));
    roles.dedup();
    let mut groups: Vec<String> =
        roles.into_iter().filter_map(|(_, group)| access::group(tenant, group)).collect();
    if let Some(more) = groups.len().checked_sub(GROUPS_MAX).filter(|more| *more > 0) {
        cx.warnings.push(format!(
            "a certificate names {GROUPS_MAX} groups: {more} more that you are in have a role in the project"
        ));
        groups.truncate(GROUPS_MAX);
    }
    Ok(groups)
}

impl SubresourceHandler for CertificateHandler {
    fn body(&self) -> Option<&BodySchema> {
        None
    }

    fn answer(&self) -> &BodySchema {
        &self.shape
    }

    fn parameters(&self) -> &'static [OpenApiParameter] {
        PARAMETERS
    }

    fn acts_on_get(&self) -> bool {
        true
    }

    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>> {
        Box::pin(async move {
            let request = self.certificate_request(cx, view, &action).await?;
            let outcome = self.certificates.issue(request).await;
            let credential = outcome.map_err(|status| with_cluster_field(action.object, status))?;
            let status = NamespaceStatus::of(action.object).map_err(internal_decode_error)?;
            cx.warnings.extend(not_ready_warning(&status));
            let mut answer = action.object.clone();
            answer.set(CERTIFICATE, certificate_json(&credential));
            if action.query.text(FORMAT) == KUBECONFIG {
                answer = kubeconfig(&answer);
            }
            Ok(HandlerOutput { object: None, answer })
        })
    }

    fn text(&self, query: &Query, answer: &Object) -> Option<TextAnswer> {
        if query.text(FORMAT) != KUBECONFIG {
            return None;
        }
        // Should the conversion fail: JSON is valid YAML.
        let body = meta::yaml::to_string(answer.as_map());
        let body = body.unwrap_or_else(|_| Value::Object(answer.as_map().clone()).to_string());
        Some(TextAnswer { content_type: "application/yaml", body })
    }
}

/// Moves a 422 of the issuer, which concerns the cluster, to the field `spec.clusterName`.
fn with_cluster_field(object: &Object, status: Status) -> Status {
    if status.code != 422 {
        return status;
    }
    let cluster = object.text(&["spec", "clusterName"]);
    let field = Path::new("spec").child("clusterName");
    let error = FieldError::invalid(&field, &json!(cluster), &status.message);
    Status::invalid(&gvk(), object.name(), &vec![error])
}

/// The warning that the certificate may not work yet.
fn not_ready_warning(status: &NamespaceStatus) -> Option<String> {
    for type_ in [READY, ACCESS_READY] {
        match condition::find(&status.conditions, type_) {
            Some(condition) if condition.is_true() => {}
            Some(Condition { reason, message, .. }) => {
                return Some(format!(
                    "the certificate may open nothing yet: {type_} is not True: {reason} {message}"
                ));
            }
            None => return Some(format!("the certificate may open nothing yet: {type_} is not known")),
        }
    }
    None
}

fn certificate_json(credential: &CertificateAndKey) -> Value {
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    json!({
        "certPem": encoded(&credential.issued.certificate),
        "keyPem": encoded(credential.key.reveal()),
        "caCertPem": encoded(&credential.issued.ca_bundle),
        "apiServer": credential.issued.server,
    })
}

/// The answer as a kubeconfig. Cluster, user and context have one name, `CLUSTER/NAMESPACE`. People merge it into files
/// with other namespaces and clusters, where entries of the same name replace each other.
fn kubeconfig(answer: &Object) -> Object {
    let certificate_field =
        |field| answer.get(&["status", "certificate", field]).cloned().unwrap_or_default();
    let mut cluster = json!({ "server": certificate_field("apiServer") });
    if certificate_field("caCertPem") != json!("") {
        set_field(&mut cluster, "certificate-authority-data", certificate_field("caCertPem"));
    }
    let namespace = answer.text(&["spec", "namespace"]);
    let name = format!("{}/{namespace}", answer.text(&["spec", "clusterName"]));
    let mut config = Object::default();
    config.set(&["apiVersion"], json!("v1"));
    config.set(&["kind"], json!("Config"));
    config.set(&["clusters"], json!([{ "name": name, "cluster": cluster }]));
    let credential = json!({
        "client-certificate-data": certificate_field("certPem"),
        "client-key-data": certificate_field("keyPem"),
    });
    config.set(&["users"], json!([{ "name": name, "user": credential }]));
    let context = json!({ "cluster": name, "user": name, "namespace": namespace });
    config.set(&["contexts"], json!([{ "name": name, "context": context }]));
    config.set(&["current-context"], json!(name));
    config
}

fn set_field(target: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = target {
        fields.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;

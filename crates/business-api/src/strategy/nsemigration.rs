use super::{TENANT, check_role, internal_decode_error, project_key, set_tenant, text_or_dash};
use crate::allocations::Allocations;
use crate::kind_ids::NAMESPACE;
use crate::refusal;
use crate::rights::Role;
use crate::roles::Roles;
use apiserver::View;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use business_types::account::{self, UnchargedTenantObject};
use business_types::nsemigration::{group_resource, gvk};
use business_types::{
    NamespacePhase, NamespaceSpec, NamespaceStatus, NsEmigrationSpec, ProjectSpec, ProjectStatus, namespace,
    project,
};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::Key;
use store::quota::{Account, Scope, Violation};

/// The `generateName` of an emigration that names no namespace.
const NAME_PREFIX: &str = "nse-";

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Namespace", "Name of the namespace that goes.", 0),
    Column::string("Destination", "The project that it goes to.", 0),
    Column::string("Phase", "How far it is.", 0),
    Column::string("Reason", "Why it is in its phase.", 1),
    Column::string("Message", "Details of the phase.", 1),
];

/// Emigrations. Here only the present state is checked. Whether the namespace can move is decided when the controller
/// moves it.
#[derive(Clone, Debug)]
pub struct NsEmigrationStrategy {
    allocations: Allocations,
    roles: Roles,
}

impl NsEmigrationStrategy {
    /// `allocations` know what quota the destination has left, `roles` who may create namespaces there.
    pub fn new(allocations: Allocations, roles: Roles) -> Self {
        Self { allocations, roles }
    }

    /// Checks the namespace and both projects, as the caller sees them.
    async fn check_emigration(&self, view: View<'_>, object: &mut Object) -> Result<(), Status> {
        if let Some(source) = self.parent(object)
            && view.object(&source).await?.is_none()
        {
            return Err(Status::not_found(&project::group_resource(), &source.name));
        }
        let spec = NsEmigrationSpec::of(object).map_err(internal_decode_error)?;
        let mut errors = FieldErrors::new();
        let leaving = emigrating_namespace(view, object, &spec, &mut errors).await?;
        let destination = destination(view, object, &spec, &mut errors).await?;
        if let (Some(leaving), Some(destination)) = (&leaving, &destination) {
            errors.extend(self.capacity_errors(leaving, destination, &spec)?);
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&gvk(), object.name(), &errors));
        }
        if let Some(leaving) = leaving {
            if spec.tenant_id.is_empty() {
                object.copy_from(&leaving, TENANT);
            }
            object.set(&["status", "namespaceUID"], json!(leaving.uid()));
        }
        Ok(())
    }

    /// Why the destination cannot take the namespace with its charge.
    fn capacity_errors(
        &self,
        leaving: &Object,
        to: &Object,
        spec: &NsEmigrationSpec,
    ) -> Result<FieldErrors, Status> {
        let (namespace_spec, status) = (
            NamespaceSpec::of(leaving).map_err(internal_decode_error)?,
            NamespaceStatus::of(leaving).map_err(internal_decode_error)?,
        );
        let (limits, state) = (
            ProjectSpec::of(to).map_err(internal_decode_error)?,
            ProjectStatus::of(to).map_err(internal_decode_error)?,
        );
        let path = Path::new("spec").child("destination");
        let refuse = |why: &str| vec![FieldError::invalid(&path, &json!(spec.destination), why)];
        if to.is_deleting() {
            return Ok(refuse("project is being deleted"));
        }
        if state.locked == Some(true) {
            return Ok(refuse("project has been locked"));
        }
        if limits.tenant_id != namespace_spec.tenant_id {
            return Ok(refuse("project is of another tenant"));
        }
        let cluster = &namespace_spec.cluster_name;
        let Some(limits) = limits.clusters.get(cluster) else {
            return Ok(refuse(&format!("parent project forbids its namespaces to use cluster {cluster}")));
        };
        let scope = Scope::new(account::PROJECT, &*spec.destination);
        let at = |key: &str| {
            Path::new(format!("namespace({})", leaving.name())).child("spec").child("hard").key(key)
        };
        let charged = status.charged(&namespace_spec);
        let mut errors = FieldErrors::new();
        for key in limits.hard.keys() {
            if !namespace_spec.hard.contains_key(key) {
                let why =
                    format!("must set quota '{key}', for the parent project has set this kind of quota");
                errors.push(FieldError::invalid(&at(key), &json!(0), &why));
            }
            let left = self.allocations.remaining(&scope, cluster, key);
            if let (Some(amount), Some(left)) = (charged.get(key), left)
                && *amount > left
            {
                let why = format!("should NOT be more than remaining quantity({left})");
                errors.push(FieldError::invalid(&at(key), &json!(amount.to_string()), &why));
            }
        }
        Ok(errors)
    }
}

/// The namespace that is to move. `errors` gets what speaks against it.
async fn emigrating_namespace(
    view: View<'_>,
    object: &Object,
    spec: &NsEmigrationSpec,
    errors: &mut FieldErrors,
) -> Result<Option<Object>, Status> {
    let path = Path::new("spec").child("namespace");
    let mut refuse = |why: &str| errors.push(FieldError::invalid(&path, &json!(spec.namespace), why));
    if spec.namespace.is_empty() {
        refuse("empty business namespace name");
        return Ok(None);
    }
    let key = Key::new(NAMESPACE, object.namespace(), &spec.namespace);
    let Some(found) = view.object(&key).await? else {
        let missing = Status::not_found(&namespace::group_resource(), &spec.namespace);
        refuse(&format!("failed to get this business namespace, {}", missing.message));
        return Ok(None);
    };
    let status = NamespaceStatus::of(&found).map_err(internal_decode_error)?;
    if status.phase != NamespacePhase::Available {
        refuse(&format!("in phase {}, can NOT emigrate", status.phase.as_str()));
    }
    if !spec.tenant_id.is_empty() && spec.tenant_id != found.text(TENANT) {
        let path = Path::new("spec").child("tenantID");
        errors.push(FieldError::invalid(&path, &json!(spec.tenant_id), "is not the namespace's tenant"));
    }
    Ok(Some(found))
}

/// The destination project. `errors` gets what speaks against it.
async fn destination(
    view: View<'_>,
    object: &Object,
    spec: &NsEmigrationSpec,
    errors: &mut FieldErrors,
) -> Result<Option<Object>, Status> {
    let path = Path::new("spec").child("destination");
    let mut refuse = |why: &str| errors.push(FieldError::invalid(&path, &json!(spec.destination), why));
    let Some(key) = project_key(&spec.destination) else {
        refuse("empty project name");
        return Ok(None);
    };
    if spec.destination == object.namespace() {
        refuse("is still the current project");
        return Ok(None);
    }
    let Some(found) = view.object(&key).await? else {
        let missing = Status::not_found(&project::group_resource(), &spec.destination);
        refuse(&format!("failed to get this project, {}", missing.message));
        return Ok(None);
    };
    let taken = Key::new(NAMESPACE, &spec.destination, &spec.namespace);
    if !spec.namespace.is_empty() && view.get(&taken).await?.is_some() {
        refuse(&format!("already has a namespace with the name {}", spec.namespace));
    }
    Ok(Some(found))
}

impl Strategy for NsEmigrationStrategy {
    fn parent(&self, object: &Object) -> Option<Key> {
        project_key(object.namespace())
    }

    /// The emigration gets the name of its namespace, so that a namespace has at most one emigration.
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        set_tenant(cx, None, object);
        let destination = object.text(&["spec", "destination"]);
        if !destination.is_empty() {
            let refused = |why: &str| Status::forbidden(&group_resource(), object.name(), why);
            check_role(cx, &self.roles, Role::Edit, destination, refused)?;
        }
        let namespace = object.text(&["spec", "namespace"]).to_owned();
        if !namespace.is_empty() {
            object.set(&["metadata", "name"], json!(namespace));
            object.remove(&["metadata", "generateName"]);
        } else if object.name().is_empty() && object.text(&["metadata", "generateName"]).is_empty() {
            object.set(&["metadata", "generateName"], json!(NAME_PREFIX));
        }
        object.set(&["status", "phase"], json!("Pending"));
        object.set(&["status", "lastTransitionTime"], json!(cx.now));
        object.set(super::OBSERVED_GENERATION, json!(0));
        Ok(())
    }

    /// The spec of an emigration is immutable.
    fn prepare_update(
        &self,
        _cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        object.copy_from(old, &["spec"]);
        object.copy_from(old, &["status", "namespaceUID"]);
        Ok(())
    }

    fn admit<'a>(
        &'a self,
        _cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        if old.is_some() {
            return None;
        }
        Some(Box::pin(self.check_emigration(view.latest(), object)))
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, _object: &Object) -> FieldErrors {
        FieldErrors::new()
    }

    fn validate_update(&self, _cx: &mut WriteContext<'_>, _old: &Object, _object: &Object) -> FieldErrors {
        FieldErrors::new()
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<UnchargedTenantObject>(object).map_err(internal_decode_error)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::of_uncharged(object, violations)
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let paths: [&[&str]; 5] = [
            &["spec", "namespace"],
            &["spec", "destination"],
            &["status", "phase"],
            &["status", "reason"],
            &["status", "message"],
        ];
        paths.iter().map(|path| text_or_dash(object.text(path))).collect()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

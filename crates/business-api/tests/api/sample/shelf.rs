//! A kind that this program does not have: a shelf for images in a project. It costs its project what it may hold, in the
//! domain of its own; a shelf that has limits gives them to the project instead. Everything that a charged kind needs is
//! in this file, but for its row in the table of kinds.

use apiserver::resource::{ALL_VERBS, Column, ResourceSource};
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{Resource, StoredKind, View};
use business_api::allocations::Allocations;
use business_api::kinds::attributes::Selectable;
use business_api::kinds::{KindRow, QuotaAccount, StoredRow, StrategyDependencies};
use business_api::refusal::{self, RefusedKind, RefusedObject};
use business_api::rights::{READ, READ_WRITE, Right, Role};
use business_api::strategy::{inherit_tenant, project_key, set_tenant};
use business_types::account::{self, Charged, ChargedMeta, PROJECT};
use business_types::names::{GROUP, VERSION};
use futures_util::future::BoxFuture;
use meta::field::{FieldErrors, Path};
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::quantity::ResourceList;
use meta::schema::Schema;
use meta::status::Status;
use meta::validation::NameRule;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::quota::{Account, Claim, Grants, Limits, Scope, Violation};
use store::{Attributes, Key, Kind, KindId};

const PLURAL: &str = "shelves";
/// What the ledger counts it in: no cluster, so that no key has to be carried.
const SHELVES: &str = "shelves";

const RIGHTS: &[Right] = &[
    Right::object(Role::View, READ),
    Right::object(Role::Edit, &["create"]),
    Right::object(Role::Administrator, READ_WRITE),
];

pub(crate) const ROW: KindRow = KindRow { plural: PLURAL, stored: Some(STORED), rights: RIGHTS, resource };

pub(crate) const STORED: StoredRow = StoredRow {
    id: KindId(12),
    kind: || Arc::new(ShelfKind),
    account: QuotaAccount::Charged(account::of_stored::<ChargedShelf>),
    role_source: None,
};

fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, "Shelf")
}

fn group_resource() -> GroupResource {
    GroupResource::new(GROUP, PLURAL)
}

fn resource(dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: gvk(),
        plural: PLURAL,
        singular: "shelf",
        short_names: &[],
        categories: &[],
        namespaced: true,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: &[Column {
            name: "Tenant",
            ty: "string",
            description: "The tenant that owns it.",
            priority: 0,
        }],
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id: STORED.id,
            kind: (STORED.kind)(),
            subresources: Vec::new(),
            server_fields: &[],
            strategy: Arc::new(ShelfStrategy { allocations: dependencies.allocations.clone() }),
        })),
    }
}

fn schema() -> Schema {
    let spec = Schema::object(
        "What the shelf is meant to hold.",
        Some("io.tkestack.business.v1.ShelfSpec"),
        [
            ("tenantID", Schema::string("The tenant that owns the shelf.").always()),
            ("path", Schema::string("Where the registry has it; no two shelves share one.").optional()),
            ("hard", Schema::resource_list("What it may hold.").optional()),
            ("limits", Schema::resource_list("What all shelves of the project may hold.").optional()),
        ],
    );
    Schema::kind("io.tkestack.business.v1.Shelf", "A shelf for images.", [("spec", spec.optional())])
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShelfSpec {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    path: String,
    hard: ResourceList,
    limits: Option<ResourceList>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChargedShelf {
    metadata: ChargedMeta,
    spec: ShelfSpec,
}

impl Charged for ChargedShelf {
    fn account(self) -> Account {
        let deleting = self.metadata.is_deleting();
        let ShelfSpec { tenant_id, path, hard, limits } = self.spec;
        let project = Scope::new(PROJECT, self.metadata.namespace);
        let shelves = |hard| BTreeMap::from([(SHELVES.to_owned(), Limits::new(hard, false))]);
        let base = Account { tenant: tenant_id, deleting, ..Account::default() };
        match limits {
            Some(limits) => {
                Account { grants: Some(Grants { scope: project, domains: shelves(limits) }), ..base }
            }
            None => Account {
                pays: Some(project),
                carries: BTreeMap::from([(SHELVES.to_owned(), account::keys(&hard))]),
                costs: BTreeMap::from([(SHELVES.to_owned(), hard)]),
                claims: vec![Claim { domain: SHELVES.to_owned(), place: path }],
                ..base
            },
        }
    }
}

struct ShelfKind;

#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectedSpec {
    #[serde(rename = "tenantID")]
    tenant_id: Box<str>,
}

impl Kind for ShelfKind {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &str {
        PLURAL
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.tenantID"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let mut selectable = Selectable::<SelectedSpec>::read(body);
        let tenant = std::mem::take(&mut selectable.spec.tenant_id);
        selectable.attributes(tenant.clone(), [tenant])
    }
}

static REFUSED: RefusedKind = RefusedKind {
    gvk,
    resource: group_resource,
    scope: "metadata.namespace",
    domain: "metadata.namespace",
    place: "spec.path",
    amount: |_shelves, key| Path::new("spec").child("hard").key(key),
};

struct ShelfStrategy {
    allocations: Allocations,
}

impl Strategy for ShelfStrategy {
    fn parent(&self, object: &Object) -> Option<Key> {
        project_key(object.namespace())
    }

    fn admit<'a>(
        &'a self,
        _cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        _old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        inherit_tenant(view, self.parent(object), object)
    }

    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        set_tenant(cx, None, object);
        Ok(())
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, _object: &Object) -> FieldErrors {
        FieldErrors::new()
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        set_tenant(cx, Some(old), object);
        Ok(())
    }

    fn validate_update(&self, _cx: &mut WriteContext<'_>, _old: &Object, _object: &Object) -> FieldErrors {
        FieldErrors::new()
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedShelf>(object).map_err(|error| Status::internal(error.to_string()))
    }

    fn growth_warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        self.allocations.warnings(before, after)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::status(
            RefusedObject { name: object.name(), kind: &REFUSED, holds: None },
            violations,
            &self.allocations,
        )
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        vec![json!(object.text(&["spec", "tenantID"]))]
    }
}

//! How many people a tenant's objects list. Each costs memory in every replica and in the controller, and nothing of a quota.

use crate::roles::Roles;
use business_types::refusal::TOO_MANY_PEOPLE;
use business_types::validation::USERS_MAX;
use meta::gvk::GroupResource;
use meta::object::Object;
use meta::status::{Status, StatusCause};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most people that a tenant lists in its projects, its Platforms and its Tenant together, each counted as often as
/// he is listed.
const PEOPLE_MAX: usize = 200_000;

/// The fields that list people, in all kinds.
const LISTS: [&[&str]; 3] = [&["spec", "members"], &["spec", "access"], &["spec", "administrators"]];

/// How long it may take until a write is heard of, if it is made.
const COMING: Duration = Duration::from_secs(10);
/// After this time it is worth trying again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// A write that lists more people than before.
#[derive(Debug)]
pub(super) struct Growth {
    more: usize,
    /// How many more the tenant may list, as far as is known.
    room: usize,
}

/// Writes that have been admitted and are not heard of yet. A count of a moment ago would admit all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Coming(Arc<Mutex<Vec<Listing>>>);

#[derive(Debug)]
struct Listing {
    tenant: Box<str>,
    project: Box<str>,
    people: usize,
    since: Instant,
}

/// Refuses a write that makes a tenant list more people than it may, whoever writes it. A write that lists no more
/// people than before passes.
pub(super) fn check(
    roles: &Roles,
    about: &GroupResource,
    tenant: &str,
    old: Option<&Object>,
    object: &Object,
) -> Result<Option<Growth>, Status> {
    let (before, after) = (old.map_or(0, all), all(object));
    let more = after.saturating_sub(before);
    // A list that is too long by itself is refused as such, and reserves no room.
    let is_invalid = LISTS.iter().any(|list| length(object, list) > USERS_MAX);
    if more == 0 || tenant.is_empty() || is_invalid {
        return Ok(None);
    }
    let room = PEOPLE_MAX.saturating_sub(roles.listed(tenant));
    if more <= room {
        return Ok(Some(Growth { more, room }));
    }
    let grown = LISTS.iter().find(|list| length(object, list) > old.map_or(0, |old| length(old, list)));
    let field = grown.map(|list| list.join(".")).unwrap_or_default();
    let message = format!("tenant={tenant} requested={more} max={PEOPLE_MAX}");
    let why = format!(
        "the projects and administrators of tenant {tenant:?} may list {PEOPLE_MAX} people, and {more} more would be too many"
    );
    let cause = StatusCause { reason: TOO_MANY_PEOPLE.to_owned(), message, field };
    Err(Status::forbidden(about, object.name(), &why).with_causes(vec![cause]))
}

fn all(object: &Object) -> usize {
    LISTS.iter().map(|list| length(object, list)).fold(0, usize::saturating_add)
}

fn length(object: &Object, list: &[&str]) -> usize {
    object.get(list).and_then(Value::as_array).map_or(0, Vec::len)
}

impl Coming {
    /// Admits a project that has room beside the others that are under way. If it has none until they are heard of, the
    /// caller is asked to come back.
    pub(super) fn enter(
        &self,
        roles: &Roles,
        tenant: &str,
        project: &Object,
        growth: &Growth,
    ) -> Result<(), Status> {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unheard = |one: &Listing| one.people.saturating_sub(roles.projects.listed_at(&one.project));
        coming.retain(|one| one.since.elapsed() < COMING && unheard(one) > 0);
        // Another tenant may try to make a project with this one's name, in vain.
        let is_own = |one: &Listing| one.is(tenant, project.name());
        let others = coming.iter().filter(|one| *one.tenant == *tenant && !is_own(one));
        let more = others.map(unheard).fold(growth.more, usize::saturating_add);
        if more > growth.room {
            return Err(Status::too_many_requests(RETRY_AFTER_SECONDS));
        }
        // Nobody knows which of several writes of one project is made last.
        let own = coming.iter().filter(|one| is_own(one)).map(|one| one.people);
        let people = own.fold(all(project), usize::max);
        coming.retain(|one| !is_own(one));
        let (tenant, project) = (tenant.into(), project.name().into());
        coming.push(Listing { tenant, project, people, since: Instant::now() });
        Ok(())
    }

    /// The store has refused the write.
    pub(super) fn leave(&self, tenant: &str, project: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| !one.is(tenant, project));
    }
}

impl Listing {
    fn is(&self, tenant: &str, project: &str) -> bool {
        *self.tenant == *tenant && *self.project == *project
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Role;
    use crate::role_bindings::RoleBindings;
    use business_types::project::group_resource;
    use serde_json::json;

    fn roles(listed: usize) -> Roles {
        let projects = RoleBindings::empty();
        projects.set("p", "", "t", &vec![("u", Role::Edit); listed]);
        Roles { tenant_admin_group: String::new(), projects, administrators: Vec::new(), tenant_grant: false }
    }

    fn project(name: &str, members: usize, access: usize) -> Object {
        let entry = json!({"kind": "User", "name": "u", "role": "view"});
        let spec = json!({"tenantID": "t", "members": vec!["u"; members], "access": vec![entry; access]});
        Object::new(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_tenant_lists_so_many_people_and_no_more() {
        let roles = roles(PEOPLE_MAX - 2);
        let check = |tenant: &str, old: Option<&Object>, object: &Object| {
            check(&roles, &group_resource(), tenant, old, object).map(|growth| growth.map(|it| it.more))
        };
        assert_eq!(check("t", None, &project("q", 1, 1)), Ok(Some(2)));
        let refused = check("t", None, &project("q", 0, 3)).unwrap_err();
        let cause = &refused.details.as_ref().unwrap().causes[0];
        assert_eq!((refused.code, &*cause.reason, &*cause.field), (403, TOO_MANY_PEOPLE, "spec.access"));
        assert_eq!(cause.message, "tenant=t requested=3 max=200000");
        assert_eq!(check("u", None, &project("q", 3, 0)), Ok(Some(3)), "another tenant has its own");
        assert_eq!(
            check("", None, &project("q", 3, 0)),
            Ok(None),
            "the operators' own gives nobody anything"
        );
        let old = project("q", 5, 0);
        assert_eq!(check("t", Some(&old), &project("q", 2, 3)), Ok(None), "not one more");
        assert!(check("t", Some(&old), &project("q", 8, 0)).is_err());
        assert_eq!(check("t", None, &project("q", USERS_MAX + 1, 0)), Ok(None), "invalid");
    }

    #[test]
    fn writes_at_once_do_not_go_beyond_it_together() {
        let roles = roles(PEOPLE_MAX - 5);
        let coming = Coming::default();
        let enter = |name: &str| {
            let object = project(name, 3, 0);
            let growth = check(&roles, &group_resource(), "t", None, &object).unwrap().unwrap();
            coming.enter(&roles, "t", &object, &growth).map_err(|refused| refused.code)
        };
        assert_eq!(enter("a"), Ok(()));
        assert_eq!(enter("b"), Err(429), "a has not been heard of");
        assert_eq!(enter("a"), Ok(()), "tried again");
        coming.leave("u", "a");
        assert_eq!(enter("b"), Err(429), "another tenant's of that name was refused");
        coming.leave("t", "a");
        assert_eq!(enter("b"), Ok(()), "a was refused by the store");
        coming.leave("t", "b");
        assert_eq!(enter("a"), Ok(()));
        // It has been made, and others have gone.
        roles.projects.set("p", "", "t", &[]);
        roles.projects.set("a", "", "t", &[("u", Role::Edit); 3]);
        assert_eq!(enter("b"), Ok(()));
        assert_eq!(coming.0.lock().unwrap().len(), 1, "what was heard of is forgotten");
    }
}

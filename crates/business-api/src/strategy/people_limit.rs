//! The limit on how many people a tenant's objects list. Each costs memory in every replica and in the controller, and
//! no quota counts them.

use crate::roles::Roles;
use business_types::refusal::TOO_MANY_PEOPLE;
use business_types::validation::USERS_MAX;
use meta::gvk::GroupResource;
use meta::object::Object;
use meta::status::{Status, StatusCause};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most people that a tenant may list in its projects, its Platforms and its Tenant together. A person counts as
/// often as he is listed.
pub(super) const PEOPLE_MAX: usize = 200_000;

/// The fields that list people, in all kinds.
const LISTS: [&[&str]; 3] = [&["spec", "members"], &["spec", "access"], &["spec", "administrators"]];

/// How long it takes at most until the roster has observed a successful write.
const RESERVATION_MAX_AGE: Duration = Duration::from_secs(10);
/// The `Retry-After` of a write that waits for others.
const RETRY_AFTER_SECONDS: u32 = 1;

/// A write that lists more people than before.
#[derive(Debug)]
pub(super) struct PeopleIncrease {
    more: usize,
    /// How many more the tenant may list, by the roster.
    room: usize,
}

/// Reservations of writes that were admitted and that the roster has not observed yet. Without them, concurrent writes
/// would all be admitted by the same old count.
#[derive(Clone, Debug, Default)]
pub(super) struct PeopleReservations(Arc<Mutex<Vec<Reservation>>>);

#[derive(Debug)]
struct Reservation {
    tenant: Box<str>,
    project: Box<str>,
    people: usize,
    since: Instant,
}

/// Refuses a write that makes a tenant list too many people, whoever writes it. Returns the increase; `None` if the
/// write lists no more people than before.
pub(super) fn check(
    roles: &Roles,
    about: &GroupResource,
    tenant: &str,
    old: Option<&Object>,
    object: &Object,
) -> Result<Option<PeopleIncrease>, Status> {
    let (before, after) = (old.map_or(0, people_count), people_count(object));
    let more = after.saturating_sub(before);
    // Validation refuses a list that is too long by itself.
    let is_invalid = LISTS.iter().any(|list| list_length(object, list) > USERS_MAX);
    if more == 0 || tenant.is_empty() || is_invalid {
        return Ok(None);
    }
    let room = PEOPLE_MAX.saturating_sub(roles.listed(tenant));
    if more <= room {
        return Ok(Some(PeopleIncrease { more, room }));
    }
    let grown =
        LISTS.iter().find(|list| list_length(object, list) > old.map_or(0, |old| list_length(old, list)));
    let field = grown.map(|list| list.join(".")).unwrap_or_default();
    let message = format!("tenant={tenant} requested={more} max={PEOPLE_MAX}");
    let why = format!(
        "the projects and administrators of tenant {tenant:?} may list {PEOPLE_MAX} people, and {more} more would be too many"
    );
    let cause = StatusCause { reason: TOO_MANY_PEOPLE.to_owned(), message, field };
    Err(Status::forbidden(about, object.name(), &why).with_causes(vec![cause]))
}

fn people_count(object: &Object) -> usize {
    LISTS.iter().map(|list| list_length(object, list)).fold(0, usize::saturating_add)
}

fn list_length(object: &Object, list: &[&str]) -> usize {
    object.get(list).and_then(Value::as_array).map_or(0, Vec::len)
}

impl PeopleReservations {
    /// Reserves room for a write of a project. If the other reservations leave too little, the caller has to retry
    /// (429) when those writes have been observed.
    pub(super) fn reserve(
        &self,
        roles: &Roles,
        tenant: &str,
        project: &Object,
        increase: &PeopleIncrease,
    ) -> Result<(), Status> {
        let mut reservations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unobserved =
            |one: &Reservation| one.people.saturating_sub(roles.projects.listed_at(&one.project));
        reservations.retain(|one| one.since.elapsed() < RESERVATION_MAX_AGE && unobserved(one) > 0);
        // Another tenant may try to create a project of the same name; that write will fail.
        let is_own = |one: &Reservation| one.is_of(tenant, project.name());
        let others = reservations.iter().filter(|one| *one.tenant == *tenant && !is_own(one));
        let more = others.map(unobserved).fold(increase.more, usize::saturating_add);
        if more > increase.room {
            return Err(Status::too_many_requests(RETRY_AFTER_SECONDS));
        }
        // It is unknown which of several concurrent writes of one project comes last: reserve for the largest.
        let own = reservations.iter().filter(|one| is_own(one)).map(|one| one.people);
        let people = own.fold(people_count(project), usize::max);
        reservations.retain(|one| !is_own(one));
        let (tenant, project) = (tenant.into(), project.name().into());
        reservations.push(Reservation { tenant, project, people, since: Instant::now() });
        Ok(())
    }

    /// Releases the reservation of a write that the store has refused.
    pub(super) fn release(&self, tenant: &str, project: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| !one.is_of(tenant, project));
    }
}

impl Reservation {
    fn is_of(&self, tenant: &str, project: &str) -> bool {
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
            check(&roles, &group_resource(), tenant, old, object).map(|increase| increase.map(|it| it.more))
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
        let reservations = PeopleReservations::default();
        let reserve = |name: &str| {
            let object = project(name, 3, 0);
            let increase = check(&roles, &group_resource(), "t", None, &object).unwrap().unwrap();
            reservations.reserve(&roles, "t", &object, &increase).map_err(|refused| refused.code)
        };
        assert_eq!(reserve("a"), Ok(()));
        assert_eq!(reserve("b"), Err(429), "a has not been heard of");
        assert_eq!(reserve("a"), Ok(()), "tried again");
        reservations.release("u", "a");
        assert_eq!(reserve("b"), Err(429), "another tenant's of that name was refused");
        reservations.release("t", "a");
        assert_eq!(reserve("b"), Ok(()), "a was refused by the store");
        reservations.release("t", "b");
        assert_eq!(reserve("a"), Ok(()));
        // It has been made, and others have gone.
        roles.projects.set("p", "", "t", &[]);
        roles.projects.set("a", "", "t", &[("u", Role::Edit); 3]);
        assert_eq!(reserve("b"), Ok(()));
        assert_eq!(reservations.0.lock().unwrap().len(), 1, "what was heard of is forgotten");
    }
}

use super::*;
use crate::rights::Role;
use crate::role_bindings::RoleBindings;

const TENANT_ADMINS: &str = "tenant-admins";

fn caller(tenant: Option<&str>, groups: &[&str]) -> Caller {
    Caller {
        name: "root".to_owned(),
        tenant: tenant.map(str::to_owned),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Caller::default()
    }
}

fn named(kind: SubjectKind, name: &str) -> Subject {
    Subject { kind, name: name.to_owned(), ..Subject::default() }
}

fn platform_of(tenant: &str, administrator: &str) -> ObjectBindings {
    let mut bindings = ObjectBindings { tenant: tenant.into(), ..ObjectBindings::default() };
    bindings.bind(subjects::tenant_user(administrator), Role::Administrator);
    bindings
}

fn administrator_grant(
    caller: &Caller,
    administrators: &[Subject],
    platforms: &[ObjectBindings],
) -> Option<AdministratorGrant> {
    let roles = Roles {
        tenant_admin_group: TENANT_ADMINS.to_owned(),
        projects: RoleBindings::empty(),
        administrators: Vec::new(),
        tenant_grant: true,
    };
    AdministratorGrant::of(&roles, caller, "t", administrators, platforms)
}

/// All of them came as people who rule, as far as authorization has heard.
#[test]
fn whom_nobody_names_any_more_is_in_no_group_of_administrators() {
    let by_names = |groups: Vec<String>| Some(AdministratorGrant::ByNames(groups));
    let (root, other) = (named(SubjectKind::User, "root"), named(SubjectKind::User, "other"));
    let rulers = named(SubjectKind::Group, "rulers");
    let (own, host) = (caller(Some("t"), &["rulers"]), caller(None, &["rulers", TENANT_ADMINS]));
    for caller in [&own, &host] {
        assert_eq!(administrator_grant(caller, &[], &[]), None);
        assert_eq!(administrator_grant(caller, std::slice::from_ref(&other), &[]), None, "others are left");
        assert_eq!(administrator_grant(caller, std::slice::from_ref(&root), &[]), by_names(Vec::new()));
        let group = "business:t:group:rulers".to_owned();
        assert_eq!(administrator_grant(caller, &[other.clone(), rulers.clone()], &[]), by_names(vec![group]));
    }
    assert_eq!(
        administrator_grant(&own, &[], &[platform_of("t", "root")]),
        Some(AdministratorGrant::ByGroup)
    );
    assert_eq!(administrator_grant(&own, &[], &[platform_of("t", "other"), platform_of("u", "root")]), None);
    assert_eq!(
        administrator_grant(&host, &[], &[platform_of("t", "root")]),
        None,
        "a namesake without a tenant"
    );
    assert_eq!(
        administrator_grant(&caller(Some("t"), &[TENANT_ADMINS]), &[], &[]),
        Some(AdministratorGrant::ByGroup)
    );
    assert_eq!(administrator_grant(&caller(Some("u"), &[TENANT_ADMINS]), &[], &[]), None, "another tenant's");
}

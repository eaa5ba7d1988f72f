use super::*;
use crate::role_changes::RoleChanges;
use crate::subjects::tenant_user;

const PROJECTS: usize = 8;

/// The same numbers at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).unwrap()).unwrap()
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

fn roles(changes: &RoleChanges) -> Roles {
    let synced = || RoleBindings::synced(changes.clone());
    Roles {
        tenant_admin_group: "tenant-admins".to_owned(),
        projects: synced(),
        administrators: vec![synced(), synced()],
        tenant_grant: false,
    }
}

fn rebuilt(roles: &Roles) -> Roles {
    let administrators = roles.administrators.iter().map(RoleBindings::rebuilt).collect();
    Roles { projects: roles.projects.rebuilt(), administrators, ..roles.clone() }
}

fn callers() -> Vec<Caller> {
    let caller = |name: &str, tenant: Option<&str>, groups: &[&str]| Caller {
        name: name.to_owned(),
        tenant: tenant.map(str::to_owned),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Caller::default()
    };
    vec![
        caller("ann", None, &[]),
        caller("ann", Some("t"), &[]),
        caller("ann", Some("u"), &["devs"]),
        caller("bob", None, &["devs", "ops"]),
        caller("bob", None, &["ops", "devs"]),
        caller("eve", Some("t"), &["ops"]),
        caller("eve", Some("t"), &["tenant-admins"]),
    ]
}

/// A project with other members, parent or tenant, or none any more; or other administrators of a tenant.
fn change(roles: &Roles, random: &mut Random) {
    let member = tenant_user("ann");
    let people = ["ann", "bob", "eve", "\u{1}devs", "\u{1}ops", &*member];
    let tenant = random.one_of(&["t", "t", "t", "u"]);
    let mut some = |most: usize, roles: &[Role]| -> Vec<(&str, Role)> {
        (0..random.below(most)).map(|_| (random.one_of(&people), random.one_of(roles))).collect()
    };
    let (given, ruling) = (some(3, &Role::ALL[..3]), some(2, &[Role::Administrator]));
    let name = format!("p{}", random.below(PROJECTS));
    match random.below(10) {
        0 => roles.administrators[0].set("platform", "", tenant, &ruling),
        1 => roles.administrators[1].set(tenant, "", tenant, &ruling),
        2 => roles.administrators[1].remove(tenant),
        3 | 4 => roles.projects.remove(&name),
        _ => {
            // Some lie below what is not there, or below themselves.
            let below = random.below(PROJECTS + 4);
            let below = if below < PROJECTS { format!("p{below}") } else { String::new() };
            roles.projects.set(&name, &below, tenant, &given);
        }
    }
}

#[test]
fn what_is_kept_of_somebody_is_what_would_be_worked_out_now_and_who_waits_is_told_of_all_else() {
    let changes = RoleChanges::default();
    let (roles, callers) = (roles(&changes), callers());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut differ = 0;
    let asks = |caller: &Caller| roles.of_caller(caller).unwrap();
    for round in 0..4000 {
        let waiting: Vec<_> =
            callers.iter().map(|caller| changes.subscribe(subjects::of_caller(caller))).collect();
        let before: Vec<CallerRoles> = callers.iter().map(asks).collect();
        change(&roles, &mut random);
        let now = rebuilt(&roles);
        for ((caller, news), before) in callers.iter().zip(&waiting).zip(&before) {
            let after = asks(caller);
            assert_eq!(after, now.of_caller(caller).unwrap(), "round {round}: {caller:?}");
            let is_other = after != *before;
            assert!(!is_other || news.has_changed().unwrap(), "round {round}: {caller:?} is not told");
            differ += usize::from(is_other);
        }
    }
    assert!(differ > 500, "{differ} changes of what somebody is");
}

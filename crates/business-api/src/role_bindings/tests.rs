use super::*;
use std::time::{Duration, Instant};

impl RoleBindings {
    /// A synced index without bindings.
    pub(crate) fn synced(changes: RoleChanges) -> Self {
        let roles = Self::new(|_, _| ObjectBindings::default(), changes);
        let complete = roles.0.read().new_empty();
        roles.0.publish(complete);
        roles
    }

    pub(crate) fn set(&self, object: &str, parent: &str, tenant: &str, subjects: &[(&str, Role)]) {
        let mut bindings =
            ObjectBindings { tenant: tenant.into(), parent: parent.into(), ..ObjectBindings::default() };
        for (subject, role) in subjects {
            bindings.bind((*subject).into(), *role);
        }
        self.0.update(|index| index.set(&object.into(), Some(bindings)));
    }

    /// An object that lists a service account.
    pub(crate) fn list_account(
        &self,
        object: &str,
        tenant: &str,
        (cluster, namespace): (&str, &str),
        uses_cluster: bool,
    ) {
        let account_namespaces = [(cluster.into(), namespace.into())].into();
        let account_clusters = uses_cluster.then(|| cluster.into()).into_iter().collect();
        let bindings = ObjectBindings {
            tenant: tenant.into(),
            account_namespaces,
            account_clusters,
            ..ObjectBindings::default()
        };
        self.0.update(|index| index.set(&object.into(), Some(bindings)));
    }

    pub(crate) fn remove(&self, object: &str) {
        self.0.update(|index| index.set(&object.into(), None));
    }

    /// The same bindings with an empty cache.
    pub(crate) fn rebuilt(&self) -> Self {
        let roles = Self::synced(RoleChanges::default());
        for (object, bindings) in &self.0.read().objects {
            roles.0.update(|index| index.set(object, Some(bindings.clone())));
        }
        roles
    }

    fn seen(&self, person: &str) -> Vec<String> {
        let roles = self.roles_by_tenant(&[person.into()], None);
        roles.values().flat_map(|roles| roles.objects.iter().cloned()).collect()
    }

    fn role(&self, person: &str, object: &str) -> Option<Role> {
        self.role_at(&[person.into()], object)?.1
    }
}

#[test]
fn what_is_given_at_an_object_holds_below_it() {
    let roles = RoleBindings::synced(RoleChanges::default());
    roles.set("root", "", "t", &[("ann", Role::View)]);
    roles.set("mid", "root", "t", &[("bob", Role::Edit)]);
    roles.set("leaf", "mid", "t", &[("ann", Role::Admin)]);
    roles.set("other", "", "u", &[("ann", Role::Edit)]);
    assert_eq!(roles.seen("ann"), ["leaf", "mid", "root", "other"]);
    assert_eq!(roles.seen("bob"), ["leaf", "mid"]);
    let of_ann = ["root", "mid", "leaf", "other", "none"].map(|object| roles.role("ann", object));
    assert_eq!(of_ann, [Some(Role::View), Some(Role::View), Some(Role::Admin), Some(Role::Edit), None]);
    assert_eq!(roles.role_at(&["bob".into()], "root"), Some(("t".into(), None)));
    let both = roles.roles_by_tenant(&["ann".into(), "bob".into()], Some("t"));
    assert_eq!(both.len(), 1, "the tenant of the credential alone");
    assert_eq!(both["t"].highest, Some(Role::Admin));

    let below = |object, above| roles.is_descendant(object, above);
    assert!(below("leaf", "root") && below("leaf", "mid") && below("mid", "root"));
    assert!(
        !below("root", "leaf") && !below("leaf", "leaf") && !below("other", "root") && !below("none", "root")
    );

    roles.set("leaf", "", "t", &[]);
    assert_eq!(roles.seen("ann"), ["mid", "root", "other"]);
    for object in ["root", "mid", "leaf", "other"] {
        roles.remove(object);
    }
    let index = roles.0.read();
    assert!(
        index.objects.is_empty() && index.children.is_empty() && index.subjects.is_empty(),
        "nothing is left"
    );
    assert!(index.listed.is_empty());
}

#[test]
fn a_child_that_is_known_before_its_parent_finds_it() {
    let roles = RoleBindings::synced(RoleChanges::default());
    roles.set("kid", "root", "t", &[]);
    assert_eq!(roles.role("ann", "kid"), None);
    roles.set("root", "", "t", &[("ann", Role::Edit)]);
    assert_eq!(roles.role("ann", "kid"), Some(Role::Edit));
    roles.set("foreign", "root", "u", &[]);
    assert_eq!(roles.role("ann", "foreign"), None, "nothing is inherited across tenants");
    assert_eq!(roles.seen("ann"), ["kid", "root"]);
    roles.set("root", "kid", "t", &[("ann", Role::Edit)]);
    assert_eq!(roles.seen("ann"), ["kid", "root"], "a circle ends");
    assert_eq!(roles.role("ann", "kid"), Some(Role::Edit));
}

#[test]
fn who_waits_is_told_of_his_own_changes_and_of_those_below() {
    let changes = RoleChanges::default();
    let roles = RoleBindings::synced(changes.clone());
    roles.set("root", "", "t", &[("ann", Role::View)]);
    let mut ann = changes.subscribe(["ann"]);
    let mut news = || {
        let news = ann.has_changed().unwrap();
        ann.mark_unchanged();
        news
    };
    roles.set("other", "", "t", &[("bob", Role::Edit)]);
    assert!(!news());
    roles.set("kid", "root", "t", &[("bob", Role::Edit)]);
    assert!(news(), "he sees one more");
    roles.set("kid", "root", "t", &[]);
    assert!(!news(), "bob has left");
    roles.set("kid", "other", "t", &[]);
    assert!(news());
    roles.set("root", "", "t", &[("ann", Role::Edit)]);
    assert!(news(), "his role has changed");
    let complete = roles.0.read().new_empty();
    roles.0.publish(complete);
    assert!(news(), "what was missed is not known");
}

#[test]
fn who_is_given_the_same_shares_what_is_known_of_it() {
    let roles = RoleBindings::synced(RoleChanges::default());
    roles.set("root", "", "t", &[("ann", Role::View), ("bob", Role::Edit)]);
    let objects = |person: &str| Arc::clone(&roles.roles_by_tenant(&[person.into()], None)["t"].objects);
    let (ann, bob) = (objects("ann"), objects("bob"));
    assert!(Arc::ptr_eq(&ann, &bob) && Arc::ptr_eq(&ann, &objects("ann")));
    roles.set("other", "", "t", &[("bob", Role::Edit)]);
    assert!(Arc::ptr_eq(&ann, &objects("ann")), "nothing has changed for her");
    roles.set("kid", "root", "t", &[]);
    assert_eq!((objects("ann").len(), objects("bob").len()), (2, 3));
}

#[test]
fn people_are_counted_by_tenant_as_often_as_they_are_listed() {
    let roles = RoleBindings::synced(RoleChanges::default());
    roles.set("p", "", "t", &[("ann", Role::View), ("ann", Role::Edit), ("bob", Role::Edit)]);
    roles.set("q", "p", "t", &[("ann", Role::View)]);
    assert_eq!((roles.listed("t"), roles.listed("u")), (4, 0));
    roles.set("p", "", "t", &[("bob", Role::Edit)]);
    roles.set("q", "", "u", &[("ann", Role::View)]);
    assert_eq!((roles.listed("t"), roles.listed("u")), (1, 1));
    roles.remove("p");
    assert_eq!((roles.listed("t"), roles.listed("u")), (0, 1));
}

#[test]
fn many_people_far_above_are_told_as_few_are() {
    let changes = RoleChanges::default();
    let roles = RoleBindings::synced(changes.clone());
    let people: Vec<String> = (0..50).map(|number| format!("u{number}")).collect();
    let people: Vec<(&str, Role)> = people.iter().map(|person| (&**person, Role::View)).collect();
    let mut above = String::new();
    for level in 0..40 {
        let name = format!("p{level}");
        roles.set(&name, &above, "t", if level == 0 { &people[..] } else { &[] });
        above = name;
    }
    let (far, stranger) = (changes.subscribe(["u7"]), changes.subscribe(["stranger"]));
    roles.set("new", &above, "t", &[]);
    assert!(far.has_changed().unwrap() && !stranger.has_changed().unwrap());
    let _others: Vec<_> = (0..100).map(|number| changes.subscribe([format!("o{number}")])).collect();
    let near = changes.subscribe(["u8"]);
    roles.remove("new");
    assert!(near.has_changed().unwrap() && !stranger.has_changed().unwrap());
}

/// `cargo test --release -p business-api --lib -- --ignored --nocapture what_somebody_sees_costs`
#[test]
#[ignore = "measures"]
fn what_somebody_sees_costs() {
    let roles = RoleBindings::synced(RoleChanges::default());
    for number in 0..10_000 {
        let below = if number < 100 { String::new() } else { format!("p{}", number % 100) };
        let few = number < 50;
        let people: &[(&str, Role)] = if few { &[("few", Role::Edit)] } else { &[("one", Role::View)] };
        roles.set(&format!("p{number}"), &below, "t", people);
    }
    for (person, rounds) in [("few", 100), ("one", 20)] {
        let mut first = Duration::ZERO;
        for _round in 0..rounds {
            drop(roles.0.read().cache.invalidate(|_person| true, |_tree| true));
            let start = Instant::now();
            assert!(!roles.roles_by_tenant(&[person.into()], None).is_empty());
            first += start.elapsed();
        }
        let start = Instant::now();
        for _round in 0..rounds {
            assert!(!roles.roles_by_tenant(&[person.into()], None).is_empty());
        }
        let again = start.elapsed() / rounds;
        println!("{person}: {} objects in {:?}, then {again:?}", roles.seen(person).len(), first / rounds);
    }
}

#[test]
fn where_service_accounts_live_is_known_as_long_as_somebody_lists_them() {
    let roles = RoleBindings::synced(RoleChanges::default());
    let list = |object: &str, tenant: &str, account_namespaces: &[(&str, &str)]| {
        let account_namespaces =
            account_namespaces.iter().map(|(cluster, name)| ((*cluster).into(), (*name).into())).collect();
        let bindings =
            ObjectBindings { tenant: tenant.into(), account_namespaces, ..ObjectBindings::default() };
        roles.0.update(|index| index.set(&object.into(), Some(bindings)));
    };
    let is_listed = |tenant: &str, cluster: &str, namespace: &str| {
        !roles.foreign_account_listings(tenant, cluster, namespace).is_empty()
    };
    list("p", "t", &[("c1", "ci"), ("", "gitops")]);
    assert!(is_listed("u", "c1", "ci") && is_listed("u", "", "gitops"));
    assert!(!is_listed("t", "c1", "ci"), "it is the tenant's own list");
    assert!(!is_listed("u", "c2", "ci") && !is_listed("u", "c1", "gitops"));
    list("q", "t", &[("c1", "ci")]);
    list("p", "t", &[]);
    assert!(is_listed("u", "c1", "ci") && !is_listed("u", "", "gitops"));
    roles.remove("q");
    assert!(!is_listed("u", "c1", "ci"));
    assert!(roles.0.read().account_namespaces.is_empty());
}

#[test]
fn of_a_tenants_lists_that_one_is_named_which_gives_roles() {
    let roles = RoleBindings::synced(RoleChanges::default());
    for (object, tenant, uses_cluster) in [("p", "t", false), ("q", "t", true), ("r", "u", false)] {
        roles.list_account(object, tenant, ("c1", "ci"), uses_cluster);
    }
    let others = roles.foreign_account_listings("v", "c1", "ci");
    let told: Vec<(&str, &str, bool)> =
        others.iter().map(|other| (&*other.tenant, &*other.object, other.uses_cluster)).collect();
    assert_eq!(told, [("t", "q", true), ("u", "r", false)]);
}

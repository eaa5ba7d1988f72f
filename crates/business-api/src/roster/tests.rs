use super::*;
use std::time::{Duration, Instant};

impl Roster {
    /// Of nobody yet, and complete.
    pub(crate) fn settled(changes: RoleChanges) -> Self {
        let roster = Self::new(|_, _| Giving::default(), changes);
        let complete = roster.0.read().emptied();
        roster.0.show(complete);
        roster
    }

    pub(crate) fn set(&self, object: &str, below: &str, tenant: &str, people: &[(&str, Role)]) {
        let mut giving = Giving { tenant: tenant.into(), below: below.into(), ..Giving::default() };
        for (person, role) in people {
            giving.give((*person).into(), *role);
        }
        self.0.change(|given| given.set(&object.into(), Some(giving)));
    }

    /// An object that lists a service account.
    pub(crate) fn list_account(
        &self,
        object: &str,
        tenant: &str,
        (cluster, namespace): (&str, &str),
        uses_cluster: bool,
    ) {
        let account_places = [(cluster.into(), namespace.into())].into();
        let account_clusters = uses_cluster.then(|| cluster.into()).into_iter().collect();
        let giving = Giving { tenant: tenant.into(), account_places, account_clusters, ..Giving::default() };
        self.0.change(|given| given.set(&object.into(), Some(giving)));
    }

    pub(crate) fn remove(&self, object: &str) {
        self.0.change(|given| given.set(&object.into(), None));
    }

    /// The same objects, of which nothing has been worked out.
    pub(crate) fn anew(&self) -> Self {
        let roster = Self::settled(RoleChanges::default());
        for (object, giving) in &self.0.read().objects {
            roster.0.change(|given| given.set(object, Some(giving.clone())));
        }
        roster
    }

    fn seen(&self, person: &str) -> Vec<String> {
        let given = self.given(&[person.into()], None);
        given.values().flat_map(|given| given.objects.iter().cloned()).collect()
    }

    fn role(&self, person: &str, object: &str) -> Option<Role> {
        self.at(&[person.into()], object)?.1
    }
}

#[test]
fn what_is_given_at_an_object_holds_below_it() {
    let roster = Roster::settled(RoleChanges::default());
    roster.set("root", "", "t", &[("ann", Role::View)]);
    roster.set("mid", "root", "t", &[("bob", Role::Edit)]);
    roster.set("leaf", "mid", "t", &[("ann", Role::Admin)]);
    roster.set("other", "", "u", &[("ann", Role::Edit)]);
    assert_eq!(roster.seen("ann"), ["leaf", "mid", "root", "other"]);
    assert_eq!(roster.seen("bob"), ["leaf", "mid"]);
    let roles = ["root", "mid", "leaf", "other", "none"].map(|object| roster.role("ann", object));
    assert_eq!(roles, [Some(Role::View), Some(Role::View), Some(Role::Admin), Some(Role::Edit), None]);
    assert_eq!(roster.at(&["bob".into()], "root"), Some(("t".into(), None)));
    let both = roster.given(&["ann".into(), "bob".into()], Some("t"));
    assert_eq!(both.len(), 1, "the tenant of the credential alone");
    assert_eq!(both["t"].highest, Some(Role::Admin));

    let below = |object, above| roster.is_below(object, above);
    assert!(below("leaf", "root") && below("leaf", "mid") && below("mid", "root"));
    assert!(
        !below("root", "leaf") && !below("leaf", "leaf") && !below("other", "root") && !below("none", "root")
    );

    roster.set("leaf", "", "t", &[]);
    assert_eq!(roster.seen("ann"), ["mid", "root", "other"]);
    for object in ["root", "mid", "leaf", "other"] {
        roster.remove(object);
    }
    let held = roster.0.read();
    assert!(held.objects.is_empty() && held.below.is_empty() && held.people.is_empty(), "nothing is left");
    assert!(held.listed.is_empty());
}

#[test]
fn a_child_that_is_known_before_its_parent_finds_it() {
    let roster = Roster::settled(RoleChanges::default());
    roster.set("kid", "root", "t", &[]);
    assert_eq!(roster.role("ann", "kid"), None);
    roster.set("root", "", "t", &[("ann", Role::Edit)]);
    assert_eq!(roster.role("ann", "kid"), Some(Role::Edit));
    roster.set("foreign", "root", "u", &[]);
    assert_eq!(roster.role("ann", "foreign"), None, "nothing is inherited across tenants");
    assert_eq!(roster.seen("ann"), ["kid", "root"]);
    roster.set("root", "kid", "t", &[("ann", Role::Edit)]);
    assert_eq!(roster.seen("ann"), ["kid", "root"], "a circle ends");
    assert_eq!(roster.role("ann", "kid"), Some(Role::Edit));
}

#[test]
fn who_waits_is_told_of_his_own_changes_and_of_those_below() {
    let changes = RoleChanges::default();
    let roster = Roster::settled(changes.clone());
    roster.set("root", "", "t", &[("ann", Role::View)]);
    let mut ann = changes.subscribe(["ann"]);
    let mut news = || {
        let news = ann.has_changed().unwrap();
        ann.mark_unchanged();
        news
    };
    roster.set("other", "", "t", &[("bob", Role::Edit)]);
    assert!(!news());
    roster.set("kid", "root", "t", &[("bob", Role::Edit)]);
    assert!(news(), "he sees one more");
    roster.set("kid", "root", "t", &[]);
    assert!(!news(), "bob has left");
    roster.set("kid", "other", "t", &[]);
    assert!(news());
    roster.set("root", "", "t", &[("ann", Role::Edit)]);
    assert!(news(), "his role has changed");
    let complete = roster.0.read().emptied();
    roster.0.show(complete);
    assert!(news(), "what was missed is not known");
}

#[test]
fn who_is_given_the_same_shares_what_is_known_of_it() {
    let roster = Roster::settled(RoleChanges::default());
    roster.set("root", "", "t", &[("ann", Role::View), ("bob", Role::Edit)]);
    let objects = |person: &str| Arc::clone(&roster.given(&[person.into()], None)["t"].objects);
    let (ann, bob) = (objects("ann"), objects("bob"));
    assert!(Arc::ptr_eq(&ann, &bob) && Arc::ptr_eq(&ann, &objects("ann")));
    roster.set("other", "", "t", &[("bob", Role::Edit)]);
    assert!(Arc::ptr_eq(&ann, &objects("ann")), "nothing has changed for her");
    roster.set("kid", "root", "t", &[]);
    assert_eq!((objects("ann").len(), objects("bob").len()), (2, 3));
}

#[test]
fn people_are_counted_by_tenant_as_often_as_they_are_listed() {
    let roster = Roster::settled(RoleChanges::default());
    roster.set("p", "", "t", &[("ann", Role::View), ("ann", Role::Edit), ("bob", Role::Edit)]);
    roster.set("q", "p", "t", &[("ann", Role::View)]);
    assert_eq!((roster.listed("t"), roster.listed("u")), (4, 0));
    roster.set("p", "", "t", &[("bob", Role::Edit)]);
    roster.set("q", "", "u", &[("ann", Role::View)]);
    assert_eq!((roster.listed("t"), roster.listed("u")), (1, 1));
    roster.remove("p");
    assert_eq!((roster.listed("t"), roster.listed("u")), (0, 1));
}

#[test]
fn many_people_far_above_are_told_as_few_are() {
    let changes = RoleChanges::default();
    let roster = Roster::settled(changes.clone());
    let people: Vec<String> = (0..50).map(|number| format!("u{number}")).collect();
    let people: Vec<(&str, Role)> = people.iter().map(|person| (&**person, Role::View)).collect();
    let mut above = String::new();
    for level in 0..40 {
        let name = format!("p{level}");
        roster.set(&name, &above, "t", if level == 0 { &people[..] } else { &[] });
        above = name;
    }
    let (far, stranger) = (changes.subscribe(["u7"]), changes.subscribe(["stranger"]));
    roster.set("new", &above, "t", &[]);
    assert!(far.has_changed().unwrap() && !stranger.has_changed().unwrap());
    let _others: Vec<_> = (0..100).map(|number| changes.subscribe([format!("o{number}")])).collect();
    let near = changes.subscribe(["u8"]);
    roster.remove("new");
    assert!(near.has_changed().unwrap() && !stranger.has_changed().unwrap());
}

/// `cargo test --release -p business-api --lib -- --ignored --nocapture what_somebody_sees_costs`
#[test]
#[ignore = "measures"]
fn what_somebody_sees_costs() {
    let roster = Roster::settled(RoleChanges::default());
    for number in 0..10_000 {
        let below = if number < 100 { String::new() } else { format!("p{}", number % 100) };
        let few = number < 50;
        let people: &[(&str, Role)] = if few { &[("few", Role::Edit)] } else { &[("one", Role::View)] };
        roster.set(&format!("p{number}"), &below, "t", people);
    }
    for (person, rounds) in [("few", 100), ("one", 20)] {
        let mut first = Duration::ZERO;
        for _round in 0..rounds {
            drop(roster.0.read().sights.forget(|_person| true, |_tree| true));
            let start = Instant::now();
            assert!(!roster.given(&[person.into()], None).is_empty());
            first += start.elapsed();
        }
        let start = Instant::now();
        for _round in 0..rounds {
            assert!(!roster.given(&[person.into()], None).is_empty());
        }
        let again = start.elapsed() / rounds;
        println!("{person}: {} objects in {:?}, then {again:?}", roster.seen(person).len(), first / rounds);
    }
}

#[test]
fn where_service_accounts_live_is_known_as_long_as_somebody_lists_them() {
    let roster = Roster::settled(RoleChanges::default());
    let list = |object: &str, tenant: &str, account_places: &[(&str, &str)]| {
        let account_places =
            account_places.iter().map(|(cluster, name)| ((*cluster).into(), (*name).into())).collect();
        let giving = Giving { tenant: tenant.into(), account_places, ..Giving::default() };
        roster.0.change(|given| given.set(&object.into(), Some(giving)));
    };
    let is_listed = |tenant: &str, cluster: &str, namespace: &str| {
        !roster.others_list_accounts_in(tenant, cluster, namespace).is_empty()
    };
    list("p", "t", &[("c1", "ci"), ("", "gitops")]);
    assert!(is_listed("u", "c1", "ci") && is_listed("u", "", "gitops"));
    assert!(!is_listed("t", "c1", "ci"), "it is the tenant's own list");
    assert!(!is_listed("u", "c2", "ci") && !is_listed("u", "c1", "gitops"));
    list("q", "t", &[("c1", "ci")]);
    list("p", "t", &[]);
    assert!(is_listed("u", "c1", "ci") && !is_listed("u", "", "gitops"));
    roster.remove("q");
    assert!(!is_listed("u", "c1", "ci"));
    assert!(roster.0.read().account_places.is_empty());
}

#[test]
fn of_a_tenants_lists_that_one_is_named_which_gives_roles() {
    let roster = Roster::settled(RoleChanges::default());
    for (object, tenant, uses_cluster) in [("p", "t", false), ("q", "t", true), ("r", "u", false)] {
        roster.list_account(object, tenant, ("c1", "ci"), uses_cluster);
    }
    let others = roster.others_list_accounts_in("v", "c1", "ci");
    let told: Vec<(&str, &str, bool)> =
        others.iter().map(|other| (&*other.tenant, &*other.object, other.uses_cluster)).collect();
    assert_eq!(told, [("t", "q", true), ("u", "r", false)]);
}

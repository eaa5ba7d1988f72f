use super::*;
use crate::schema::{ListType, StringFormat, Type};
use proptest::prelude::*;
use std::time::{Duration, Instant};

mod recorded;

/// A kind with a field of every type that has its own ownership rules.
fn schema() -> Schema {
    let port = Schema::object(
        "A port.",
        None,
        [
            ("port", Schema::integer("Number.").required()),
            ("protocol", Schema::string("Protocol.").with_default(json!("TCP")).optional()),
            ("note", Schema::string("Note.").optional()),
        ],
    );
    let item = Schema::object(
        "An item.",
        None,
        [
            ("name", Schema::string("Name.").required()),
            ("value", Schema::integer("Value.").optional()),
            ("tags", Schema::strings("Tags.", ListType::Set).optional()),
            ("ports", Schema::list("Ports.", ListType::Map(&["port", "protocol"]), port).optional()),
        ],
    );
    let pair = || {
        Schema::object(
            "A pair.",
            None,
            [("a", Schema::string("A.").optional()), ("b", Schema::integer("B.").optional())],
        )
    };
    let spec = Schema::object(
        "What is wanted.",
        None,
        [
            ("text", Schema::string("Text.").optional()),
            ("count", Schema::integer("Count.").optional()),
            ("on", Schema::boolean("On.").optional()),
            ("amount", Schema::quantity("Amount.").optional()),
            ("pair", pair().optional()),
            ("whole", pair().into_atomic().optional()),
            ("map", Schema::map("Map.", Schema::string("")).optional()),
            ("pairs", Schema::map("Pairs.", pair()).optional()),
            ("wholeMap", Schema::map("Map.", Schema::string("")).into_atomic().optional()),
            ("list", Schema::strings("List.", ListType::Atomic).optional()),
            ("set", Schema::strings("Set.", ListType::Set).optional()),
            ("items", Schema::list("Items.", ListType::Map(&["name"]), item).optional()),
            ("free", Schema::any("Anything.").optional()),
        ],
    );
    let status = Schema::object(
        "What is.",
        None,
        [
            ("phase", Schema::string("Phase.").optional()),
            ("conditions", Schema::conditions("Conditions.").optional()),
        ],
    );
    Schema::kind(
        "io.example.v1.Thing",
        "A thing.",
        [("spec", spec.optional()), ("status", status.optional())],
    )
}

#[test]
#[ignore = "writes the schema for the recorder"]
fn print_the_schema() {
    let schema = schema();
    let resource = crate::openapi::OpenApiResource {
        kind: GroupVersionKind::new("example.io", "v1", "Thing"),
        plural: "things",
        singular: "thing",
        namespaced: false,
        singleton: false,
        schema: &schema,
        verbs: &[],
        subresources: &[],
    };
    let info = crate::openapi::OpenApiInfo { title: "Example", version: "v1", patch_types: &[] };
    println!("{}", crate::openapi::v3(&info, "example.io", "v1", &[resource]));
}

const NOW: &str = "2026-01-02T03:04:05Z";
const LATER: &str = "2026-01-02T03:05:05Z";

fn kind() -> GroupVersionKind {
    GroupVersionKind::new("example.io", "v1", "Thing")
}

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, subresource: "", now: NOW }
}

#[expect(clippy::needless_pass_by_value, reason = "cases read better without references")]
fn thing(spec: Value) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "1"}, "spec": spec})
}

/// An object and its writes, one after the other.
struct History {
    schema: Schema,
    live: Option<Object>,
}

impl History {
    fn new() -> Self {
        Self { schema: schema(), live: None }
    }

    fn step<T>(&mut self, run: impl FnOnce(FieldManager<'_>, Option<&Object>) -> T) -> T {
        let kind = kind();
        run(FieldManager { schema: &self.schema, kind: &kind, reset: &[&["status"]] }, self.live.as_ref())
    }

    fn try_apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<(), ApplyError> {
        let result = self.step(|fields, live| fields.apply(live, &thing(spec), force, writer(manager)))?;
        self.live = Some(result);
        Ok(())
    }

    fn apply(mut self, manager: &str, spec: Value) -> Self {
        self.try_apply(manager, spec, false).unwrap();
        self
    }

    fn force(mut self, manager: &str, spec: Value) -> Self {
        self.try_apply(manager, spec, true).unwrap();
        self
    }

    fn update(mut self, manager: &str, spec: Value) -> Self {
        let object = Object::new(thing(spec)).unwrap();
        let result = self.step(|fields, live| fields.update(live, object, writer(manager)));
        self.live = Some(result);
        self
    }

    fn spec(&self) -> Value {
        self.live.as_ref().unwrap().get(&["spec"]).cloned().unwrap_or_default()
    }

    fn conflicts(mut self, manager: &str, spec: Value) -> String {
        match self.try_apply(manager, spec, false) {
            Err(error @ ApplyError::Conflict(_)) => error.to_string(),
            other => panic!("no conflict: {other:?}"),
        }
    }

    /// The paths below `.spec` that a manager owns.
    fn owned(&self, manager: &str) -> Vec<String> {
        let list =
            self.live.as_ref().unwrap().get(&["metadata", "managedFields"]).cloned().unwrap_or_default();
        let entries = list.as_array().cloned().unwrap_or_default();
        let of_manager = entries.iter().filter(|entry| entry["manager"] == manager);
        let mut paths: Vec<String> = of_manager
            .flat_map(|entry| FieldSet::from_value(&entry["fieldsV1"]).unwrap().paths())
            .map(|path| path.iter().map(ToString::to_string).collect::<String>())
            .map(|path| path.trim_start_matches(".spec").to_owned())
            .collect();
        paths.sort();
        paths
    }
}

#[test]
fn what_an_applier_gives_up_goes_away() {
    for (first, second, want) in [
        (json!({"text": "x", "count": 1}), json!({"count": 1}), json!({"count": 1})),
        (json!({"pair": {"a": "x", "b": 1}}), json!({"pair": {"a": "x"}}), json!({"pair": {"a": "x"}})),
        (json!({"pair": {"a": "x"}, "on": true}), json!({"on": true}), json!({"on": true})),
        (json!({"map": {"k": "1", "l": "2"}}), json!({"map": {"l": "2"}}), json!({"map": {"l": "2"}})),
        (json!({"set": ["a", "b"]}), json!({"set": ["b"]}), json!({"set": ["b"]})),
        (json!({"list": ["a", "b"]}), json!({"list": ["b"]}), json!({"list": ["b"]})),
        (json!({"whole": {"a": "x", "b": 1}}), json!({"whole": {"b": 1}}), json!({"whole": {"b": 1}})),
        (json!({"wholeMap": {"k": "1"}}), json!({}), Value::Null),
        (
            json!({"items": [{"name": "a", "value": 1}, {"name": "b"}]}),
            json!({"items": [{"name": "b"}]}),
            json!({"items": [{"name": "b"}]}),
        ),
        (
            json!({"items": [{"name": "a", "tags": ["x", "y"]}]}),
            json!({"items": [{"name": "a", "tags": ["y"]}]}),
            json!({"items": [{"name": "a", "tags": ["y"]}]}),
        ),
        (json!({"free": {"p": {"q": 1}, "r": 2}}), json!({"free": {"r": 2}}), json!({"free": {"r": 2}})),
    ] {
        let history = History::new().apply("a", first.clone()).apply("a", second.clone());
        let gone = if history.spec().is_null() { Value::Null } else { history.spec() };
        assert_eq!(gone, want, "{first} -> {second}");
    }
}

#[test]
fn what_others_own_stays_when_an_applier_gives_it_up() {
    for (ours, theirs, then, want) in [
        (json!({"text": "x"}), json!({"text": "x"}), json!({"on": true}), json!({"text": "x", "on": true})),
        (
            json!({"set": ["a", "b"]}),
            json!({"set": ["b"]}),
            json!({"on": true}),
            json!({"set": ["b"], "on": true}),
        ),
        (
            json!({"items": [{"name": "a", "value": 1}]}),
            json!({"items": [{"name": "a", "tags": ["t"]}]}),
            json!({"on": true}),
            json!({"items": [{"name": "a", "tags": ["t"]}], "on": true}),
        ),
        (
            json!({"pairs": {"u": {"a": "x"}}}),
            json!({"pairs": {"u": {"b": 1}}}),
            json!({"on": true}),
            json!({"pairs": {"u": {"b": 1}}, "on": true}),
        ),
    ] {
        let history = History::new().apply("a", ours.clone()).apply("b", theirs).apply("a", then);
        assert_eq!(history.spec(), want, "{ours}");
    }
}

#[test]
fn fields_of_others_are_conflicts_unless_they_are_equal() {
    for (theirs, ours, fields) in [
        (json!({"text": "x"}), json!({"text": "y"}), vec![".spec.text"]),
        (json!({"pair": {"a": "x", "b": 1}}), json!({"pair": {"a": "y", "b": 1}}), vec![".spec.pair.a"]),
        (json!({"whole": {"a": "x"}}), json!({"whole": {"b": 1}}), vec![".spec.whole"]),
        (json!({"wholeMap": {"k": "1"}}), json!({"wholeMap": {"l": "1"}}), vec![".spec.wholeMap"]),
        (json!({"map": {"k": "1"}}), json!({"map": {"k": "2", "l": "1"}}), vec![".spec.map.k"]),
        (json!({"list": ["a"]}), json!({"list": ["b"]}), vec![".spec.list"]),
        (
            json!({"items": [{"name": "a", "value": 1, "ports": [{"port": 1, "note": "x"}]}]}),
            json!({"items": [{"name": "a", "value": 2, "ports": [{"port": 1, "note": "y"}]}]}),
            vec![
                ".spec.items[name=\"a\"].value",
                ".spec.items[name=\"a\"].ports[port=1,protocol=\"TCP\"].note",
            ],
        ),
    ] {
        let text = History::new().apply("b", theirs.clone()).conflicts("a", ours.clone());
        for field in &fields {
            assert!(text.contains(field), "{ours}: {text}");
        }
        let count = fields.len();
        assert!(text.starts_with(&format!("Apply failed with {count} conflict")), "{text}");
        let forced = History::new().apply("b", theirs.clone()).force("a", ours);
        let theirs_left = forced.owned("b");
        for field in &fields {
            assert!(!theirs_left.contains(&field.trim_start_matches(".spec").to_owned()), "{theirs_left:?}");
        }
    }
    for same in
        [json!({"text": "x"}), json!({"set": ["a"]}), json!({"whole": {"a": "x"}}), json!({"amount": "1"})]
    {
        let history = History::new().apply("b", same.clone()).apply("a", same.clone());
        assert_eq!(history.owned("a"), history.owned("b"), "{same}");
    }
    let other = History::new().apply("b", json!({"set": ["a"]})).apply("a", json!({"set": ["b"]}));
    assert_eq!(other.spec(), json!({"set": ["a", "b"]}), "a set's items never conflict");
}

#[test]
fn another_way_to_write_a_quantity_is_no_change() {
    let history = History::new().apply("b", json!({"amount": "500m"})).apply("a", json!({"amount": 0.5}));
    assert_eq!((history.spec(), history.owned("a")), (json!({"amount": "500m"}), vec![".amount".to_owned()]));
}

#[test]
fn lines_of_base64_are_no_change() {
    let bytes = || Schema::new("", Type::String(StringFormat::Bytes));
    let schema =
        Schema::object("", None, [("one", bytes().optional()), ("map", Schema::map("", bytes()).optional())]);
    let config = json!({"one": "AAEC\r\nAw==\n", "map": {"a": "AA\nEC", "b": "AAEC"}});
    let normal = typed::normalised(config.as_object().unwrap(), &schema).into_owned();
    assert_eq!(Value::Object(normal), json!({"one": "AAECAw==", "map": {"a": "AAEC", "b": "AAEC"}}));
}

#[test]
fn conflicts_are_told_as_kubectl_prints_them() {
    let history =
        History::new().update("editor", json!({"text": "x", "count": 1})).apply("b", json!({"on": true}));
    let one = ApplyError::Conflict(vec![Conflict {
        owner: "\"editor\" using example.io/v1".into(),
        field: ".spec.text".into(),
    }]);
    assert_eq!(
        one.to_string(),
        "Apply failed with 1 conflict: conflict with \"editor\" using example.io/v1: .spec.text"
    );
    let mut history = history;
    let error = history.try_apply("a", json!({"text": "y", "count": 2, "on": false}), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"b\":\n- .spec.on\nconflicts with \"editor\" using \
         example.io/v1:\n- .spec.count\n- .spec.text"
    );
    let status = error.status();
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 3);
    assert_eq!(causes[1].message, "conflict with \"editor\" using example.io/v1");
    assert_eq!(
        (causes[1].reason.as_str(), causes[1].field.as_str()),
        ("FieldManagerConflict", ".spec.count")
    );
}

#[test]
fn an_update_takes_what_it_changes() {
    let history = History::new().apply("a", json!({"text": "x", "count": 1, "set": ["s"]}));
    let history = history.update("e", json!({"text": "y", "count": 1}));
    assert_eq!(history.owned("a"), [".count"]);
    assert_eq!(history.owned("e"), [".text"]);
    let history = history.update("e", json!({"text": "y", "count": 1}));
    assert_eq!(history.owned("e"), [".text"], "an update that changes nothing owns nothing more");
}

#[test]
fn the_order_of_an_applied_list_is_the_appliers() {
    let names = |history: &History| -> String {
        let spec = history.spec();
        spec["items"].as_array().unwrap().iter().filter_map(|item| item["name"].as_str()).collect()
    };
    let items =
        |names: &str| json!({"items": names.chars().map(|name| json!({"name": name})).collect::<Value>()});
    for (live, applied, want) in [
        ("abc", "c", "abc"),
        ("abc", "ca", "bca"),
        ("abc", "dc", "abdc"),
        ("bd", "abcde", "abcde"),
        ("xay", "ab", "xayb"),
    ] {
        let history = History::new().apply("b", items(live)).apply("a", items(applied));
        assert_eq!(names(&history), want, "{live} + {applied}");
    }
}

#[test]
fn bodies_that_do_not_fit_are_refused() {
    let mut history = History::new();
    let mut refusal = |body: Value| {
        history.step(|fields, live| fields.apply(live, &body, false, writer("a"))).unwrap_err().status()
    };
    let unknown = refusal(thing(json!({"nope": 1})));
    assert_eq!(unknown.code, 500);
    assert_eq!(
        unknown.message,
        "failed to create typed patch object (/t; example.io/v1, Kind=Thing): .spec.nope: field not declared in schema"
    );
    let repeated = refusal(thing(json!({"set": ["a", "a"], "items": [{"value": 1}]}))).message;
    assert!(repeated.contains(".spec.set: duplicate entries for key [=\"a\"]"), "{repeated}");
    assert!(repeated.contains(
        "element 0: associative list with keys has an element that omits all key fields [\"name\"]"
    ));
    let typed = refusal(thing(json!({"count": "x", "pair": [], "list": {}}))).message;
    assert!(typed.contains("errors:\n  .spec.count: expected numeric (int or float), got \"x\""), "{typed}");
    let other = refusal(json!({"apiVersion": "example.io/v2", "kind": "Thing"}));
    assert_eq!((other.code, other.message.as_str()), (400, "invalid object type: example.io/v2, Kind=Thing"));
    let mut managed = thing(json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    assert_eq!(refusal(managed).message, "metadata.managedFields must be nil");
    assert_eq!(refusal(json!([])).code, 400);
}

#[test]
fn a_refusal_of_many_fields_below_a_long_key_stays_short() {
    let (long, fields) = ("k".repeat(1 << 20), (0..1_000).map(|field| (format!("u{field}"), json!(0))));
    let spec = json!({"count": &long, "pairs": {(&long): fields.collect::<Value>()}, "set": [&long, &long]});
    let refusal = History::new().try_apply("a", spec, false).unwrap_err().to_string();
    assert!(refusal.contains(": field not declared in schema"));
    assert!(refusal.contains(".spec.count: expected numeric (int or float), got \"kkk"));
    assert!(refusal.len() < 200_000, "{}", refusal.len());
}

#[test]
fn a_configuration_has_as_many_fields_as_an_object_can_have_and_no_more() {
    let keys = |many: usize| (0..many).map(|key| (format!("k{key}"), json!(""))).collect::<Value>();
    let refused = History::new().try_apply("a", json!({"map": keys(FIELDS_MAX)}), false);
    let refused = refused.unwrap_err().status();
    assert_eq!((refused.code, refused.reason.as_str()), (413, "RequestEntityTooLarge"));
    let items: Vec<Value> = (0..FIELDS_MAX / 2).map(|item| json!({"name": format!("n{item}")})).collect();
    let refused = History::new().try_apply("a", json!({"items": items}), false);
    assert_eq!(refused, Err(ApplyError::TooLarge));
    // What is owned as one value is one field, whatever is in it.
    let whole = json!({"list": vec!["x"; FIELDS_MAX], "wholeMap": keys(FIELDS_MAX)});
    assert_eq!(History::new().apply("a", whole).owned("a"), [".list", ".wholeMap"]);
}

#[test]
fn an_apply_that_changes_nothing_gives_the_live_object_back() {
    let mut history = History::new().apply("a", json!({"text": "x"})).apply("b", json!({"on": true}));
    let before = history.live.clone();
    let later = Writer { manager: "a", subresource: "", now: LATER };
    let same =
        history.step(|fields, live| fields.apply(live, &thing(json!({"text": "x"})), false, later)).unwrap();
    assert_eq!(Some(same), before);
    let updated = history.step(|fields, live| fields.update(live, live.unwrap().clone(), later));
    assert_eq!(Some(updated), before);
}

#[test]
fn managed_fields_of_a_body_replace_reset_or_are_ignored() {
    let history = History::new().apply("a", json!({"text": "x"}));
    let live = history.live.clone().unwrap();
    let kind = kind();
    let fields = FieldManager { schema: &history.schema, kind: &kind, reset: &[&["status"]] };
    let with = |managed: Value, subresource: &'static str| {
        let mut new = live.clone();
        new.set(&["metadata", "managedFields"], managed);
        let writer = Writer { manager: "e", subresource, now: NOW };
        fields.update(Some(&live), new, writer).get(&["metadata", "managedFields"]).cloned()
    };
    let kept = live.get(&["metadata", "managedFields"]).cloned();
    assert_eq!(with(json!([]), ""), None);
    assert_eq!(with(json!([{}]), ""), None);
    assert_eq!(with(json!([]), "status"), kept);
    assert_eq!(with(json!([{"operation": "Delete"}]), ""), kept);
    assert_eq!(with(Value::Null, ""), kept);
    let mut renamed = kept.unwrap();
    renamed[0]["manager"] = json!("z");
    assert_eq!(with(renamed.clone(), ""), Some(renamed));
}

#[test]
fn the_first_apply_finds_what_was_there_before() {
    let history = History::new();
    let bare = Object::new(thing(json!({"text": "x", "on": true}))).unwrap();
    let mut history = History { live: Some(bare), ..history };
    let error = history.try_apply("a", json!({"text": "y"}), false).unwrap_err().to_string();
    assert!(
        error.contains("conflict with \"before-first-apply\" using example.io/v1: .spec.text"),
        "{error}"
    );
    history.try_apply("a", json!({"text": "x"}), false).unwrap();
    assert_eq!(history.owned("before-first-apply"), ["", ".on", ".text"]);
    assert_eq!(history.owned("a"), [".text"]);
}

#[test]
fn kubectl_takes_its_client_side_fields_over() {
    let last = thing(json!({"text": "x", "count": 1})).to_string();
    let annotated = |spec: Value| {
        let mut body = thing(spec);
        body["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
        Object::new(body).unwrap()
    };
    let start = || {
        let mut history = History::new();
        let first = annotated(json!({"text": "x", "count": 1}));
        let live = history.step(|fields, _| fields.update(None, first, writer("kubectl-client-side-apply")));
        history.live = Some(live);
        history
    };
    let mut history = start();
    history.try_apply("kubectl", json!({"text": "y", "count": 1}), false).unwrap();
    assert_eq!(history.spec(), json!({"text": "y", "count": 1}));
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let refreshed = history.live.as_ref().unwrap().annotation(annotation).unwrap();
    assert_eq!(refreshed, format!("{}\n", thing(json!({"text": "y", "count": 1}))));
    let changed = annotated(json!({"text": "z", "count": 1}));
    let mut history = start();
    let live = history.step(|fields, live| fields.update(live, changed, writer("editor")));
    history.live = Some(live);
    let text = history.conflicts("kubectl", json!({"text": "y", "count": 2}));
    assert_eq!(
        text,
        "Apply failed with 1 conflict: conflict with \"editor\" using example.io/v1: .spec.text"
    );
    assert!(start().conflicts("other", json!({"text": "y"})).contains("kubectl-client-side-apply"));
}

#[test]
fn old_updaters_are_put_together() {
    let mut history = History::new().update("m00", json!({"map": {"k00": "x"}}));
    for index in 1..=14 {
        let map: Map<String, Value> = (0..=index).map(|key| (format!("k{key:02}"), json!("x"))).collect();
        history = history.update(&format!("m{index:02}"), json!({"map": map}));
    }
    let list = history.live.as_ref().unwrap().get(&["metadata", "managedFields"]).cloned().unwrap();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().filter_map(|entry| entry["manager"].as_str()).collect();
    assert_eq!(names.len(), 10);
    assert_eq!((names[0], names[9]), ("ancient-changes", "m14"));
    assert!(history.owned("ancient-changes").contains(&".map.k00".to_owned()));
}

/// A client that may write an object may send any list.
#[test]
fn a_long_list_of_managers_takes_no_longer_than_its_length() {
    const MANY: usize = 40_000;
    let begun = Instant::now();
    let entry = |number: usize| {
        json!({
            "manager": format!("m{number}"), "operation": "Update", "apiVersion": "example.io/v1", "time": NOW,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:map": {(format!("f:k{number}")): {}}}},
        })
    };
    let list: Vec<Value> = (0..MANY).map(entry).collect();
    let map: Map<String, Value> = (0..MANY).map(|number| (format!("k{number}"), json!("x"))).collect();
    let mut sent = thing(json!({"map": map, "text": "y"}));
    sent["metadata"]["managedFields"] = json!(list);
    let sent = Object::new(sent).unwrap();
    let list = |object: &Object| object.get(&MANAGED_FIELDS).and_then(Value::as_array).unwrap().clone();
    let mut history = History::new();
    let created = history.step(|fields, _| fields.update(None, sent.clone(), writer("a")));
    assert_eq!(list(&created).len(), 1, "what is set anew is its writer's");
    history.live = Some(Object::new(thing(json!({"map": map, "text": "x"}))).unwrap());
    let changed = history.step(|fields, live| fields.update(live, sent, writer("a")));
    let kept = list(&changed);
    assert_eq!(kept.len(), managers::UPDATE_MANAGERS_MAX);
    let owned = kept.iter().map(|entry| FieldSet::from_value(&entry["fieldsV1"]).unwrap().len());
    assert_eq!(owned.sum::<usize>(), MANY + 1, "nobody's field is lost");

    let spelled = |number: usize| {
        let spaces: String = (0..16).map(|bit| if number & (1 << bit) == 0 { ' ' } else { '\t' }).collect();
        (format!("v:{spaces}1"), json!({(format!("f:k{number}")): {}}))
    };
    let fields: Map<String, Value> = (0..MANY).map(spelled).collect();
    assert_eq!(FieldSet::from_value(&Value::Object(fields)).unwrap().len(), MANY);
    assert!(begun.elapsed() < Duration::from_secs(20), "took {:?}", begun.elapsed());
}

#[test]
fn of_one_managers_entries_the_last_one_counts() {
    let entry = |manager: &str, field: &str| {
        json!({"manager": manager, "operation": "Apply", "apiVersion": "example.io/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {(format!("f:{field}")): {}}})
    };
    let list = json!([entry("a", "x"), entry("b", "x"), entry("a", "y"), entry("c", "x")]);
    let managers = Managers::decode(Some(&list)).unwrap();
    let shown: Vec<_> =
        managers.0.iter().map(|entry| (entry.identity.manager.as_str(), entry.fields.to_value())).collect();
    assert_eq!(shown, [("b", json!({"f:x": {}})), ("a", json!({"f:y": {}})), ("c", json!({"f:x": {}}))]);
}

#[test]
fn a_subresource_has_owners_of_its_own() {
    let history = History::new().apply("a", json!({"text": "x"}));
    let kind = kind();
    let status = FieldManager { schema: &history.schema, kind: &kind, reset: &[&["spec"]] };
    let body = json!({"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"text": "z"},
        "status": {"phase": "P"}});
    let writer = Writer { manager: "a", subresource: "status", now: NOW };
    let result = status.apply(history.live.as_ref(), &body, false, writer).unwrap();
    let list = result.get(&["metadata", "managedFields"]).unwrap();
    assert_eq!(list[0]["subresource"], Value::Null);
    assert_eq!(list[0]["fieldsV1"], json!({"f:spec": {"f:text": {}}}));
    assert_eq!(list[1]["subresource"], "status");
    assert_eq!(list[1]["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
}

fn any_element() -> impl Strategy<Value = PathElement> {
    let scalar = prop_oneof![
        "[a-c<é\"]{0,2}".prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ];
    prop_oneof![
        "[a-c.:]{0,2}".prop_map(PathElement::Field),
        prop::collection::btree_map("[a-b]", scalar.clone(), 1..3)
            .prop_map(|keys| PathElement::Key(keys.into_iter().collect())),
        scalar.prop_map(PathElement::Value),
        (0_i64..4).prop_map(PathElement::Index),
    ]
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    prop::collection::vec(prop::collection::vec(any_element(), 1..4), 0..8).prop_map(|paths| {
        let mut set = FieldSet::default();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

fn any_spec() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["x", "y"]);
    let words = || prop::sample::subsequence(vec!["a", "b", "c"], 0..3).prop_shuffle();
    let item = (prop::sample::subsequence(vec!["a", "b", "c"], 0..3).prop_shuffle(), 0..2_i64).prop_map(
        |(names, value)| {
            names.into_iter().map(|name| json!({"name": name, "value": value})).collect::<Value>()
        },
    );
    (
        prop::option::of(word()),
        prop::option::of(words()),
        prop::option::of(words()),
        prop::option::of(item),
        prop::option::of(word()),
    )
        .prop_map(|(text, set, list, items, key)| {
            let mut spec = json!({});
            let fields =
                [("text", json!(text)), ("set", json!(set)), ("list", json!(list)), ("items", json!(items))];
            for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
                spec[name] = value;
            }
            if let Some(key) = key {
                spec["map"] = json!({key: "v"});
                spec["wholeMap"] = json!({key: "v"});
            }
            spec
        })
}

proptest! {
    #[test]
    fn printing_and_reading_gives_the_same_set(set in any_set()) {
        prop_assert_eq!(FieldSet::from_value(&set.to_value()), Ok(set));
    }

    #[test]
    fn any_fields_are_read_or_refused(text in "\\{(\"[.fkvix]:?[{}\"a-c:0-9]{0,4}\":\\{\\},?){0,3}\\}") {
        if let Ok(value) = serde_json::from_str::<Value>(&text)
            && let Ok(set) = FieldSet::from_value(&value) {
            prop_assert_eq!(FieldSet::from_value(&set.to_value()), Ok(set));
        }
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set(), c in any_set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(&a.difference(&b).union(&a.intersection(&b)), &a);
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.intersection(&b).is_subset(&a) && a.is_subset(&a.union(&b)));
        let mut rest = a.clone();
        rest.remove_recursive(&b);
        prop_assert!(rest.is_subset(&a.difference(&b)));
        prop_assert_eq!(a.len(), a.paths().len());
        prop_assert!(a.paths().iter().all(|path| a.has(path)));
    }

    #[test]
    fn applying_twice_changes_nothing_more(before in any_spec(), config in any_spec()) {
        let once = History::new().update("e", before).force("a", config.clone());
        let first = once.live.clone();
        prop_assert_eq!(once.force("a", config).live, first);
    }

    #[test]
    fn what_is_applied_is_there_afterwards(theirs in any_spec(), config in any_spec()) {
        let history = History::new().apply("b", theirs).force("a", config.clone());
        let spec = history.spec();
        for name in ["text", "list", "wholeMap"] {
            if let Some(value) = config.get(name) {
                prop_assert_eq!(&spec[name], value);
            }
        }
        let items = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        for name in ["set", "items"] {
            let all = items(&spec, name);
            prop_assert!(items(&config, name).iter().all(|item| all.contains(item)), "{}", name);
        }
    }
}

#[test]
#[ignore = "measures; run it in release"]
fn an_apply_costs_well_under_100_microseconds() {
    let item = |index: usize| {
        json!({"name": format!("item-{index:02}"), "value": index, "tags": ["one", "two"],
        "ports": [{"port": index, "note": "some words"}]})
    };
    let spec = json!({"text": "some text", "count": 7, "map": {"k1": "v1", "k2": "v2"},
        "items": (0..9).map(item).collect::<Vec<_>>()});
    let body = thing(spec.clone());
    println!("{} bytes", body.to_string().len());
    let mut history = History::new().apply("a", spec.clone()).update("e", spec);
    let measure = |name: &str, run: &mut dyn FnMut()| {
        let start = Instant::now();
        for _ in 0..2000 {
            run();
        }
        println!("{name}: {:?}", start.elapsed() / 2000);
    };
    let mut changed = body.clone();
    changed["spec"]["count"] = json!(8);
    let new = Object::new(changed.clone()).unwrap();
    history.step(|fields, live| {
        measure("create by apply", &mut || drop(fields.apply(None, &body, false, writer("a"))));
        measure("apply without change", &mut || drop(fields.apply(live, &body, false, writer("a"))));
        measure("apply with a change", &mut || drop(fields.apply(live, &changed, true, writer("a"))));
        measure("create", &mut || drop(fields.update(None, new.clone(), writer("e"))));
        measure("update", &mut || drop(fields.update(live, new.clone(), writer("e"))));
        measure("decode", &mut || {
            let text = body.to_string();
            let (mut value, _duplicates) =
                decode::decode_value(text.as_bytes(), decode::Media::Json).unwrap();
            drop(decode::prune_and_check(&mut value, fields.schema));
        });
    });
}

use super::*;
use crate::object::Object;
use crate::schema::{ListType, Schema, StringFormat, Type};
use proptest::prelude::*;
use serde_json::{Value, json};

fn project() -> Schema {
    let cluster = Schema::object(
        "",
        Some("io.example.v1.Cluster"),
        [("name", Schema::string("").required()), ("hard", Schema::resource_list("").optional())],
    );
    let spec = Schema::object(
        "",
        Some("io.example.v1.ProjectSpec"),
        [
            ("displayName", Schema::string("").optional()),
            ("tenantID", Schema::string("").always()),
            ("members", Schema::strings("", ListType::Atomic).always()),
            ("phase", Schema::string("").with_default(json!("Pending")).optional()),
            ("count", Schema::integer("").optional()),
            ("small", Schema::int32("").optional()),
            ("on", Schema::boolean("").optional()),
            ("at", Schema::time("").optional()),
            ("hard", Schema::resource_list("").optional()),
            ("clusters", Schema::list("", ListType::Map(&["name"]), cluster).optional()),
            ("free", Schema::any("").optional()),
        ],
    );
    Schema::kind("io.example.v1.Project", "", [("spec", spec.with_default(json!({})).optional())])
}

/// The decoded object, and the reports of duplicate and unknown fields.
fn read(body: &str, media: Media) -> Result<(Object, Vec<String>), DecodeError> {
    let (mut value, mut reported) = decode_value(body.as_bytes(), media)?;
    reported.extend(prune_and_check(&mut value, &project())?);
    Ok((Object::new(value).unwrap(), reported))
}

fn decode(body: &str) -> Result<Object, DecodeError> {
    read(body, Media::Json).map(|(object, _reported)| object)
}

fn error(body: &str) -> String {
    decode(body).unwrap_err().to_string()
}

#[test]
fn base64_may_have_lines() {
    let bytes = || Schema::new("", Type::String(StringFormat::Bytes));
    let data = Schema::map("", bytes()).optional();
    let schema = Schema::object("", Some("io.example.v1.Files"), [("data", data)]);
    let read = |text: &str| {
        let mut value = json!({"data": {"a": text}});
        prune_and_check(&mut value, &schema).map(|_unknown| value["data"]["a"].clone())
    };
    for text in ["AAECAw==", "AAEC\nAw==\n", "AA\r\nEC\r\nAw==", "\nAAECAw=\n="] {
        assert_eq!(read(text).unwrap(), json!("AAECAw=="), "{text:?}");
    }
    assert_eq!(read("\n").unwrap(), json!(""));
    for wrong in ["AAEC Aw==", "AAECAw", "AAEC\tAw=="] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn unknown_fields_are_pruned_and_reported() {
    let body = r#"{"kind":"Project","spec":{"foo":1,"displayName":"a","DisplayName":"b","clusters":[{"name":"c","x":{}}],
        "free":{"anything":[null]}},"metadata":{"name":"n","labels":{"any":"thing"},"clusterName":"x"},"extra":null}"#;
    let (object, reported) = read(body, Media::Json).unwrap();
    assert_eq!(
        object.into_value(),
        json!({"kind": "Project", "metadata": {"name": "n", "labels": {"any": "thing"}},
            "spec": {"displayName": "a", "clusters": [{"name": "c"}], "free": {"anything": [null]}}})
    );
    assert_eq!(
        reported,
        [
            "unknown field \"extra\"",
            "unknown field \"metadata.clusterName\"",
            "unknown field \"spec.DisplayName\"",
            "unknown field \"spec.foo\"",
            "unknown field \"spec.clusters[0].x\"",
        ]
    );
}

#[test]
fn repeated_fields_are_reported_and_the_last_counts() {
    let body = r#"{"spec":{"clusters":[{"name":"a"},{"name":"b","name":"c"}],"displayName":"x"},
        "metadata":{"labels":{"a":"1","a":"2"}},"spec":{"displayName":"y","displayName":"z","displayName":"w"}}"#;
    let (object, reported) = read(body, Media::Json).unwrap();
    assert_eq!(object.text(&["spec", "displayName"]), "w");
    assert_eq!(
        reported,
        [
            "duplicate field \"spec.clusters[1].name\"",
            "duplicate field \"metadata.labels.a\"",
            "duplicate field \"spec\"",
            "duplicate field \"spec.displayName\"",
        ]
    );
    let yaml = "metadata: {name: a}\nspec:\n  displayName: x\n  displayName: y\n";
    let (_, reported) = read(yaml, Media::Yaml).unwrap();
    assert_eq!(reported, ["duplicate field \"spec.displayName\""]);
}

#[test]
fn reports_about_the_fields_below_a_long_key_stay_short() {
    let part = Schema::object("", None, [("a", Schema::integer("").optional())]);
    let schema = Schema::object("", None, [("parts", Schema::map("", part).optional())]);
    let fields: Vec<String> = (0..150).map(|field| format!("\"u{field}\":0,\"u{field}\":1")).collect();
    let body = format!("{{\"parts\":{{\"{}\":{{{}}}}}}}", "k".repeat(1 << 20), fields.join(","));
    let (mut value, duplicates) = decode_value(body.as_bytes(), Media::Json).unwrap();
    let unknown = prune_and_check(&mut value, &schema).unwrap();
    for reports in [&duplicates, &unknown] {
        assert_eq!(reports.len(), STRICT_ERRORS_MAX);
        assert!(reports.iter().all(|report| report.len() < 2_000 && report.contains("….u")));
    }
}

#[test]
fn nulls_are_absent() {
    let object =
        decode(r#"{"metadata":{"labels":null,"name":"a"},"spec":{"hard":null,"members":["a",null]}}"#)
            .unwrap();
    assert_eq!(object.into_value(), json!({"metadata": {"name": "a"}, "spec": {"members": ["a", ""]}}));
    assert_eq!(decode(r#"{"spec":null}"#).unwrap().into_value(), json!({}));
}

#[test]
fn values_take_their_canonical_form() {
    let body = r#"{"metadata":{"creationTimestamp":"2026-01-02T05:04:05.987+02:00","finalizers":[],"generation":0},
        "spec":{"hard":{"cpu":"0.5","memory":1024,"x":"1Ki"},"at":"2026-01-02T03:04:05Z"}}"#;
    assert_eq!(
        decode(body).unwrap().into_value(),
        json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"hard": {"cpu": "500m", "memory": "1024", "x": "1Ki"}, "at": "2026-01-02T03:04:05Z"}})
    );
}

#[test]
fn wrong_types_say_where_and_what() {
    for (body, want) in [
        (r"[]", "json: cannot unmarshal array into Go value of type v1.Project"),
        ("null", "json: cannot unmarshal null into Go value of type v1.Project"),
        (
            r#"{"spec":1}"#,
            "json: cannot unmarshal number 1 into Go struct field Project.spec of type v1.ProjectSpec",
        ),
        (
            r#"{"spec":{"displayName":{}}}"#,
            "json: cannot unmarshal object into Go struct field ProjectSpec.spec.displayName of type string",
        ),
        (
            r#"{"spec":{"clusters":[{"name":true}]}}"#,
            "json: cannot unmarshal bool into Go struct field Cluster.spec.clusters.name of type string",
        ),
        (
            r#"{"spec":{"members":"a"}}"#,
            "json: cannot unmarshal string into Go struct field ProjectSpec.spec.members of type []string",
        ),
        (
            r#"{"spec":{"hard":{"cpu":[]}}}"#,
            "json: cannot unmarshal array into Go struct field ProjectSpec.spec.hard.cpu of type resource.Quantity",
        ),
        (
            r#"{"spec":{"count":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field ProjectSpec.spec.count of type int64",
        ),
        (
            r#"{"spec":{"count":9223372036854775808}}"#,
            "json: cannot unmarshal number 9223372036854775808 into Go struct field ProjectSpec.spec.count of type int64",
        ),
        (
            r#"{"spec":{"small":2147483648}}"#,
            "json: cannot unmarshal number 2147483648 into Go struct field ProjectSpec.spec.small of type int32",
        ),
        (
            r#"{"spec":{"hard":{"cpu":"1 core"}}}"#,
            "spec.hard.cpu: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            r#"{"spec":{"at":"yesterday"}}"#,
            "spec.at: parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse",
        ),
    ] {
        assert_eq!(error(body), want);
    }
    assert!(decode(r#"{"spec":{"count":-9223372036854775808,"small":-2147483648}}"#).is_ok());
}

#[test]
fn depth_and_expansion_are_bounded() {
    let nested = format!("{{\"spec\":{{\"free\":{}1{}}}}}", "[".repeat(110), "]".repeat(110));
    assert!(error(&nested).starts_with("exceeded max depth of 100"), "{}", error(&nested));
    let far = format!("{{\"spec\":{{\"free\":{}", "[".repeat(100_000));
    assert!(decode(&far).is_err());
    let mut bomb = "a: &a [xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx]\n".to_owned();
    for (one, two) in ["ab", "bc", "cd", "de", "ef", "fg", "gh"].iter().map(|pair| pair.split_at(1)) {
        let nine = vec![format!("*{one}"); 9].join(",");
        bomb = format!("{bomb}{two}: &{two} [{nine}]\n");
    }
    assert!(decode_value(bomb.as_bytes(), Media::Yaml).is_err());
}

/// The largest body that the server reads.
const BODY_MAX: usize = 3 * 1024 * 1024;

fn repeated(begin: &str, each: impl Fn(usize) -> String, end: &str) -> String {
    let mut text = begin.to_owned();
    for number in 0.. {
        let next = each(number);
        if text.len() + next.len() + end.len() > BODY_MAX {
            break;
        }
        text.push_str(&next);
        text.push(',');
    }
    text.pop();
    text + end
}

#[test]
fn a_tree_takes_a_bounded_amount_of_memory() {
    for small in [r#"{"":0}"#, "[0]", r#"{"":{"":{"":{}}}}"#, "[[[[]]]]"] {
        let body = repeated(r#"{"x":["#, |_number| small.to_owned(), "]}");
        for media in [Media::Json, Media::Yaml] {
            assert!(decode_value(body.as_bytes(), media).is_err(), "{small}");
        }
    }
    let of = |alias: &str, count: usize| vec![alias; count].join(",");
    let bomb = format!("a: &a {{\"\": 0}}\nb: &b [{}]\nc: [{}]\n", of("*a", 14_000), of("*b", 100));
    assert!(bomb.len() < 48 * 1024);
    let refused = decode_value(bomb.as_bytes(), Media::Yaml).unwrap_err().to_string();
    assert!(refused.contains("too much memory"), "{refused}");
    for parts in ["- \n", "- ", "a: {}\n"] {
        assert!(
            decode_value(parts.repeat(BODY_MAX / parts.len()).as_bytes(), Media::Yaml).is_err(),
            "{parts}"
        );
    }
}

#[test]
fn the_largest_objects_that_somebody_may_send_are_read() {
    let leaves = repeated(r#"{"fieldsV1":{"#, |number| format!(r#""f:a{number}":{{}}"#), "}}");
    let names = repeated(r#"{"members":["#, |number| format!("\"u{number}\""), "]}");
    let text = repeated("{", |number| format!(r#""key-{number}":"a value of some words""#), "}");
    let labels =
        r#"{"name":"a","labels":{"a":"b"},"annotations":{"a":"b"},"ownerReferences":[{"name":"o"}]}"#;
    let hard = r#"{"cpu":"1","memory":"1Gi","requests.storage":"1Ti","pods":"10"}"#;
    let items = repeated(
        r#"{"items":["#,
        |_number| {
            let clusters = vec![format!(r#"{{"name":"c","hard":{hard}}}"#); 16].join(",");
            format!(r#"{{"metadata":{labels},"spec":{{"clusters":[{clusters}]}}}}"#)
        },
        "]}",
    );
    for body in [leaves, names, text, items] {
        let (begin, _) = body.split_at(40);
        assert!(body.len() > BODY_MAX - 2048, "{begin}");
        assert!(decode_value(body.as_bytes(), Media::Json).is_ok(), "{begin}");
    }
    // As many tenants as a cluster may have, each with an amount, and their managed fields.
    let tenants: Vec<Value> =
        (0..10_000).map(|number| json!({"name": format!("t{number}"), "hard": {"cpu": "1"}})).collect();
    let owned: serde_json::Map<String, Value> = (0..10_000)
        .map(|number| {
            let fields = json!({".": {}, "f:name": {}, "f:hard": {".": {}, "f:cpu": {}}});
            (format!("k:{{\"name\":\"t{number}\"}}"), fields)
        })
        .collect();
    let cluster = json!({"spec": {"tenants": tenants}, "metadata": {"managedFields": [{"fieldsV1": owned}]}});
    assert!(decode_value(cluster.to_string().as_bytes(), Media::Json).is_ok());
    let yaml = "key: some value\n".repeat(100_000);
    assert!(decode_value(yaml.as_bytes(), Media::Yaml).is_ok());
    let anchored = format!("a: &a {{b: c}}\nd: [{}]\n", vec!["*a"; 5_000].join(","));
    assert!(decode_value(anchored.as_bytes(), Media::Yaml).is_ok());
}

#[test]
fn the_text_of_a_body_says_what_it_may_weigh() {
    let most = |text: &str, media| memory_bytes_max(text.as_bytes(), media);
    for (text, media) in [
        (r#"{"a":[{"":0},{"":0},[[]],{"b":"c","d":"e"}]}"#, Media::Json),
        ("a: {b: [c, d]}\ne:\n- f: g\n- - h\n", Media::Yaml),
    ] {
        let (value, _) = decode_value(text.as_bytes(), media).unwrap();
        assert!(most(text, media).unwrap() >= heap_bytes(&value), "{text}");
    }
    assert!(most(r#"{"":0}"#, Media::Json).unwrap() < 1024);
    assert_eq!(most("a: &a b\nc: *a\n", Media::Yaml), None);
    assert!(most(r#"{"a":"&b *c"}"#, Media::Json).is_some());
}

#[test]
fn yaml_is_read_as_json_would_be() {
    let (value, duplicates) =
        decode_value(b"a: [1, -2, 1.5, x, true, null]\n1: {true: y}\n", Media::Yaml).unwrap();
    assert_eq!(value, json!({"a": [1, -2, 1.5, "x", true, null], "1": {"true": "y"}}));
    assert!(duplicates.is_empty());
    assert_eq!(decode_value(b" {\"a\": 1}", Media::Yaml).unwrap().0, json!({"a": 1}));
    assert_eq!(decode_value(b"{a: 1}", Media::Yaml).unwrap().0, json!({"a": 1}));
    for bad in ["a: .nan", "a: b: c", "a: !x 1", "? [a]\n: b", "\u{0}"] {
        assert!(decode_value(bad.as_bytes(), Media::Yaml).is_err(), "{bad:?}");
    }
    assert!(decode_value(b"{\"a\": 1} x", Media::Json).is_err());
    assert!(decode_value(b"k8s\0", Media::Json).is_err());
}

#[test]
fn defaults_fill_what_is_missing() {
    let mut object = decode(r#"{"spec":{"tenantID":"t","phase":null}}"#).unwrap();
    apply_defaults(&mut object, &project()).unwrap();
    assert_eq!(object.into_value(), json!({"spec": {"tenantID": "t", "members": [], "phase": "Pending"}}));
    let mut object = decode("{}").unwrap();
    apply_defaults(&mut object, &project()).unwrap();
    assert_eq!(object.into_value(), json!({"spec": {"tenantID": "", "members": [], "phase": "Pending"}}));
}

#[test]
fn the_defaults_of_very_many_items_are_refused() {
    let owners = |count: usize| {
        let body = format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, vec!["{}"; count].join(","));
        let mut object = decode(&body).unwrap();
        apply_defaults(&mut object, &project()).map(|()| object)
    };
    let filled = owners(10_000).unwrap().into_value();
    let last = &filled["metadata"]["ownerReferences"][9_999];
    assert_eq!(last, &json!({"apiVersion": "", "kind": "", "name": "", "uid": ""}));
    let refused = owners(1_000_000).unwrap_err().to_string();
    assert_eq!(refused, "the document takes too much memory with its defaults");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9.]{0,6}".prop_map(Value::from),
    ];
    let keys = "spec|metadata|name|labels|hard|clusters|free|members|count|at|x";
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..5).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_decoded_decodes_to_itself(value in any_json()) {
        if let Ok(first) = decode(&value.to_string()) {
            let text = first.clone().into_value().to_string();
            let (second, reported) = read(&text, Media::Json).unwrap();
            prop_assert_eq!(second, first);
            prop_assert_eq!(reported, Vec::<String>::new());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..64), text in "[{}\\[\\]:,&*!\\-a\" \n]{0,40}") {
        for media in [Media::Json, Media::Yaml] {
            for bytes in [body.as_slice(), text.as_bytes()] {
                if let Ok((value, _)) = decode_value(bytes, media) {
                    prop_assert_eq!(decode_value(value.to_string().as_bytes(), Media::Json).unwrap().0, value);
                }
            }
        }
    }
}

#[test]
fn what_is_nothing_but_brackets_is_refused_before_it_costs_anything() {
    for nested in ["[", "{\"a\":", "{a: "] {
        let body = nested.repeat(17_000);
        let refused = decode_value(body.as_bytes(), Media::Yaml).unwrap_err().to_string();
        assert!(refused.contains("too many brackets"), "{refused}");
    }
    let plain = format!("a: [{}1]", "{b: c}, ".repeat(5_000));
    assert!(decode_value(plain.as_bytes(), Media::Yaml).is_ok());
}

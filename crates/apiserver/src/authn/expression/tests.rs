use super::*;
use futures_util::FutureExt as _;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

fn compile(text: &str) -> Result<Expression, String> {
    with_deep_stack(|| Expression::compile(text, RootVariable::Claims, ExpectedType::Any)).unwrap()
}

fn claims() -> Json {
    json!({
        "sub": "alice", "n": 1, "b": true, "z": null, "groups": ["dev", "ops"],
        "https://x.io/t": "acme", "realm": {"roles": ["r"], "a-b": "c"}, "empty": "",
    })
}

fn evaluate(text: &str) -> Result<Value, String> {
    let of = Activation::claims(claims().as_object().unwrap());
    let expression = compile(text)?;
    with_deep_stack(|| expression.evaluate(&of)).unwrap()
}

/// What cel-go answers over the same claims.
#[test]
fn expressions_answer_as_in_kubernetes() {
    for (text, want) in [
        ("claims.sub", json!("alice")),
        ("'p:' + claims.sub", json!("p:alice")),
        ("claims.groups.map(g, 'p:' + g)", json!(["p:dev", "p:ops"])),
        ("claims.groups.filter(g, g.startsWith('o'))", json!(["ops"])),
        ("claims.groups.exists(g, g == 'dev')", json!(true)),
        ("claims.groups.all(g, g.size() == 3)", json!(true)),
        ("claims.groups.exists_one(g, g == 'dev')", json!(true)),
        ("'dev' in claims.groups && !('x' in claims)", json!(true)),
        ("has(claims.realm.roles) ? claims.realm.roles : []", json!(["r"])),
        ("claims.?missing.orValue('none')", json!("none")),
        ("claims.?realm.?roles[0].orValue('')", json!("r")),
        ("claims[?'missing'].hasValue()", json!(false)),
        ("claims.realm.a__dash__b", json!("c")),
        ("claims['https://x.io/t']", json!("acme")),
        ("claims.n == 1 && claims.n < 2", json!(true)),
        ("claims.n == 'x'", json!(false)),
        ("claims.missing == 1 || claims.b", json!(true)),
        ("claims.sub.matches('^[a-z]+$')", json!(true)),
        ("claims.sub.upperAscii().substring(0, 2).lowerAscii()", json!("al")),
        ("claims.sub.split('i').join('-') + claims.sub.replace('a', 'b')", json!("al-ceblice")),
        ("claims.?sub.roles.orValue('none')", json!("none")),
        ("claims.?z.?x.hasValue()", json!(false)),
        ("claims.?groups[5].hasValue()", json!(false)),
        ("claims.?groups[1].orValue('')", json!("ops")),
        ("has(claims.sub.x)", json!(false)),
        ("claims.z == null", json!(true)),
        ("claims.groups + ['x']", json!(["dev", "ops", "x"])),
    ] {
        let got = evaluate(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let want = value(&want, &mut check::Size::default());
        assert_eq!(got, want, "{text}");
    }
}

#[test]
fn what_fails_in_kubernetes_fails_here() {
    for text in [
        "claims.missing",
        "claims.groups[5]",
        "claims.z ? 'a' : 'b'",
        "claims.n + 1",
        "claims.sub + claims.n",
        "has(claims.missing.x)",
        "claims.sub < 1",
        "claims.n.startsWith('1')",
        "claims.?groups.roles.orValue('')",
        "has(claims.groups.x)",
    ] {
        compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(evaluate(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_not_understood_or_has_no_answer_here_is_refused_at_once() {
    let long = format!("'{}'", "x".repeat(TEXT_LIMIT));
    let deep_lists = format!("{}1{}", "[".repeat(33), "]".repeat(33));
    let very_deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
    let chain = vec!["'a'"; 40].join(" + ");
    let three = "claims.groups.all(a, claims.groups.all(b, claims.groups.all(c, true)))";
    for (text, want) in [
        ("claims.", "compilation failed"),
        ("other.sub", "undeclared reference to 'other'"),
        ("sets.contains(claims.groups, ['a'])", "the function \"sets.contains\" is not supported here"),
        ("url(claims.sub).getHost()", "the function \"url\" is not supported here"),
        ("string(claims.n)", "the function \"string\" is not supported here"),
        ("claims.sub.find('a')", "the function \"find\" is not supported here"),
        ("claims.sub.matches(claims.sub)", "a regular expression that is no literal"),
        ("claims.sub.matches('\\\\pL')", "is not supported here in a regular expression"),
        ("'a'.startsWith(1)", "found no matching overload for 'startsWith' applied to '(string, int)'"),
        ("'a' == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("['a', 1]", "the elements of a list are of different types"),
        ("true ? 'a' : 1", "found no matching overload"),
        ("'a'.b", "does not support field selection"),
        ("1 - 1", "arithmetic"),
        ("b'a'", "bytes"),
        (three, "more than 2 comprehensions"),
        (&long, "may not be more than 4096 bytes"),
        (&deep_lists, "nested more than 32 deep"),
        (&very_deep, ""),
        (&chain, "nested more than 32 deep"),
    ] {
        let error = compile(text).expect_err(text);
        assert!(error.contains(want), "{text}: {error}");
    }
    let user = |text: &str| {
        with_deep_stack(|| Expression::compile(text, RootVariable::User, ExpectedType::Bool)).unwrap()
    };
    for text in ["user.name == 'a'", "user.username", "user.groups.all(g, g)", "claims.sub == 'a'"] {
        assert!(user(text).is_err(), "{text}");
    }
    user("!user.username.startsWith('system:') && user.groups.all(g, g != 'x') && has(user.extra.a)")
        .unwrap();
    let rule = with_deep_stack(|| Expression::compile("claims.b", RootVariable::Claims, ExpectedType::Bool))
        .unwrap();
    assert_eq!(rule.unwrap_err(), "must evaluate to bool");
}

#[test]
fn the_deepest_expression_that_is_let_in_has_room_on_the_stack() {
    for text in [
        format!("{}1{}", "[".repeat(31), "]".repeat(31)),
        vec!["'a'"; 32].join(" + "),
        format!("{}claims.b{}", "[".repeat(14), "]".repeat(14)),
        format!("{}1", "true ? 1 : ".repeat(15)),
    ] {
        evaluate(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn a_token_of_too_many_values_costs_nothing() {
    let claims = json!({ "groups": vec!["g"; 1000] });
    let of = Activation::claims(claims.as_object().unwrap());
    let nested = compile("claims.groups.all(a, claims.groups.all(b, a == b))").unwrap();
    let error = with_deep_stack(|| nested.evaluate(&of)).unwrap().unwrap_err();
    assert!(error.contains("too many values"), "{error}");
    let plain = compile("claims.groups.all(a, a == 'g')").unwrap();
    assert_eq!(with_deep_stack(|| plain.evaluate(&of)).unwrap(), Ok(Value::Bool(true)));
}

#[test]
fn how_names_begin_is_seen_where_it_stands_in_the_expression() {
    for (text, want) in [
        ("'corp:' + claims.sub", Some("corp:")),
        ("('corp:' + claims.sub) + '@x'", Some("corp:")),
        ("claims.groups.map(g, 'corp:' + g)", Some("corp:")),
        ("has(claims.groups) ? claims.groups.map(g, 'corp:' + g) : []", Some("corp:")),
        ("claims.?groups.orValue([]).map(g, 'corp:' + g)", Some("corp:")),
        ("claims.groups.map(g, 'corp:' + g).filter(g, g != 'corp:x')", Some("corp:")),
        ("['corp:a', 'corp:b'] + claims.groups.map(g, 'corp:' + g)", Some("corp:")),
        ("claims.b ? 'corp:a' : 'cat:b'", Some("c")),
        ("claims.b ? 'corp:' + claims.sub : claims.sub", None),
        ("claims.sub + ':corp'", None),
        ("claims.groups.map(g, g)", None),
        ("claims.groups", None),
        ("('corp:' + claims.sub).replace('c', 'd')", None),
    ] {
        let prefix = compile(text).unwrap().prefix().clone();
        let want = want.map_or(TextPrefix::Unknown, |prefix| TextPrefix::Known(prefix.to_owned()));
        assert_eq!(prefix, want, "{text}");
    }
}

#[test]
fn texts_are_one_or_many_and_never_empty() {
    let of = |text: &str| texts(&evaluate(text).unwrap()).map_err(str::to_owned);
    assert_eq!(of("claims.sub"), Ok(vec!["alice".to_owned()]));
    assert_eq!(of("['a', '', 'b']"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    for nothing in ["''", "[]", "null", "claims.z", "['']"] {
        assert_eq!(of(nothing), Ok(Vec::new()), "{nothing}");
    }
    for wrong in ["1", "[1]", "claims.realm", "true"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn an_issuer_of_very_many_tokens_leaves_room_for_those_of_others() {
    let [busy, other] = [(); 2].map(|()| Arc::new(Semaphore::new(ISSUER_EVALUATIONS_MAX)));
    let released = Arc::new(AtomicBool::new(false));
    let hold = || {
        let released = Arc::clone(&released);
        move || {
            while !released.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let mut waiting: Vec<_> =
        (0..2 * CONCURRENT_EVALUATIONS_MAX).map(|_| Box::pin(with_deep_stack_async(&busy, hold()))).collect();
    assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
    assert_eq!(with_deep_stack_async(&other, || 7).await, Ok(7));
    released.store(true, Ordering::SeqCst);
    for one in waiting {
        assert_eq!(one.await, Ok(()));
    }
}

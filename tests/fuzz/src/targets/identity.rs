use crate::{Outcome, ensure, outcome, shape};
use apiserver::fuzzing;
use serde_json::{Map, Value, json};

/// An issuer that looks at claims in every way there is.
const ISSUER: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://i", audiences: [a]}
  claimValidationRules:
  - expression: "claims.?level.orValue(1) < 3 || 'x' in claims"
  claimMappings:
    username: {expression: "'i:' + (has(claims.sub) ? claims.sub.lowerAscii() : claims.name)"}
    groups: {expression: "claims.?groups.orValue([]).filter(g, g != '').map(g, 'i:' + g)"}
    uid: {expression: "claims.?realm.?roles[0].orValue('none')"}
    extra:
    - {key: x.io/a, valueExpression: "claims.?a.orValue([])"}
    - {key: x.io/b, valueExpression: "claims.sub.split('-').join('_').replace('a', 'b').substring(1)"}
  userValidationRules:
  - {expression: "user.groups.all(g, !g.matches('^i:[0-9]+$')) && user.uid.size() < 100"}
"#;

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(object) = value { object } else { Map::new() }
}

/// A file of issuers, and what it makes of two tokens.
pub(super) fn file(input: &[u8]) -> Result<Outcome, String> {
    let tokens = [
        json!({"sub": "alice", "groups": ["dev"], "email": "a@x.io", "email_verified": true, "n": 1}),
        json!({"sub": 1, "groups": {"a": []}, "realm": {"roles": [null]}}),
    ];
    summed(fuzzing::claims(input, &tokens.map(object)))
}

/// Claims of a token.
pub(super) fn claims(input: &[u8]) -> Result<Outcome, String> {
    let Ok(claims) = serde_json::from_slice::<Map<String, Value>>(input) else { return Ok(outcome(0)) };
    summed(fuzzing::claims(ISSUER.as_bytes(), &[claims]))
}

fn summed(callers: Result<Vec<Result<apiserver::Caller, String>>, String>) -> Result<Outcome, String> {
    let callers = match callers {
        Ok(callers) => callers,
        Err(why) => return Ok(shape(&why)),
    };
    let mut seen = Vec::new();
    for caller in callers {
        seen.push(match caller {
            Ok(caller) => {
                let own = caller.groups.iter().filter(|group| group.as_str() != "system:authenticated");
                let names: Vec<&String> = std::iter::once(&caller.name).chain(own).collect();
                ensure(!names.iter().any(|name| name.starts_with("system:")), || format!("{caller:?}"))?;
                outcome((names.len().min(4), caller.extra.len().min(4)))
            }
            Err(why) => shape(&why),
        });
    }
    Ok(outcome(seen))
}

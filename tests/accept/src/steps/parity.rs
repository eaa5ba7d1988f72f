use anyhow::{Context, Result, ensure};
use instance::identity::{self, AUTHORITY};
use instance::kubeconfig::{Kubeconfig, token};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::pki::Pki;
use instance::supervisor::Spec;
use instance::token::TokenIssuer;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use terminal::say;

const TAKEN_OVER: Duration = Duration::from_mins(4);

/// An issuer whose keys are served by a process of its own, and whose tokens are signed here.
struct SmallIssuer {
    name: &'static str,
    tokens: TokenIssuer,
}

impl SmallIssuer {
    fn start(instance: &Instance, name: &'static str) -> Result<Self> {
        let dir = instance.layout.path(&format!("home/{name}"));
        std::fs::create_dir_all(&dir)?;
        let port = instance.supervisor.port(instance.layout.first_port, name, name)?;
        let tokens = TokenIssuer::open(&dir, format!("https://127.0.0.1:{port}"))?;
        let pki = Pki::open(&instance.layout.path("pki"))?;
        let config = json!({
            "issuer": tokens.url(), "listen": format!("127.0.0.1:{port}"),
            "certificate": pki.cert(identity::NAME), "key": pki.key(identity::NAME),
            "signingKey": tokens.key(), "keyID": tokens.key_id(), "lifetimeSeconds": 300,
        });
        let file = dir.join("config.json");
        std::fs::write(&file, config.to_string())?;
        let args = ["serve".to_owned(), file.to_string_lossy().into_owned()];
        let spec = Spec::new(name, &layout::bin().join(identity::NAME)).args(args);
        instance.supervisor.start(spec)?;
        Ok(Self { name, tokens })
    }
}

/// A token, and whether it must authenticate.
struct TokenCase {
    what: &'static str,
    token: String,
    is_good: bool,
}

/// The same file and the same tokens are given to kube-apiserver and to business-api: both take the bearers for the same.
pub(super) fn parity(instance: &Instance) -> Result<()> {
    let Some(provider) = &instance.provider else {
        say::skipped("the identity provider's program is not there: nobody can log in");
        return Ok(());
    };
    let (claims, expressions) =
        (SmallIssuer::start(instance, "issuer-1")?, SmallIssuer::start(instance, "issuer-2")?);
    let file = provider.authentication_config();
    let before = std::fs::read_to_string(&file)?;
    let authority = std::fs::read_to_string(Pki::open(&instance.layout.path("pki"))?.cert(AUTHORITY))?;
    let mut config: Value = serde_yaml_ng::from_str(&before)?;
    let all = config.get_mut("jwt").and_then(Value::as_array_mut).context("no issuers")?;
    all.push(by_claims(claims.tokens.url(), &authority));
    all.push(by_expressions(expressions.tokens.url(), &authority));
    write(&file, &serde_yaml_ng::to_string(&config)?)?;
    let both = BothServers::of(instance)?;
    let outcome = compare(&both, &tries(&claims.tokens, &expressions.tokens)?);
    write(&file, &before)?;
    outcome?;
    let last = expressions.tokens.sign(&said(&expressions.tokens, &json!({"sub": "Eve"}))?)?;
    both.until(Option::is_none, &last)?;
    for issuer in [&claims, &expressions] {
        instance.supervisor.pause(issuer.name)?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    let next = file.with_extension("next");
    std::fs::write(&next, text)?;
    Ok(std::fs::rename(next, file)?)
}

fn by_claims(url: &str, authority: &str) -> Value {
    json!({
        "issuer": {
            "url": url, "audiences": ["one", "two"], "audienceMatchPolicy": "MatchAny",
            "certificateAuthority": authority,
        },
        "claimValidationRules": [{"claim": "hd", "requiredValue": "corp.example.org"}],
        "claimMappings": {
            "username": {"claim": "email", "prefix": "mail:"},
            "groups": {"claim": "roles", "prefix": "mail:"},
            "uid": {"claim": "oid"},
        },
    })
}

fn by_expressions(url: &str, authority: &str) -> Value {
    json!({
        "issuer": {"url": url, "audiences": ["one"], "certificateAuthority": authority},
        "claimValidationRules": [
            {"expression": "claims.?level.orValue(1) < 3", "message": "the level is too high"},
            {"expression": "claims.exp > claims.iat"},
        ],
        "claimMappings": {
            "username": {"expression": "'cel:' + claims.sub.lowerAscii()"},
            "groups": {
                "expression": "claims.?realm.roles.orValue([]).filter(r, !r.startsWith('x')).map(r, 'cel:' + r)",
            },
            "uid": {"expression": "has(claims.oid) ? claims.oid : 'none'"},
            "extra": [
                {"key": "example.org/team", "valueExpression": "claims.?team.orValue([])"},
                {"key": "example.org/first", "valueExpression": "claims.?realm.?roles[0].orValue('')"},
                {"key": "example.org/site", "valueExpression": "claims[?'https://example.org/site'].orValue('')"},
            ],
        },
        "userValidationRules": [
            {"expression": "user.groups.all(g, g != 'cel:banned') && !user.username.matches('^cel:[0-9]+$')"},
        ],
    })
}

/// Claims of a good token of an issuer, with these.
fn said(issuer: &TokenIssuer, more: &Value) -> Result<Value> {
    let now = SystemTime::UNIX_EPOCH.elapsed()?.as_secs();
    let mut claims = json!({"iss": issuer.url(), "aud": ["one"], "iat": now, "exp": now + 600});
    let all: &mut Map<String, Value> = claims.as_object_mut().context("no claims")?;
    for (key, value) in more.as_object().into_iter().flatten() {
        // What is null here is not said.
        if value.is_null() {
            all.remove(key);
        } else {
            all.insert(key.clone(), value.clone());
        }
    }
    Ok(claims)
}

fn tries(claims: &TokenIssuer, expressions: &TokenIssuer) -> Result<Vec<TokenCase>> {
    let mut all = Vec::new();
    let mail = json!({"email": "a@corp.example.org", "hd": "corp.example.org", "oid": "7"});
    let good = |what, more: Value| (what, more, true);
    let bad = |what, more: Value| (what, more, false);
    let past = SystemTime::UNIX_EPOCH.elapsed()?.as_secs() - 5;
    for (what, more, is_good) in [
        good("an address", json!({})),
        good("a verified address and roles", json!({"email_verified": true, "roles": ["dev", "ops"]})),
        good("one role", json!({"roles": "dev"})),
        good("an empty list of roles", json!({"roles": []})),
        good("the other audience", json!({"aud": "two"})),
        good("an id of its own", json!({"jti": "abc"})),
        good("claims that nobody asked for", json!({"sub": "x", "groups": ["system:masters"]})),
        bad("a subject that is a number", json!({"sub": 1})),
        good("its end in quotes", json!({"exp": (past + 600).to_string()})),
        bad("an address that is not verified", json!({"email_verified": false})),
        bad("a verified address in words", json!({"email_verified": "true"})),
        bad("no address", json!({"email": null})),
        bad("an address that is a number", json!({"email": 7})),
        bad("roles that are numbers", json!({"roles": [1]})),
        bad("roles that are an object", json!({"roles": {"a": "b"}})),
        bad("no uid", json!({"oid": null})),
        bad("another domain", json!({"hd": "other.example.org"})),
        bad("no domain", json!({"hd": null})),
        bad("a third audience", json!({"aud": ["three"]})),
        bad("no audience", json!({"aud": null})),
        bad("its end behind it", json!({"exp": past})),
        bad("no end", json!({"exp": null})),
    ] {
        let mut merged = mail.clone();
        let object = merged.as_object_mut().context("no claims")?;
        object
            .extend(more.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        all.push(TokenCase { what, token: claims.sign(&said(claims, &merged)?)?, is_good });
    }
    for (what, more, is_good) in [
        good("a name in capitals", json!({"sub": "Alice"})),
        good("nested roles", json!({"sub": "a", "realm": {"roles": ["dev", "xray", "ops"]}})),
        good("a list for an extra value", json!({"sub": "a", "team": ["one", "", "two"]})),
        good("a text for an extra value", json!({"sub": "a", "team": "one", "oid": "7"})),
        good("a claim whose name is an address", json!({"sub": "a", "https://example.org/site": "x"})),
        good("a low level", json!({"sub": "a", "level": 2.5})),
        bad("a high level", json!({"sub": "a", "level": 3})),
        bad("a level in words", json!({"sub": "a", "level": "one"})),
        bad("no name", json!({})),
        bad("a name that is a number", json!({"sub": 7})),
        bad("a name of digits", json!({"sub": "42"})),
        bad("roles that are no list", json!({"sub": "a", "realm": {"roles": 1}})),
        bad("a role that is a number", json!({"sub": "a", "realm": {"roles": [1]}})),
        good("a realm that is a text", json!({"sub": "a", "realm": "x"})),
        good("a realm that is null", json!({"sub": "a", "realm": null, "oid": "7"})),
        bad("a realm that is a list", json!({"sub": "a", "realm": ["x"]})),
        bad("a banned role", json!({"sub": "a", "realm": {"roles": ["banned"]}})),
        bad("an extra value that is a number", json!({"sub": "a", "team": 7})),
        bad("an id that is a list", json!({"sub": "a", "oid": []})),
    ] {
        all.push(TokenCase { what, token: expressions.sign(&said(expressions, &more)?)?, is_good });
    }
    let forged = claims.sign(&said(expressions, &json!({"sub": "a"}))?)?;
    all.push(TokenCase { what: "another issuer's signature", token: forged, is_good: false });
    Ok(all)
}

/// Both servers: kube-apiserver and business-api.
struct BothServers<'a> {
    instance: &'a Instance,
    file: PathBuf,
    doors: [(String, PathBuf); 2],
}

impl<'a> BothServers<'a> {
    fn of(instance: &'a Instance) -> Result<Self> {
        let api = instance.apis.first().context("no replica")?;
        let pki = Pki::open(&instance.layout.path("pki"))?;
        let host = instance.layout.path("clusters").join(HOST_CLUSTER).join("pki/ca.crt");
        let config = instance.kubectl.json(&["config", "view"])?;
        let server =
            config.pointer("/clusters/0/cluster/server").and_then(Value::as_str).context("no server")?;
        let direct = format!("https://{}:{}", api.host, api.port);
        let doors = [(server.to_owned(), host), (direct, pki.cert(AUTHORITY))];
        Ok(Self { instance, file: instance.layout.path("home/parity.kubeconfig"), doors })
    }

    fn kubectl(&self, bearer: &str) -> Result<Kubectl> {
        let names = ["kubernetes", "direct"];
        let contexts = names.iter().zip(&self.doors);
        let user = token(bearer);
        let mut config = Kubeconfig::default();
        for (name, (server, authority)) in contexts {
            config = config.context(name, server, authority, &user)?;
        }
        config.write(&self.file)?;
        Ok(self.instance.kubectl.with_kubeconfig(&self.file))
    }

    /// Whom each takes the bearer of a token for: kube-apiserver, then business-api.
    fn ask(&self, bearer: &str) -> Result<[Option<Value>; 2]> {
        let kubectl = self.kubectl(bearer)?;
        let through: &[&str] = &["auth", "whoami", "-o", "json"];
        let direct: &[&str] = &["get", "--raw", "/whoami", "--context=direct"];
        let ask = |args: &[&str]| -> Result<Option<Value>> {
            let output = kubectl.output(args, None)?;
            let complaint = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                let refused = complaint.contains("nauthorized") || complaint.contains("must be logged in");
                ensure!(refused, "{}", complaint.trim());
                return Ok(None);
            }
            let review: Value = serde_json::from_slice(&output.stdout)?;
            let mut user = review.pointer("/status/userInfo").cloned().context("a review of nobody")?;
            if let Some(groups) = user.get_mut("groups").and_then(Value::as_array_mut) {
                groups.sort_by_key(ToString::to_string);
            }
            Ok(Some(user))
        };
        Ok([ask(through)?, ask(direct)?])
    }

    /// Waits until both answer so.
    fn until(&self, is: impl Fn(&Option<Value>) -> bool, bearer: &str) -> Result<()> {
        wait::until("both servers have taken the file over", TAKEN_OVER, || {
            let answers = self.ask(bearer)?;
            Ok(if answers.iter().all(&is) {
                Progress::Done(())
            } else {
                Progress::Pending(format!("{answers:?}"))
            })
        })
    }
}

fn compare(both: &BothServers<'_>, tries: &[TokenCase]) -> Result<()> {
    for good in tries.iter().filter(|one| one.is_good) {
        both.until(Option::is_some, &good.token).with_context(|| good.what.to_owned())?;
    }
    let mut different = Vec::new();
    for one in tries {
        let [through, direct] = both.ask(&one.token)?;
        if through != direct || through.is_some() != one.is_good {
            different.push(format!("{}: {through:?} and {direct:?}", one.what));
        }
    }
    ensure!(different.is_empty(), "kube-apiserver and business-api differ:\n{}", different.join("\n"));
    Ok(())
}

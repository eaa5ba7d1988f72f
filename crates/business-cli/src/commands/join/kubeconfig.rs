//! Kubeconfigs in the Secret of a cluster.

use super::text;
use crate::failure::Failure;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Scheme of a `proxy-url` that means the tunnel.
pub(crate) const TUNNEL_SCHEME: &str = "tunnel://";

/// The text under a key of a Secret.
pub(crate) fn in_secret(secret: &Value, key: &str) -> Result<Option<String>, Failure> {
    let encoded = text(secret, &format!("/data/{key}"));
    let unreadable = |why: String| Failure::Other(format!("the kept {key} cannot be read: {why}"));
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    Ok((!text.is_empty()).then_some(text))
}

/// A field of the kubeconfig's current cluster.
pub(crate) fn cluster_field(kubeconfig: &str, field: &str) -> Result<Option<String>, Failure> {
    let kubeconfig = parse(kubeconfig)?;
    let cluster = entry(&kubeconfig, "clusters", current(&kubeconfig, "cluster"));
    let found = cluster.map(|cluster| text(cluster, &format!("/cluster/{field}")).to_owned());
    Ok(found.filter(|found| !found.is_empty()))
}

/// Whether the cluster is reached through the tunnel.
pub(crate) fn is_tunnelled(kubeconfig: &str) -> Result<bool, Failure> {
    Ok(cluster_field(kubeconfig, "proxy-url")?.is_some_and(|proxy| proxy.starts_with(TUNNEL_SCHEME)))
}

/// The token of its current user.
pub(crate) fn token_of(kubeconfig: &str) -> Result<Option<String>, Failure> {
    let kubeconfig = parse(kubeconfig)?;
    let found = entry(&kubeconfig, "users", current(&kubeconfig, "user"));
    Ok(found.map(|user| text(user, "/user/token").to_owned()).filter(|token| !token.is_empty()))
}

/// The kubeconfig with another token; the cluster entry stays.
pub(crate) fn with_token(kubeconfig: &str, token: &str) -> Result<String, Failure> {
    let mut kubeconfig = parse(kubeconfig)?;
    let user = current(&kubeconfig, "user").to_owned();
    let users = kubeconfig.get_mut("users").and_then(Value::as_array_mut);
    let found = users.and_then(|users| users.iter_mut().find(|entry| text(entry, "/name") == user));
    let Some(found) = found.and_then(|entry| entry.get_mut("user")) else {
        return Err(unusable("its current context has no user"));
    };
    *found = json!({ "token": token });
    meta::yaml::to_string(&kubeconfig).map_err(|error| Failure::Other(error.to_string()))
}

fn parse(kubeconfig: &str) -> Result<Value, Failure> {
    serde_yaml_ng::from_str(kubeconfig).map_err(|error| unusable(&error.to_string()))
}

/// The kubeconfig in the Secret is not the caller's, so no flag can name another one.
fn unusable(why: &str) -> Failure {
    Failure::Other(format!(
        "the kubeconfig kept in the Secret cannot be used: {why}; `kubectl business join` makes it anew"
    ))
}

/// An entry of a list, by name.
fn entry<'a>(kubeconfig: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let entries = kubeconfig.get(list).and_then(Value::as_array)?;
    entries.iter().find(|entry| text(entry, "/name") == name)
}

/// The name of the current context's `user` or `cluster`.
fn current<'a>(kubeconfig: &'a Value, what: &str) -> &'a str {
    entry(kubeconfig, "contexts", text(kubeconfig, "/current-context"))
        .map(|context| text(context, &format!("/context/{what}")))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = "
current-context: east
clusters:
- name: east
  cluster: {server: 'https://east.tunnel:443', proxy-url: 'tunnel://east'}
contexts:
- name: east
  context: {cluster: east, user: business-member}
users:
- name: other
  user: {token: other}
- name: business-member
  user: {token: old, client-key-data: x}
";

    #[test]
    fn only_the_token_of_the_user_changes() {
        assert_eq!(token_of(KEPT).unwrap().as_deref(), Some("old"));
        let new = with_token(KEPT, "new").unwrap();
        assert_eq!(token_of(&new).unwrap().as_deref(), Some("new"));
        let (mut before, after) = (parse(KEPT).unwrap(), parse(&new).unwrap());
        before["users"][1]["user"] = json!({"token": "new"});
        assert_eq!(before, after);
        for wrong in ["{}", "["] {
            let why = with_token(wrong, "new").unwrap_err().to_string();
            assert!(
                why.contains("kept in the Secret") && why.contains("business join` makes it anew"),
                "{why}"
            );
        }
    }

    #[test]
    fn what_is_reached_through_the_tunnel_is_told_by_its_proxy() {
        assert!(is_tunnelled(KEPT).unwrap());
        assert!(!is_tunnelled(&KEPT.replace("tunnel://", "https://")).unwrap());
        assert!(!is_tunnelled("{}").unwrap());
    }
}

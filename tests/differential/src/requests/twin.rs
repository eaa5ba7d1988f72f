//! The custom resources beside our kinds.

use super::kind;
use super::target::TargetKind;
use crate::custom::json_schema;
use anyhow::{Result, bail};
use bytes::Bytes;
use http::Method;
use kit::{Connection, Endpoint};
use meta::schema::{Schema, Type};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Group of the projects' twin.
const MIRROR: &str = "mirror.example.com";
const SERVED: Duration = Duration::from_mins(3);

/// A worker's namespace.
pub(crate) fn namespace(worker: u64) -> String {
    format!("requests-{worker}")
}

/// Makes the twins and the workers' namespaces, and waits until they are served.
pub(crate) async fn install(kube: &Endpoint, workers: u64, quiet: bool) -> Result<Vec<TargetKind>> {
    let mut connection = kube.connect().await?;
    for worker in 0..workers {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(worker)}});
        connection.ensure("/api/v1/namespaces", &namespace).await?;
    }
    let mut schema = properties(&kind::schema());
    schema["spec"]["properties"]["size"]["minimum"] = json!(0);
    let mut targets = vec![TargetKind {
        plural: kind::PLURAL,
        kind: "Item",
        groups: [kind::GROUP, kind::GROUP],
        namespaced: true,
        deletes: true,
        collected: !quiet,
        spec: schema["spec"].clone(),
    }];
    let names = json!({"plural": kind::PLURAL, "singular": "item", "kind": "Item", "listKind": "ItemList",
        "shortNames": ["it"], "categories": ["all"]});
    define(&mut connection, kind::GROUP, "Namespaced", &names, &schema, &kind::printer_columns()).await?;
    if quiet {
        let mut schema = properties(&business_types::project::schema());
        schema["spec"]["properties"]["finalizers"]["default"] = json!(["project"]);
        let names = json!({"plural": "projects", "singular": "project", "kind": "Project", "listKind": "ProjectList",
            "shortNames": ["prj"]});
        define(&mut connection, MIRROR, "Cluster", &names, &schema, &json!([])).await?;
        let mut spec = schema["spec"].clone();
        // What our rules for the kind look at differs on purpose.
        for rule in ["finalizers", "parentProjectName", "clusters", "access", "template"] {
            spec["properties"].as_object_mut().and_then(|map| map.remove(rule));
        }
        targets.push(TargetKind {
            plural: "projects",
            kind: "Project",
            groups: [business_types::names::GROUP, MIRROR],
            namespaced: false,
            deletes: false,
            collected: false,
            spec,
        });
    }
    for target in &targets {
        sweep(&mut connection, target).await?;
    }
    Ok(targets)
}

/// Removes what a run that was broken off has left of the twin.
async fn sweep(connection: &mut Connection, target: &TargetKind) -> Result<()> {
    let [_, group] = target.groups;
    let all =
        connection.json(Method::GET, &format!("/apis/{group}/v1/{}", target.plural), &Value::Null).await?;
    for object in all["items"].as_array().into_iter().flatten() {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let namespace =
            if target.namespaced { format!("namespaces/{}/", text("namespace")) } else { String::new() };
        let path = format!("/apis/{group}/v1/{namespace}{}/{}", target.plural, text("name"));
        let free = Bytes::from_static(br#"{"metadata":{"finalizers":null}}"#);
        connection.call(Method::PATCH, &path, free).await?;
        connection.call(Method::DELETE, &path, Bytes::new()).await?;
    }
    Ok(())
}

/// `spec` and `status` as JSON schemas.
fn properties(schema: &Schema) -> Value {
    let Type::Struct { fields, .. } = &schema.ty else { return Value::Null };
    let own = ["spec", "status"];
    own.iter()
        .filter_map(|name| Some(((*name).to_owned(), json_schema(&fields.get(name)?.schema))))
        .collect::<Map<String, Value>>()
        .into()
}

async fn define(
    connection: &mut Connection,
    group: &str,
    scope: &str,
    names: &Value,
    properties: &Value,
    columns: &Value,
) -> Result<()> {
    let plural = names["plural"].as_str().unwrap_or_default();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope, "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}],
        },
    });
    connection.ensure("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let path = format!("/apis/{group}/v1/{plural}");
    let deadline = Instant::now() + SERVED;
    while !connection.call(Method::GET, &path, Bytes::new()).await?.0.is_success() {
        if Instant::now() > deadline {
            bail!("{plural}.{group} is not served");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

//! Reads etcd through its JSON gateway, which every member serves beside gRPC: one range in pages, at one revision.

use super::{RECORDS_MAX, Read};
use crate::config::ImportSource;
use crate::import::record::SourceRecord;
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use kube::Client;
use kube::config::Kubeconfig;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// Pairs a page.
const PAGE: usize = 200;
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Page {
    header: Header,
    kvs: Vec<Pair>,
    more: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Header {
    revision: String,
}

/// Keys and values are base64.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pair {
    key: String,
    value: String,
}

/// Reads everything below the prefix from the first endpoint that answers.
pub async fn read(source: &ImportSource, prefix: &str) -> Result<Vec<Read>> {
    let mut failures = Vec::new();
    for endpoint in &source.etcd_servers {
        let client = client(source, endpoint).await.with_context(|| format!("etcd {endpoint}"))?;
        match range(&client, prefix).await {
            Ok(records) => return Ok(records),
            Err(error) => failures.push(format!("{endpoint}: {error:#}")),
        }
    }
    bail!("no endpoint answers: {}", failures.join("; "))
}

async fn range(client: &Client, prefix: &str) -> Result<Vec<Read>> {
    let mut from = format!("{prefix}/").into_bytes();
    // The byte behind the slash: everything below the prefix, and nothing else.
    let end = BASE64_STANDARD.encode(format!("{prefix}0"));
    let (mut records, mut revision) = (Vec::new(), None);
    loop {
        let body = json!({
            "key": BASE64_STANDARD.encode(&from), "range_end": end, "limit": PAGE.to_string(),
            "revision": revision.as_deref().unwrap_or("0"),
        });
        let page: Page = call(client, &body).await?;
        ensure!(records.len() + page.kvs.len() <= RECORDS_MAX, "it has more than {RECORDS_MAX} records");
        let Some(last) = page.kvs.last() else { return Ok(records) };
        from = BASE64_STANDARD.decode(&last.key).context("a key")?;
        from.push(0);
        for Pair { key, value } in &page.kvs {
            let key = BASE64_STANDARD.decode(key).context("a key")?;
            let value = BASE64_STANDARD.decode(value).context("a value")?;
            records.push(SourceRecord::of_pair(&key, &value, prefix));
        }
        if !page.more {
            return Ok(records);
        }
        // All pages are of the same state, whatever is written meanwhile.
        revision.get_or_insert(page.header.revision);
    }
}

async fn call(client: &Client, body: &serde_json::Value) -> Result<Page> {
    let request = Request::post("/v3/kv/range")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())?;
    tokio::time::timeout(DEADLINE, client.request(request))
        .await
        .context("no answer in time")?
        .map_err(Into::into)
}

/// The client of Kubernetes is one of HTTPS with certificates, too.
async fn client(source: &ImportSource, endpoint: &str) -> Result<Client> {
    let name = "etcd";
    let cluster = json!({ "server": endpoint, "certificate-authority": source.etcd_cafile });
    let user = json!({ "client-certificate": source.etcd_certfile, "client-key": source.etcd_keyfile });
    let file: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{ "name": name, "cluster": cluster }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        "current-context": name,
    }))?;
    let config = kubeconfig::config(&file, None).await.context("its certificates")?;
    Ok(Client::try_from(config)?)
}

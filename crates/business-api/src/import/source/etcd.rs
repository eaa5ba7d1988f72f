//! Reads etcd through its JSON gateway, which every member serves beside gRPC: one range in pages, at one revision.

use super::{RECORDS_MAX, RecordResult};
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

/// The most key-value pairs of a response.
const PAGE_LIMIT: usize = 200;
/// The time limit of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RangeResponse {
    header: ResponseHeader,
    kvs: Vec<KeyValue>,
    more: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseHeader {
    revision: String,
}

/// Keys and values are base64.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyValue {
    key: String,
    value: String,
}

/// Reads everything below the prefix from the first endpoint that answers.
pub async fn read(source: &ImportSource, prefix: &str) -> Result<Vec<RecordResult>> {
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

async fn range(client: &Client, prefix: &str) -> Result<Vec<RecordResult>> {
    let mut from = format!("{prefix}/").into_bytes();
    // `0` is the byte after `/`: the range has everything below the prefix, and nothing else.
    let end = BASE64_STANDARD.encode(format!("{prefix}0"));
    let (mut records, mut revision) = (Vec::new(), None);
    loop {
        let body = json!({
            "key": BASE64_STANDARD.encode(&from), "range_end": end, "limit": PAGE_LIMIT.to_string(),
            "revision": revision.as_deref().unwrap_or("0"),
        });
        let page: RangeResponse = call(client, &body).await?;
        ensure!(records.len() + page.kvs.len() <= RECORDS_MAX, "it has more than {RECORDS_MAX} records");
        let Some(last) = page.kvs.last() else { return Ok(records) };
        from = BASE64_STANDARD.decode(&last.key).context("a key")?;
        from.push(0);
        for KeyValue { key, value } in &page.kvs {
            let key = BASE64_STANDARD.decode(key).context("a key")?;
            let value = BASE64_STANDARD.decode(value).context("a value")?;
            records.push(SourceRecord::of_key_value(&key, &value, prefix));
        }
        if !page.more {
            return Ok(records);
        }
        // All pages are read at the same revision.
        revision.get_or_insert(page.header.revision);
    }
}

async fn call(client: &Client, body: &serde_json::Value) -> Result<RangeResponse> {
    let request = Request::post("/v3/kv/range")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())?;
    tokio::time::timeout(CALL_TIMEOUT, client.request(request))
        .await
        .context("no answer in time")?
        .map_err(Into::into)
}

/// An HTTPS client with certificates. Kubernetes' client serves as one.
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

//! `Accept`: media types, quality values, and the conversions `as=Table` and `as=PartialObjectMetadata`.

use http::HeaderMap;
use http::header::ACCEPT;
use meta::status::Status;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
}

impl Media {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// What an answer shows of its objects. The text is the `apiVersion` that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Table(&'static str),
    Partial(&'static str),
    PartialList(&'static str),
}

/// A clause that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) media: Media,
    pub(crate) form: Form,
    pub(crate) pretty: bool,
}

impl Default for Accepted {
    fn default() -> Self {
        Self { media: Media::Json, form: Form::Object, pretty: false }
    }
}

pub(crate) const OFFERED: &[Media] = &[Media::Json, Media::Yaml];
/// Events have no YAML form.
pub(crate) const OFFERED_STREAM: &[Media] = &[Media::Json];
/// Clauses of an `Accept` header that are looked at.
const CLAUSES_MAX: usize = 64;

/// One clause of `Accept`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// Whether it covers `application/SUBTYPE`.
    pub(crate) fn covers(&self, subtype: &str) -> bool {
        (self.kind == "*" && self.subkind == "*")
            || (self.kind.eq_ignore_ascii_case("application")
                && (self.subkind == "*" || self.subkind.eq_ignore_ascii_case(subtype)))
    }
}

/// The clauses of the `Accept` headers, best first.
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(clause)
        .take(CLAUSES_MAX)
        .collect();
    let wildcards = |c: &Clause<'_>| u8::from(c.kind == "*") + u8::from(c.subkind == "*");
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(wildcards(a).cmp(&wildcards(b))));
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let (kind, subkind) =
        parts.next()?.split_once('/').or_else(|| (text.trim() == "*").then_some(("*", "*")))?;
    let mut quality = 1.0;
    let mut parameters = Vec::new();
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        if key.eq_ignore_ascii_case("q") {
            quality = value.parse::<f32>().ok().filter(|q| q.is_finite()).unwrap_or(1.0);
        } else {
            parameters.push((key, value));
        }
    }
    (quality > 0.0).then_some(Clause { kind: kind.trim(), subkind: subkind.trim(), quality, parameters })
}

/// The best form that is both accepted and offered.
pub(crate) fn negotiate(headers: &HeaderMap, offered: &'static [Media]) -> Result<Accepted, Status> {
    let clauses = clauses(headers);
    if clauses.is_empty() && headers.get(ACCEPT).is_none_or(|value| value.as_bytes().trim_ascii().is_empty())
    {
        return Ok(Accepted::default());
    }
    for clause in &clauses {
        for media in offered {
            let subtype = media.content_type().strip_prefix("application/").unwrap_or_default();
            if clause.covers(subtype)
                && let Some(accepted) = accept(clause, *media)
            {
                return Ok(accepted);
            }
        }
    }
    let types: Vec<&str> = offered.iter().map(|media| media.content_type()).collect();
    Err(Status::not_acceptable(&types))
}

fn accept(clause: &Clause<'_>, media: Media) -> Option<Accepted> {
    let stream_fits = clause
        .parameter("stream")
        .is_none_or(|stream| stream.is_empty() || (media == Media::Json && stream == "watch"));
    let server_version_fits =
        clause.parameter("sv").is_none_or(|version| version.is_empty() || version == "v1");
    let form = match clause.parameter("as").filter(|kind| !kind.is_empty()) {
        None => Form::Object,
        Some(kind) => convert(kind, clause.parameter("g")?, clause.parameter("v")?)?,
    };
    let pretty = clause.parameter("pretty") == Some("1");
    (stream_fits && server_version_fits).then_some(Accepted { media, form, pretty })
}

fn convert(kind: &str, group: &str, version: &str) -> Option<Form> {
    let api_version = match (group, version) {
        ("meta.k8s.io", "v1") => "meta.k8s.io/v1",
        ("meta.k8s.io", "v1beta1") => "meta.k8s.io/v1beta1",
        _ => return None,
    };
    match kind {
        "Table" => Some(Form::Table(api_version)),
        "PartialObjectMetadata" => Some(Form::Partial(api_version)),
        "PartialObjectMetadataList" => Some(Form::PartialList(api_version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())])
    }

    fn chosen(accept: &str) -> Option<(Media, Form)> {
        negotiate(&headers(accept), OFFERED).ok().map(|a| (a.media, a.form))
    }

    #[test]
    fn the_best_clause_that_is_offered_wins() {
        let json = Some((Media::Json, Form::Object));
        let yaml = Some((Media::Yaml, Form::Object));
        for (accept, want) in [
            ("", json),
            ("*/*", json),
            ("application/*", json),
            ("application/yaml", yaml),
            ("application/json;q=0.5, application/yaml;q=0.9", yaml),
            ("application/vnd.kubernetes.protobuf, application/json", json),
            ("*/*, application/yaml", yaml),
            ("application/json;as=Unknown;g=meta.k8s.io;v=v1, application/yaml", yaml),
            ("application/json;as=Table;g=other;v=v1,application/json", json),
            ("application/json;stream=watch", json),
            ("application/json;q=0", None),
            ("text/plain", None),
            ("application/cbor", None),
            ("application/json;profile=nopeer", json),
        ] {
            assert_eq!(chosen(accept), want, "{accept}");
        }
    }

    #[test]
    fn kubectl_gets_its_table_and_controllers_their_metadata() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                       application/json";
        assert_eq!(chosen(kubectl), Some((Media::Json, Form::Table("meta.k8s.io/v1"))));
        let collector = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                         application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(chosen(collector), Some((Media::Json, Form::PartialList("meta.k8s.io/v1"))));
    }

    #[test]
    fn a_refusal_names_what_is_offered() {
        let status = negotiate(&headers("text/html"), OFFERED).unwrap_err();
        assert_eq!(
            status.message,
            "only the following media types are accepted: application/json, application/yaml"
        );
        assert_eq!((status.code, status.reason.as_str()), (406, "NotAcceptable"));
        assert!(negotiate(&headers("application/yaml"), OFFERED_STREAM).is_err());
    }
}

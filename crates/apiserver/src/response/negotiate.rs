//! `Accept`: media types, quality values, and the conversions `as=Table` and `as=PartialObjectMetadata`.

use http::HeaderMap;
use http::header::ACCEPT;
use meta::status::Status;

/// The media type of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
    /// For metadata and Status only: like custom resources, objects have no protobuf form.
    Protobuf,
}

impl Media {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The end of a body.
    pub(crate) fn end(self) -> &'static [u8] {
        match self {
            Self::Json => b"\n",
            // YAML ends with a newline already.
            Self::Yaml | Self::Protobuf => b"",
        }
    }

    /// The content type of a watch. There is none in YAML.
    pub(crate) fn stream_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => "application/json",
            Self::Protobuf => PROTOBUF_STREAM,
        }
    }
}

/// What an answer shows of its objects. The text is the requested `apiVersion` of the table or metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Table(&'static str),
    Partial(&'static str),
    PartialList(&'static str),
}

/// The format that was chosen from a clause of `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedFormat {
    pub(crate) media: Media,
    pub(crate) form: Form,
    pub(crate) pretty: bool,
}

impl Default for AcceptedFormat {
    fn default() -> Self {
        Self { media: Media::Json, form: Form::Object, pretty: false }
    }
}

/// The kind of answer, which decides what formats are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// Objects and lists of them.
    Objects,
    /// Events of a watch.
    Events,
    /// A Status, in any media type.
    Failure,
    /// A document about the server.
    Document,
}

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// Best first.
const MEDIA: [Media; 3] = [Media::Json, Media::Yaml, Media::Protobuf];
/// Most clauses of `Accept` that are read.
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

/// The best format that is both accepted and offered.
pub(crate) fn negotiate(headers: &HeaderMap, response_kind: ResponseKind) -> Result<AcceptedFormat, Status> {
    let clauses = clauses(headers);
    if clauses.is_empty() && headers.get(ACCEPT).is_none_or(|value| value.as_bytes().trim_ascii().is_empty())
    {
        return Ok(AcceptedFormat::default());
    }
    let pairs = clauses.iter().flat_map(|clause| MEDIA.into_iter().map(move |media| (clause, media)));
    let accepted = pairs
        .filter(|(clause, media)| {
            clause.covers(media.content_type().strip_prefix("application/").unwrap_or_default())
        })
        .find_map(|(clause, media)| accept(clause, media, response_kind));
    match accepted {
        // A watch in YAML is refused even if a later clause could be served.
        Some(AcceptedFormat { media: Media::Yaml, .. }) if response_kind == ResponseKind::Events => {
            Err(Status::not_acceptable(&["application/json;stream=watch", PROTOBUF_STREAM]))
        }
        Some(accepted) => Ok(accepted),
        None => Err(Status::not_acceptable(&MEDIA.map(Media::content_type))),
    }
}

fn accept(clause: &Clause<'_>, media: Media, response_kind: ResponseKind) -> Option<AcceptedFormat> {
    let non_empty = |name: &str| clause.parameter(name).filter(|value| !value.is_empty());
    let stream_fits = non_empty("stream").is_none_or(|stream| media != Media::Yaml && stream == "watch");
    let is_of_objects = matches!(response_kind, ResponseKind::Objects | ResponseKind::Events);
    let server_version_fits = non_empty("sv").is_none_or(|version| is_of_objects && version == "v1");
    let converts = ["as", "g", "v"].iter().any(|name| clause.parameter(name).is_some());
    let form = match (converts, response_kind) {
        (false, _) => Form::Object,
        (true, ResponseKind::Objects | ResponseKind::Events) => {
            convert(non_empty("as")?, non_empty("g")?, non_empty("v")?)?
        }
        (true, ResponseKind::Failure | ResponseKind::Document) => return None,
    };
    let is_available = match (media, response_kind) {
        (Media::Json | Media::Yaml, _) | (Media::Protobuf, ResponseKind::Failure) => true,
        (Media::Protobuf, ResponseKind::Objects | ResponseKind::Events) => {
            matches!(form, Form::Partial(_) | Form::PartialList(_))
        }
        (Media::Protobuf, ResponseKind::Document) => false,
    };
    let pretty = clause.parameter("pretty") == Some("1");
    (stream_fits && server_version_fits && is_available).then_some(AcceptedFormat { media, form, pretty })
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

    fn chosen_of(accept: &str, response_kind: ResponseKind) -> Option<(Media, Form)> {
        negotiate(&headers(accept), response_kind).ok().map(|a| (a.media, a.form))
    }

    fn chosen(accept: &str) -> Option<(Media, Form)> {
        chosen_of(accept, ResponseKind::Objects)
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
            ("application/vnd.kubernetes.protobuf", None),
            ("*/*, application/yaml", yaml),
            ("application/json;as=Unknown;g=meta.k8s.io;v=v1, application/yaml", yaml),
            ("application/json;as=Table;g=other;v=v1,application/json", json),
            ("application/json;g=meta.k8s.io, application/yaml", yaml),
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
        assert_eq!(chosen(collector), Some((Media::Protobuf, Form::PartialList("meta.k8s.io/v1"))));
    }

    #[test]
    fn protobuf_is_had_for_metadata_and_for_failures() {
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let old = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1";
        let stream =
            "application/vnd.kubernetes.protobuf;stream=watch;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1, application/yaml";
        let yaml = Some((Media::Yaml, Form::Object));
        let as_metadata = Some((Media::Protobuf, Form::Partial("meta.k8s.io/v1")));
        for (accept, response_kind, want) in [
            (partial, ResponseKind::Objects, as_metadata),
            (partial, ResponseKind::Events, as_metadata),
            (partial, ResponseKind::Failure, None),
            (partial, ResponseKind::Document, None),
            (old, ResponseKind::Objects, Some((Media::Protobuf, Form::Partial("meta.k8s.io/v1beta1")))),
            (stream, ResponseKind::Events, as_metadata),
            (table, ResponseKind::Objects, yaml),
            (table, ResponseKind::Events, None),
            (PROTOBUF, ResponseKind::Objects, None),
            (PROTOBUF, ResponseKind::Events, None),
            (PROTOBUF, ResponseKind::Failure, Some((Media::Protobuf, Form::Object))),
            (PROTOBUF, ResponseKind::Document, None),
            (PROTOBUF_STREAM, ResponseKind::Failure, Some((Media::Protobuf, Form::Object))),
            ("application/vnd.kubernetes.protobuf;sv=v1, application/yaml", ResponseKind::Failure, yaml),
            ("application/json;as=Table;g=meta.k8s.io;v=v1, application/yaml", ResponseKind::Failure, yaml),
        ] {
            assert_eq!(chosen_of(accept, response_kind), want, "{accept} of {response_kind:?}");
        }
    }

    #[test]
    fn a_refusal_names_what_is_offered() {
        let refused = |accept, response_kind| negotiate(&headers(accept), response_kind).unwrap_err();
        let status = refused("text/html", ResponseKind::Objects);
        assert_eq!(
            status.message,
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf"
        );
        assert_eq!((status.code, status.reason.as_str()), (406, "NotAcceptable"));
        assert_eq!(refused("text/html", ResponseKind::Events), status);
        assert_eq!(
            refused("application/yaml, application/json", ResponseKind::Events).message,
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch"
        );
    }
}

/// A field of a namespace's project that a template refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectField {
    /// `metadata.name`
    Name,
    /// `spec.displayName`
    DisplayName,
    /// `spec.tenantID`
    TenantId,
    /// `metadata.labels['KEY']`
    Label(String),
    /// `metadata.annotations['KEY']`
    Annotation(String),
}

impl ProjectField {
    /// The valid paths, for messages.
    pub const FORMS: &'static str = "metadata.name, spec.displayName, spec.tenantID, metadata.labels['KEY'] or metadata.annotations['KEY']";

    /// Parses a path; `None` if there is no such field.
    pub fn parse(path: &str) -> Option<Self> {
        let key = |prefix: &str| {
            let key = path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']")?;
            meta::name::annotation_key(key).is_empty().then(|| key.to_owned())
        };
        match path {
            "metadata.name" => Some(Self::Name),
            "spec.displayName" => Some(Self::DisplayName),
            "spec.tenantID" => Some(Self::TenantId),
            _ => key("metadata.labels")
                .map(Self::Label)
                .or_else(|| key("metadata.annotations").map(Self::Annotation)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_kubernetes_writes_them() {
        assert_eq!(ProjectField::parse("spec.tenantID"), Some(ProjectField::TenantId));
        let label = ProjectField::parse("metadata.labels['acme.org/cost']");
        assert_eq!(label, Some(ProjectField::Label("acme.org/cost".into())));
        for wrong in ["", "spec.members", "metadata.labels", "metadata.labels['']", "metadata.labels[a]"] {
            assert_eq!(ProjectField::parse(wrong), None, "{wrong}");
        }
    }
}

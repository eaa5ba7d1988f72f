/// A verb on a resource, in the words of Kubernetes' authorizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `POST`
    Create,
    /// `GET` of one object
    Get,
    /// `GET` of a collection
    List,
    /// `GET` of a collection with `watch`
    Watch,
    /// `PUT`
    Update,
    /// `PATCH`
    Patch,
    /// `DELETE` of one object
    Delete,
    /// `DELETE` of a collection
    DeleteCollection,
    /// A right that is no method, such as `impersonate`; or a method that no resource has, by the name under which an
    /// authorizer is asked about it: `HEAD` is `get`, `OPTIONS` is empty.
    Other(&'static str),
}

impl Verb {
    /// The name that authorizers use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other(name) => name,
        }
    }

    /// Whether it changes nothing.
    pub fn is_read(self) -> bool {
        matches!(self.as_str(), "get" | "list" | "watch")
    }
}

impl From<&'static str> for Verb {
    /// The verb of a name, as authorizers write it.
    fn from(name: &'static str) -> Self {
        match name {
            "create" => Self::Create,
            "get" => Self::Get,
            "list" => Self::List,
            "watch" => Self::Watch,
            "update" => Self::Update,
            "patch" => Self::Patch,
            "delete" => Self::Delete,
            "deletecollection" => Self::DeleteCollection,
            other => Self::Other(other),
        }
    }
}

impl Default for Verb {
    /// None at all.
    fn default() -> Self {
        Self::Other("")
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

use business_types::registry::is_repository_component;
use meta::status::Status;
use serde::Serialize;

/// The most scopes of one request.
const SCOPES_MAX: usize = 32;

/// What may be done with a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Read it.
    pub pull: bool,
    /// Add to it.
    pub push: bool,
    /// Delete of it.
    pub delete: bool,
}

impl Actions {
    /// No action.
    pub const NONE: Self = Self { pull: false, push: false, delete: false };
    /// All actions.
    pub const ALL: Self = Self { pull: true, push: true, delete: true };

    /// The actions of both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self {
            pull: self.pull && other.pull,
            push: self.push && other.push,
            delete: self.delete && other.delete,
        }
    }

    /// The names of the actions.
    pub fn names(self) -> Vec<&'static str> {
        let named = [(self.pull, "pull"), (self.push, "push"), (self.delete, "delete")];
        named.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
    }
}

/// A scope that a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryScope {
    /// `repository:NAME:ACTIONS`
    Repository(Repository),
    /// `registry:catalog:*`: the names of all repositories.
    Catalog,
}

/// Actions on a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Its whole name, which the token repeats.
    pub name: String,
    /// The requested actions.
    pub requested: Actions,
}

impl Repository {
    /// Whether the client means to push. One that deletes may request all actions and content itself with fewer.
    pub fn is_for_push(&self) -> bool {
        self.requested.push && !self.requested.delete
    }

    /// The prefix of its name `TENANT/NAME/REST`.
    pub fn prefix(&self) -> Option<Prefix<'_>> {
        Prefix::of(&self.name)
    }
}

/// The first two parts of a repository's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The name of an image namespace or chart group.
    pub name: &'a str,
}

impl<'a> Prefix<'a> {
    /// The prefix of a repository, if it has one.
    pub fn of(repository: &'a str) -> Option<Self> {
        let mut parts = repository.splitn(3, '/');
        let (tenant, name, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let whole = [tenant, name, rest].iter().all(|part| !part.is_empty());
        whole.then_some(Self { tenant, name })
    }
}

/// The granted actions on a resource, as the claim `access` of the token has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceActions {
    /// `repository` or `registry`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The requested name.
    pub name: String,
    /// The granted actions.
    pub actions: Vec<&'static str>,
}

impl RegistryScope {
    /// Parses the parameters `scope` of a request, repeated or separated by spaces. Scopes of an unknown type are
    /// skipped, as the protocol says. So are names that no repository can have, as they would get into a signed token.
    pub fn parse_all<'a>(parameters: impl Iterator<Item = &'a str>) -> Result<Vec<Self>, Status> {
        let words: Vec<&str> =
            parameters.flat_map(|text| text.split(' ')).filter(|word| !word.is_empty()).collect();
        if words.len() > SCOPES_MAX {
            return Err(Status::bad_request(format!("at most {SCOPES_MAX} scopes")));
        }
        Ok(words.into_iter().filter_map(Self::parse).collect())
    }

    fn parse(word: &str) -> Option<Self> {
        let (kind, rest) = word.split_once(':')?;
        let (name, actions) = rest.rsplit_once(':')?;
        // A type may have a class: `repository(plugin)`.
        match (kind.split('(').next().unwrap_or_default(), name) {
            ("repository", name) if name.split('/').all(is_repository_component) => {
                let asks = |action: &str| actions.split(',').any(|asked| asked == action);
                let all = asks("*");
                let named = Actions { pull: asks("pull"), push: asks("push"), delete: asks("delete") };
                let requested = if all { Actions::ALL } else { named };
                Some(Self::Repository(Repository { name: name.to_owned(), requested }))
            }
            ("registry", "catalog") => Some(Self::Catalog),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Vec<RegistryScope> {
        RegistryScope::parse_all(words.iter().copied()).unwrap()
    }

    fn repository(word: &str) -> Repository {
        match read(&[word]).pop() {
            Some(RegistryScope::Repository(repository)) => repository,
            other => panic!("{word}: {other:?}"),
        }
    }

    #[test]
    fn scopes_are_read_as_clients_write_them() {
        let read_back = |word| repository(word).requested.names();
        assert_eq!(read_back("repository:t/web/app:pull,push"), ["pull", "push"]);
        assert_eq!(read_back("repository:t/web/app:push,pull"), ["pull", "push"]);
        assert_eq!(read_back("repository(plugin):t/web/app:delete"), ["delete"]);
        assert_eq!(read_back("repository:t/web/app:fly"), [""; 0]);
        let all = repository("repository:t/web/app/x.y__z--0:*");
        assert_eq!((all.name.as_str(), all.requested), ("t/web/app/x.y__z--0", Actions::ALL));
        assert!(repository("repository:t/web/app:pull,push").is_for_push());
        assert!(!repository("repository:t/web/app:push,pull,delete").is_for_push());
        assert_eq!(read(&["registry:catalog:*"]), [RegistryScope::Catalog]);
        assert_eq!(read(&["repository:a/b/c:pull repository:d/e/f:pull", "registry:catalog:*"]).len(), 3);
        for strange in ["", "repository", "repository:x", "aws:x:y", "registry:other:*"] {
            assert_eq!(read(&[strange]), [], "{strange}");
        }
        for no_repository in [
            "t/web/../../u/shop/x",
            "t/web/./x",
            "t//web/x",
            "/t/web/x",
            "t/web/x/",
            "t/web/X",
            "t/web/x%2f..",
            "t/web/x*",
            "t/web/_x",
            "t/web/x___y",
            "host:5000/t/web/app",
            "",
        ] {
            assert_eq!(read(&[&format!("repository:{no_repository}:pull")]), [], "{no_repository}");
        }
        let many = vec!["repository:a/b/c:pull"; SCOPES_MAX + 1];
        assert_eq!(RegistryScope::parse_all(many.into_iter()).unwrap_err().code, 400);
    }

    #[test]
    fn a_repository_lies_below_tenant_and_name() {
        let prefix = |name: &str| {
            let repository = Repository { name: name.to_owned(), requested: Actions::ALL };
            repository.prefix().map(|prefix| format!("{}|{}", prefix.tenant, prefix.name))
        };
        assert_eq!(prefix("t/web/app").as_deref(), Some("t|web"));
        assert_eq!(prefix("t/web/app/more").as_deref(), Some("t|web"));
        for outside in ["t/web", "t", "", "t//app", "/web/app", "t/web/"] {
            assert_eq!(prefix(outside), None, "{outside}");
        }
    }
}

//! The issuers of tokens, from the program's settings or from a file that is read again when it changes.

use super::config::validate::{self, Checked, TenantNaming};
use super::config::{
    AnonymousAuth, AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, ExtraMapping, Issuer,
    JwtAuthenticator, PrefixedClaimOrExpression, aggregate,
};
use super::expression;
use super::fetch::IssuerAuthorities;
use super::jwks::{KeySet, KeySource};
use super::jwt::{IssuerRules, JwtIssuer};
use crate::error::Error;
use crate::metrics::ServerMetrics;
use crate::tls::serving::read;
use arc_swap::{ArcSwap, Guard};
use futures_util::future::join_all;
use meta::field::quoted;
use runtime::Clock;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::interval;

/// Where the issuers are configured.
#[derive(Clone, Debug)]
pub enum IssuerSettings {
    /// Here.
    Given(Vec<JwtSettings>),
    /// In Kubernetes' `AuthenticationConfiguration`.
    File {
        /// YAML or JSON.
        path: PathBuf,
        /// Issuers whose tokens may name a tenant by an extra key.
        naming_tenants: Vec<String>,
        /// Issuers that kube-apiserver believes by the same file: the rights that it gives their users count here.
        of_cluster: Vec<String>,
    },
}

impl Default for IssuerSettings {
    fn default() -> Self {
        Self::Given(Vec::new())
    }
}

/// One issuer in short: the claims that are usual, and a tenant that each token must name.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// The claim `iss`, letter by letter.
    pub issuer: String,
    /// The claim `aud` must hold one of these.
    pub audiences: Vec<String>,
    /// Where its public keys are.
    pub keys: KeySource,
    /// The claim that names the tenant, or CEL such as `claims.realm.tenant`; a token without it is refused.
    pub tenant_claim: String,
    /// The claim that names the user.
    pub user_claim: String,
    /// The claim that lists the groups.
    pub groups_claim: String,
    /// Put before each user name.
    pub user_prefix: String,
    /// Put before each group.
    pub groups_prefix: String,
}

impl JwtSettings {
    /// The usual claims: `sub`, `groups`, `tenantid`.
    pub fn new(issuer: impl Into<String>, audiences: Vec<String>, keys: KeySource) -> Self {
        Self {
            issuer: issuer.into(),
            audiences,
            keys,
            tenant_claim: "tenantid".to_owned(),
            user_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
            user_prefix: String::new(),
            groups_prefix: String::new(),
        }
    }

    /// The tenant as CEL, and the extra key that takes it.
    fn tenant(&self) -> Result<ExtraMapping, Error> {
        let claim = self.tenant_claim.as_str();
        if self.issuer.is_empty() || self.audiences.is_empty() || claim.is_empty() {
            let missing = "a token issuer needs its name, an audience and a tenant claim";
            return Err(Error::Settings(missing.to_owned()));
        }
        let is_expression = claim.starts_with("claims.") || claim.starts_with("claims[");
        Ok(if is_expression {
            ExtraMapping { key: "tenantid".to_owned(), value_expression: claim.to_owned() }
        } else {
            let value_expression = format!("claims[{}]", quoted(claim));
            ExtraMapping { key: claim.to_lowercase(), value_expression }
        })
    }

    fn authenticator(&self) -> Result<JwtAuthenticator, Error> {
        let tenant = self.tenant()?;
        let names_one = ClaimValidationRule {
            expression: format!("{} != ''", tenant.value_expression),
            message: "the tenant is empty".to_owned(),
            ..ClaimValidationRule::default()
        };
        let claim = |claim: &str, prefix: &str| PrefixedClaimOrExpression {
            claim: claim.to_owned(),
            prefix: Some(prefix.to_owned()),
            ..PrefixedClaimOrExpression::default()
        };
        let issuer =
            Issuer { url: self.issuer.clone(), audiences: self.audiences.clone(), ..Issuer::default() };
        Ok(JwtAuthenticator {
            issuer,
            claim_validation_rules: vec![names_one],
            claim_mappings: ClaimMappings {
                username: claim(&self.user_claim, &self.user_prefix),
                groups: claim(&self.groups_claim, &self.groups_prefix),
                extra: vec![tenant],
                ..ClaimMappings::default()
            },
            is_short_form: true,
            ..JwtAuthenticator::default()
        })
    }
}

/// All issuers at one time.
#[derive(Debug, Default)]
pub(crate) struct IssuerTable {
    issuers: Vec<KnownIssuer>,
    /// The rule for callers without credentials.
    pub(crate) anonymous: Option<AnonymousAuth>,
}

/// An issuer, and the configuration that it was made from.
#[derive(Clone, Debug)]
struct KnownIssuer {
    told: JwtAuthenticator,
    keys: KeySource,
    issuer: Arc<JwtIssuer>,
}

/// The role that the program's settings give to an issuer of the file.
struct Standing {
    tenant_keys: Vec<String>,
    is_cluster: bool,
}

impl IssuerTable {
    pub(super) fn key_source(&self, name: &str) -> Option<KeySource> {
        let known = self.issuers.iter().find(|known| known.issuer.name() == name)?;
        Some(known.keys.clone())
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<JwtIssuer>> {
        self.issuers.iter().map(|known| &known.issuer).find(|issuer| issuer.name() == name).map(Arc::clone)
    }
}

/// The issuers as they are now.
#[derive(Debug)]
pub(crate) struct TokenIssuers {
    settings: IssuerSettings,
    tenant_keys: Vec<String>,
    current: ArcSwap<IssuerTable>,
    /// The bytes of the file that were last read, good or bad.
    seen: Mutex<Vec<u8>>,
    clock: Clock,
    metrics: Arc<ServerMetrics>,
}

impl TokenIssuers {
    pub(crate) async fn load(
        settings: IssuerSettings,
        tenant_keys: Vec<String>,
        clock: Clock,
        metrics: Arc<ServerMetrics>,
    ) -> Result<Self, Error> {
        let (current, seen) = (ArcSwap::default(), Mutex::default());
        let this = Self { settings, tenant_keys, current, seen, clock, metrics };
        match &this.settings {
            IssuerSettings::Given(given) => {
                let table = this.given(given).await?;
                this.current.store(Arc::new(table));
            }
            IssuerSettings::File { path, .. } => {
                let bytes = read(path).await?;
                this.take(bytes).await?;
            }
        }
        Ok(this)
    }

    pub(crate) fn load_table(&self) -> Guard<Arc<IssuerTable>> {
        self.current.load()
    }

    /// Follows the file, and the keys of all issuers, for ever.
    pub(crate) async fn follow(self: Arc<Self>, every: Duration) {
        let mut look = interval(every);
        loop {
            let table = self.current.load_full();
            let keys = join_all(table.issuers.iter().map(|known| Arc::clone(known.issuer.keys()).follow()));
            let changed = async {
                loop {
                    look.tick().await;
                    if self.look().await {
                        break;
                    }
                }
            };
            tokio::select! {
                () = changed => {}
                _never = keys, if !table.issuers.is_empty() => {}
            }
        }
    }

    /// Reads the file again. Returns whether the issuers have changed.
    async fn look(&self) -> bool {
        let IssuerSettings::File { path, .. } = &self.settings else { return false };
        let bytes = match read(path).await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(%error, "the issuers stay as they are");
                return false;
            }
        };
        if *self.seen.lock().unwrap_or_else(PoisonError::into_inner) == bytes {
            return false;
        }
        let taken = self.take(bytes).await;
        self.metrics.issuers_reloaded(taken.is_ok(), self.clock.unix_seconds());
        match taken {
            Ok(()) => {
                tracing::info!(file = %path.display(), "issuers of tokens reloaded");
                true
            }
            Err(error) => {
                tracing::error!(%error, "the issuers stay as they are");
                false
            }
        }
    }

    async fn take(&self, bytes: Vec<u8>) -> Result<(), Error> {
        let IssuerSettings::File { path, naming_tenants, of_cluster } = &self.settings else { return Ok(()) };
        let wrong = |why: String| Error::AuthenticationConfiguration { path: path.clone(), why };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&bytes);
        let tenants = TenantNaming { keys: &self.tenant_keys, issuers: naming_tenants };
        let (file, checked) = checked(&bytes, tenants).map_err(wrong)?;
        let all = file.jwt.iter().zip(checked).map(|(told, checked)| {
            let names_tenants = naming_tenants.contains(&told.issuer.url);
            let tenant_keys = if names_tenants { self.tenant_keys.clone() } else { Vec::new() };
            let standing = Standing { tenant_keys, is_cluster: of_cluster.contains(&told.issuer.url) };
            self.known(told, checked, keys_of(&told.issuer), standing)
        });
        let issuers = join_all(all).await.into_iter().collect::<Result<_, _>>()?;
        self.current.store(Arc::new(IssuerTable { issuers, anonymous: file.anonymous }));
        Ok(())
    }

    async fn given(&self, given: &[JwtSettings]) -> Result<IssuerTable, Error> {
        let told = given.iter().map(JwtSettings::authenticator).collect::<Result<Vec<_>, _>>()?;
        let checked = expression::deep(|| validate::check_rules(&told)).map_err(Error::Settings)?;
        let checked = checked.map_err(|errors| Error::Settings(aggregate(&errors)))?;
        let mut issuers = Vec::new();
        for ((settings, told), checked) in given.iter().zip(&told).zip(checked) {
            let standing = Standing { tenant_keys: vec![settings.tenant()?.key], is_cluster: false };
            issuers.push(self.known(told, checked, settings.keys.clone(), standing).await?);
        }
        Ok(IssuerTable { issuers, anonymous: None })
    }

    /// The issuer. It keeps the keys that are already known if they come from the same place.
    async fn known(
        &self,
        told: &JwtAuthenticator,
        checked: Checked,
        keys: KeySource,
        standing: Standing,
    ) -> Result<KnownIssuer, Error> {
        let Checked { rules: claims, territories } = checked;
        let before = self.current.load();
        let before = before
            .issuers
            .iter()
            .find(|known| known.told.issuer.url == told.issuer.url && known.keys == keys);
        let set = match before {
            Some(known) => Arc::clone(known.issuer.keys()),
            None => Arc::new(KeySet::load(&told.issuer.url, keys.clone()).await?),
        };
        let Issuer { url, audiences, .. } = told.issuer.clone();
        let Standing { tenant_keys, is_cluster } = standing;
        let rules = IssuerRules { url, audiences, claims, territories, tenant_keys, is_cluster };
        Ok(KnownIssuer { told: told.clone(), keys, issuer: Arc::new(JwtIssuer::new(rules, set)) })
    }
}

fn keys_of(issuer: &Issuer) -> KeySource {
    let authorities = match issuer.certificate_authority.as_str() {
        "" => IssuerAuthorities::System,
        pem => IssuerAuthorities::Pem(pem.to_owned()),
    };
    let url = issuer.discovery_url.clone().filter(|url| !url.is_empty());
    KeySource::Discovery { url, authorities }
}

/// Reads a file as a server with these keys for tenants would, which lets these issuers use them. Returns its
/// issuers, or what is wrong with it.
pub fn check_file(
    bytes: &[u8],
    tenant_keys: &[String],
    naming_tenants: &[String],
) -> Result<Vec<String>, String> {
    let (file, _checked) = checked(bytes, TenantNaming { keys: tenant_keys, issuers: naming_tenants })?;
    Ok(file.jwt.into_iter().map(|one| one.issuer.url).collect())
}

/// The issuers of a file, if it meets what Kubernetes and this server demand.
pub(crate) fn checked(
    bytes: &[u8],
    tenants: TenantNaming<'_>,
) -> Result<(AuthenticationConfiguration, Vec<Checked>), String> {
    let file = AuthenticationConfiguration::parse(bytes)?;
    let checked = expression::deep(|| validate::check(&file.jwt, tenants))?;
    let mut errors = checked.as_ref().err().cloned().unwrap_or_default();
    errors.extend(file.anonymous.iter().filter_map(validate::anonymous));
    match checked {
        Ok(checked) if errors.is_empty() => Ok((file, checked)),
        _ => Err(aggregate(&errors)),
    }
}

//! The issuers of tokens, from the program's settings or from a file that is read again when it changes.

use super::config::validate::{self, TenantKeyPolicy, ValidatedIssuer};
use super::config::{
    AnonymousAuth, AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, ExtraMapping, Issuer,
    JwtAuthenticator, PrefixedClaimOrExpression, aggregate,
};
use super::expression;
use super::fetch::IssuerAuthorities;
use super::jwks::{KeySet, KeySource};
use super::jwt::{IssuerRules, JwtIssuer};
use crate::caller::Caller;
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
    /// In the program's settings.
    Inline(Vec<JwtSettings>),
    /// In a file with Kubernetes' `AuthenticationConfiguration`.
    File {
        /// The file, YAML or JSON.
        path: PathBuf,
        /// Issuers whose tokens may name a tenant by an extra key.
        naming_tenants: Vec<String>,
        /// Issuers that kube-apiserver trusts by the same file. Their users are users of the cluster, so kube-apiserver
        /// is asked about their rights.
        of_cluster: Vec<String>,
    },
}

impl Default for IssuerSettings {
    fn default() -> Self {
        Self::Inline(Vec::new())
    }
}

/// The short form of an issuer: the usual claims, and a tenant that each token must name.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// The exact value of the claim `iss`.
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

    /// The tenant as a CEL expression, and the extra key for it.
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
        let has_tenant = ClaimValidationRule {
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
            claim_validation_rules: vec![has_tenant],
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

/// A snapshot of all issuers.
#[derive(Debug, Default)]
pub(crate) struct IssuerTable {
    issuers: Vec<ConfiguredIssuer>,
    /// The rule for anonymous callers.
    pub(crate) anonymous: Option<AnonymousAuth>,
}

/// An issuer with the configuration that it was built from.
#[derive(Clone, Debug)]
struct ConfiguredIssuer {
    config: JwtAuthenticator,
    keys: KeySource,
    issuer: Arc<JwtIssuer>,
}

/// What the program's settings allow an issuer.
struct IssuerRole {
    tenant_keys: Vec<String>,
    is_cluster: bool,
}

impl IssuerTable {
    pub(super) fn key_source(&self, name: &str) -> Option<KeySource> {
        let known = self.issuers.iter().find(|known| known.issuer.name() == name)?;
        Some(known.keys.clone())
    }

    /// The caller of a token that was verified a moment ago, by the token's hash.
    pub(crate) fn verified_caller(&self, hash: [u8; 32]) -> Option<Arc<Caller>> {
        self.issuers.iter().find_map(|known| known.issuer.verified_caller(hash))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<JwtIssuer>> {
        self.issuers.iter().map(|known| &known.issuer).find(|issuer| issuer.name() == name).map(Arc::clone)
    }
}

/// The current issuers.
#[derive(Debug)]
pub(crate) struct TokenIssuers {
    settings: IssuerSettings,
    tenant_keys: Vec<String>,
    current: ArcSwap<IssuerTable>,
    /// The bytes of the file when it was last read, whether they were valid or not.
    last_read: Mutex<Vec<u8>>,
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
        let (current, last_read) = (ArcSwap::default(), Mutex::default());
        let this = Self { settings, tenant_keys, current, last_read, clock, metrics };
        match &this.settings {
            IssuerSettings::Inline(settings) => {
                let table = this.build_all(settings).await?;
                this.current.store(Arc::new(table));
            }
            IssuerSettings::File { path, .. } => {
                let bytes = read(path).await?;
                this.apply_file(bytes).await?;
            }
        }
        Ok(this)
    }

    pub(crate) fn load_table(&self) -> Guard<Arc<IssuerTable>> {
        self.current.load()
    }

    /// Keeps the issuers and their keys up to date, for ever.
    pub(crate) async fn follow(self: Arc<Self>, every: Duration) {
        let mut reload = interval(every);
        loop {
            let table = self.current.load_full();
            let keys = join_all(table.issuers.iter().map(|known| Arc::clone(known.issuer.keys()).follow()));
            let changed = async {
                loop {
                    reload.tick().await;
                    if self.reload_if_changed().await {
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
    async fn reload_if_changed(&self) -> bool {
        let IssuerSettings::File { path, .. } = &self.settings else { return false };
        let bytes = match read(path).await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(%error, "the issuers stay as they are");
                return false;
            }
        };
        if *self.last_read.lock().unwrap_or_else(PoisonError::into_inner) == bytes {
            return false;
        }
        let applied = self.apply_file(bytes).await;
        self.metrics.record_issuer_reload(applied.is_ok(), self.clock.unix_seconds());
        match applied {
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

    async fn apply_file(&self, bytes: Vec<u8>) -> Result<(), Error> {
        let IssuerSettings::File { path, naming_tenants, of_cluster } = &self.settings else { return Ok(()) };
        let wrong = |why: String| Error::AuthenticationConfiguration { path: path.clone(), why };
        self.last_read.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&bytes);
        let tenants = TenantKeyPolicy { keys: &self.tenant_keys, issuers: naming_tenants };
        let (file, validated) = parse_and_validate(&bytes, tenants).map_err(wrong)?;
        let all = file.jwt.iter().zip(validated).map(|(config, validated)| {
            let names_tenants = naming_tenants.contains(&config.issuer.url);
            let tenant_keys = if names_tenants { self.tenant_keys.clone() } else { Vec::new() };
            let role = IssuerRole { tenant_keys, is_cluster: of_cluster.contains(&config.issuer.url) };
            self.build(config, validated, keys_of(&config.issuer), role)
        });
        let issuers = join_all(all).await.into_iter().collect::<Result<_, _>>()?;
        self.current.store(Arc::new(IssuerTable { issuers, anonymous: file.anonymous }));
        Ok(())
    }

    async fn build_all(&self, settings: &[JwtSettings]) -> Result<IssuerTable, Error> {
        let configs = settings.iter().map(JwtSettings::authenticator).collect::<Result<Vec<_>, _>>()?;
        let validated =
            expression::with_deep_stack(|| validate::check_rules(&configs)).map_err(Error::Settings)?;
        let validated = validated.map_err(|errors| Error::Settings(aggregate(&errors)))?;
        let mut issuers = Vec::new();
        for ((settings, config), validated) in settings.iter().zip(&configs).zip(validated) {
            let role = IssuerRole { tenant_keys: vec![settings.tenant()?.key], is_cluster: false };
            issuers.push(self.build(config, validated, settings.keys.clone(), role).await?);
        }
        Ok(IssuerTable { issuers, anonymous: None })
    }

    /// Builds an issuer. If its keys come from the same source as before, it keeps the key set.
    async fn build(
        &self,
        config: &JwtAuthenticator,
        validated: ValidatedIssuer,
        keys: KeySource,
        role: IssuerRole,
    ) -> Result<ConfiguredIssuer, Error> {
        let ValidatedIssuer { rules: claims, allowed_names } = validated;
        let before = self.current.load();
        let before = before
            .issuers
            .iter()
            .find(|known| known.config.issuer.url == config.issuer.url && known.keys == keys);
        let set = match before {
            Some(known) => Arc::clone(known.issuer.keys()),
            None => Arc::new(KeySet::load(&config.issuer.url, keys.clone()).await?),
        };
        let Issuer { url, audiences, .. } = config.issuer.clone();
        let IssuerRole { tenant_keys, is_cluster } = role;
        let rules = IssuerRules { url, audiences, claims, allowed_names, tenant_keys, is_cluster };
        Ok(ConfiguredIssuer { config: config.clone(), keys, issuer: Arc::new(JwtIssuer::new(rules, set)) })
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

/// Validates a file as a server does that has these extra keys for tenants and lets these issuers use them. Returns the
/// issuers of the file, or what is wrong with it.
pub fn check_file(
    bytes: &[u8],
    tenant_keys: &[String],
    naming_tenants: &[String],
) -> Result<Vec<String>, String> {
    let (file, _validated) =
        parse_and_validate(bytes, TenantKeyPolicy { keys: tenant_keys, issuers: naming_tenants })?;
    Ok(file.jwt.into_iter().map(|one| one.issuer.url).collect())
}

/// Parses a file and validates it by the rules of Kubernetes and of this server.
pub(crate) fn parse_and_validate(
    bytes: &[u8],
    tenants: TenantKeyPolicy<'_>,
) -> Result<(AuthenticationConfiguration, Vec<ValidatedIssuer>), String> {
    let file = AuthenticationConfiguration::parse(bytes)?;
    let validated = expression::with_deep_stack(|| validate::check(&file.jwt, tenants))?;
    let mut errors = validated.as_ref().err().cloned().unwrap_or_default();
    errors.extend(file.anonymous.iter().filter_map(validate::anonymous));
    match validated {
        Ok(validated) if errors.is_empty() => Ok((file, validated)),
        _ => Err(aggregate(&errors)),
    }
}

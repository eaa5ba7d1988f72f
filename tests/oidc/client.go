package main

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// program is the one client that the provider knows.
type program struct {
	lifetime time.Duration
}

func same(scopes []string) []string { return scopes }

func (program) GetID() string                        { return clientID }
func (program) RedirectURIs() []string               { return []string{redirectURI} }
func (program) PostLogoutRedirectURIs() []string     { return nil }
func (program) ApplicationType() op.ApplicationType  { return op.ApplicationTypeNative }
func (program) AuthMethod() oidc.AuthMethod          { return oidc.AuthMethodNone }
func (program) LoginURL(id string) string            { return "/login?id=" + id }
func (program) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeBearer }
func (p program) IDTokenLifetime() time.Duration     { return p.lifetime }
func (program) DevMode() bool                        { return false }
func (program) IsScopeAllowed(string) bool           { return false }
func (program) IDTokenUserinfoClaimsAssertion() bool { return true }
func (program) ClockSkew() time.Duration             { return 0 }

func (program) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}

func (program) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken}
}

func (program) RestrictAdditionalIdTokenScopes() func([]string) []string     { return same }
func (program) RestrictAdditionalAccessTokenScopes() func([]string) []string { return same }

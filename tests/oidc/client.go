package main

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// program is a client that the provider knows. None has a secret: PKCE shows that it is the same one.
type program struct {
	id        string
	callbacks []string
	homes     []string
	kind      op.ApplicationType
	lifetime  time.Duration
}

func same(scopes []string) []string { return scopes }

func (p program) GetID() string                       { return p.id }
func (p program) RedirectURIs() []string              { return p.callbacks }
func (p program) PostLogoutRedirectURIs() []string    { return p.homes }
func (p program) ApplicationType() op.ApplicationType { return p.kind }
func (program) AuthMethod() oidc.AuthMethod           { return oidc.AuthMethodNone }
func (program) LoginURL(id string) string             { return "/login?id=" + id }
func (program) AccessTokenType() op.AccessTokenType   { return op.AccessTokenTypeBearer }
func (p program) IDTokenLifetime() time.Duration      { return p.lifetime }
func (program) DevMode() bool                         { return false }
func (program) IsScopeAllowed(string) bool            { return false }
func (program) IDTokenUserinfoClaimsAssertion() bool  { return true }
func (program) ClockSkew() time.Duration              { return 0 }

func (program) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}

func (program) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken}
}

func (program) RestrictAdditionalIdTokenScopes() func([]string) []string     { return same }
func (program) RestrictAdditionalAccessTokenScopes() func([]string) []string { return same }

package main

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// login is a request for a code, from the first redirect to the token.
type login struct {
	id      string
	asked   oidc.AuthRequest
	subject string
	at      time.Time
	code    string
}

func (l *login) GetID() string                      { return l.id }
func (l *login) GetACR() string                     { return "" }
func (l *login) GetAMR() []string                   { return []string{"pwd"} }
func (l *login) GetAudience() []string              { return []string{l.asked.ClientID} }
func (l *login) GetAuthTime() time.Time             { return l.at }
func (l *login) GetClientID() string                { return l.asked.ClientID }
func (l *login) GetNonce() string                   { return l.asked.Nonce }
func (l *login) GetRedirectURI() string             { return l.asked.RedirectURI }
func (l *login) GetResponseType() oidc.ResponseType { return l.asked.ResponseType }
func (l *login) GetResponseMode() oidc.ResponseMode { return l.asked.ResponseMode }
func (l *login) GetScopes() []string                { return l.asked.Scopes }
func (l *login) GetState() string                   { return l.asked.State }
func (l *login) GetSubject() string                 { return l.subject }
func (l *login) Done() bool                         { return l.subject != "" }
func (l *login) GetCodeChallenge() *oidc.CodeChallenge {
	if l.asked.CodeChallenge == "" {
		return nil
	}
	return &oidc.CodeChallenge{Challenge: l.asked.CodeChallenge, Method: l.asked.CodeChallengeMethod}
}

// session is what a refresh token stands for.
type session struct {
	subject string
	client  string
	scopes  []string
	at      time.Time
	until   time.Time
}

func (s *session) GetAMR() []string          { return []string{"pwd"} }
func (s *session) GetAudience() []string     { return []string{s.client} }
func (s *session) GetAuthTime() time.Time    { return s.at }
func (s *session) GetClientID() string       { return s.client }
func (s *session) GetScopes() []string       { return s.scopes }
func (s *session) GetSubject() string        { return s.subject }
func (s *session) SetCurrentScopes([]string) {}

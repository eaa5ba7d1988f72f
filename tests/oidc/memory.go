package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/subtle"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	// loginTime is how long somebody may take to log in.
	loginTime = 5 * time.Minute
	// sessionTime is how long tokens may be refreshed.
	sessionTime = 24 * time.Hour
	// most is how many logins and sessions are kept, each.
	most = 10_000
)

var (
	errUnknown = errors.New("unknown")
	errWrong   = errors.New("name or password is wrong")
)

// memory is all that the provider knows. It forgets its sessions when it ends.
type memory struct {
	config   *config
	key      signingKey
	mutex    sync.Mutex
	logins   map[string]*login
	sessions map[string]*session
}

// signingKey signs tokens, and its public half is published.
type signingKey struct {
	id      string
	private any
	public  any
}

func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.ES256 }
func (k signingKey) Key() any                                    { return k.private }
func (k signingKey) ID() string                                  { return k.id }

type publicKey struct{ signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.ES256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return k.public }

func newMemory(c *config) (*memory, error) {
	text, err := os.ReadFile(c.SigningKey)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no PEM in it", c.SigningKey)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.SigningKey, err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: no key for signatures", c.SigningKey)
	}
	key := signingKey{id: c.KeyID, private: private, public: signer.Public()}
	return &memory{config: c, key: key, logins: map[string]*login{}, sessions: map[string]*session{}}, nil
}

func random() string {
	return rand.Text()
}

// logIn makes a request somebody's.
func (m *memory) logIn(id, name, password string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	asked, ok := m.logins[id]
	if !ok {
		return errUnknown
	}
	known, ok := m.config.user(name)
	if !ok || subtle.ConstantTimeCompare([]byte(known.Password), []byte(password)) != 1 {
		return errWrong
	}
	asked.subject, asked.at = known.Name, time.Now()
	return nil
}

// forget drops what has taken too long; the caller holds the lock.
func (m *memory) forget() {
	now := time.Now()
	for id, asked := range m.logins {
		if now.Sub(asked.at) > loginTime || len(m.logins) > most {
			delete(m.logins, id)
		}
	}
	for token, kept := range m.sessions {
		if now.After(kept.until) || len(m.sessions) > most {
			delete(m.sessions, token)
		}
	}
}

func (m *memory) CreateAuthRequest(_ context.Context, asked *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.forget()
	fresh := &login{id: random(), asked: *asked, at: time.Now()}
	m.logins[fresh.id] = fresh
	return fresh, nil
}

func (m *memory) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	return m.find(func(asked *login) bool { return asked.id == id })
}

func (m *memory) AuthRequestByCode(_ context.Context, code string) (op.AuthRequest, error) {
	return m.find(func(asked *login) bool { return code != "" && asked.code == code })
}

func (m *memory) find(is func(*login) bool) (op.AuthRequest, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.forget()
	for _, asked := range m.logins {
		if is(asked) {
			found := *asked
			return &found, nil
		}
	}
	return nil, errUnknown
}

func (m *memory) SaveAuthCode(_ context.Context, id, code string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	asked, ok := m.logins[id]
	if !ok {
		return errUnknown
	}
	asked.code = code
	return nil
}

func (m *memory) DeleteAuthRequest(_ context.Context, id string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.logins, id)
	return nil
}

func (m *memory) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	return random(), time.Now().Add(m.config.lifetime()), nil
}

// CreateAccessAndRefreshTokens exchanges the refresh token at each use.
func (m *memory) CreateAccessAndRefreshTokens(
	_ context.Context, request op.TokenRequest, current string,
) (string, string, time.Time, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.forget()
	now := time.Now()
	at := now
	if current != "" {
		kept, ok := m.sessions[current]
		if !ok {
			return "", "", time.Time{}, op.ErrInvalidRefreshToken
		}
		at = kept.at
		delete(m.sessions, current)
	}
	fresh := random()
	client := clientOf(request)
	m.sessions[fresh] = &session{request.GetSubject(), client, request.GetScopes(), at, at.Add(sessionTime)}
	return random(), fresh, now.Add(m.config.lifetime()), nil
}

// clientOf is the client of a login or of the session that is refreshed.
func clientOf(request op.TokenRequest) string {
	if of, ok := request.(interface{ GetClientID() string }); ok {
		return of.GetClientID()
	}
	return clientID
}

func (m *memory) TokenRequestByRefreshToken(_ context.Context, token string) (op.RefreshTokenRequest, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.forget()
	kept, ok := m.sessions[token]
	if !ok {
		return nil, op.ErrInvalidRefreshToken
	}
	found := *kept
	return &found, nil
}

func (m *memory) TerminateSession(_ context.Context, subject, client string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for token, kept := range m.sessions {
		if kept.subject == subject && kept.client == client {
			delete(m.sessions, token)
		}
	}
	return nil
}

func (m *memory) RevokeToken(_ context.Context, token, _, _ string) *oidc.Error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.sessions, token)
	return nil
}

func (m *memory) GetRefreshTokenInfo(_ context.Context, _, token string) (string, string, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	kept, ok := m.sessions[token]
	if !ok {
		return "", "", op.ErrInvalidRefreshToken
	}
	return kept.subject, token, nil
}

func (m *memory) SigningKey(context.Context) (op.SigningKey, error) { return m.key, nil }

func (m *memory) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.ES256}, nil
}

func (m *memory) KeySet(context.Context) ([]op.Key, error) { return []op.Key{publicKey{m.key}}, nil }

func (m *memory) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	known, ok := m.config.client(id)
	if !ok {
		return nil, errUnknown
	}
	return known, nil
}

func (m *memory) AuthorizeClientIDSecret(context.Context, string, string) error {
	return errors.New("no client has a secret")
}

// SetUserinfoFromRequest fills an ID token.
func (m *memory) SetUserinfoFromRequest(
	_ context.Context, info *oidc.UserInfo, request op.IDTokenRequest, _ []string,
) error {
	return m.describe(info, request.GetSubject())
}

func (m *memory) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

func (m *memory) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, _, subject, _ string) error {
	return m.describe(info, subject)
}

func (m *memory) describe(info *oidc.UserInfo, subject string) error {
	known, ok := m.config.user(subject)
	if !ok {
		return errUnknown
	}
	info.Subject, info.PreferredUsername = known.Name, known.Name
	if known.Tenant != "" {
		info.AppendClaims("tenantid", known.Tenant)
	}
	info.AppendClaims("groups", known.Groups)
	return nil
}

func (m *memory) SetIntrospectionFromToken(
	context.Context, *oidc.IntrospectionResponse, string, string, string,
) error {
	return errors.New("tokens are not introspected here")
}

func (m *memory) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

func (m *memory) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errUnknown
}

func (m *memory) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errUnknown
}

func (m *memory) Health(context.Context) error { return nil }

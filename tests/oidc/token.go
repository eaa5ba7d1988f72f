package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	// patience is how long a login may take.
	patience = 15 * time.Second
	// early is how long before its end a token is not used any more.
	early = 5 * time.Second
)

// kept is what a login leaves behind for the next time.
type kept struct {
	Token   string    `json:"token"`
	Refresh string    `json:"refresh"`
	Until   time.Time `json:"until"`
}

// printCredential prints what kubectl takes from its credential plugins.
func printCredential(ctx context.Context, c *config, name string) error {
	credential, err := credential(ctx, c, name)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1",
		"kind":       "ExecCredential",
		"status": map[string]any{
			"token": credential.Token, "expirationTimestamp": credential.Until.Add(-early).UTC().Format(time.RFC3339),
		},
	})
}

// credential is the token of the last time while it is valid, else a refreshed one, else one of a new login.
func credential(ctx context.Context, c *config, name string) (kept, error) {
	known, ok := c.user(name)
	if !ok {
		return kept{}, fmt.Errorf("nobody is called %q", name)
	}
	file := filepath.Join(c.Sessions, known.Name+".json")
	var last kept
	// What cannot be read was never there.
	if bytes, err := os.ReadFile(file); err == nil && json.Unmarshal(bytes, &last) != nil {
		last = kept{}
	}
	if time.Now().Add(2 * early).Before(last.Until) {
		return last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := newBrowser(c)
	if err != nil {
		return kept{}, err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, client)
	fresh, err := refresh(ctx, c, last.Refresh)
	if err != nil {
		fresh, err = logIn(ctx, c, client, known)
	}
	if err != nil {
		return kept{}, err
	}
	return fresh, save(file, fresh)
}

func save(file string, fresh kept) error {
	bytes, err := json.Marshal(fresh)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".session-*")
	if err != nil {
		return err
	}
	_, written := next.Write(bytes)
	if err := errors.Join(written, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}

// newBrowser follows redirects but the one that carries the code.
func newBrowser(c *config) (*http.Client, error) {
	bundle, err := os.ReadFile(c.Authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s: no certificate in it", c.Authority)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Jar:       jar,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(next *http.Request, _ []*http.Request) error {
			if to := *next.URL; to.Scheme+"://"+to.Host+to.Path == redirectURI {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}, nil
}

func (c *config) oauth() *oauth2.Config {
	return &oauth2.Config{
		ClientID:    clientID,
		RedirectURL: redirectURI,
		Scopes:      []string{"openid", "profile", "offline_access"},
		Endpoint: oauth2.Endpoint{
			AuthURL: c.Issuer + "/authorize", TokenURL: c.Issuer + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

func refresh(ctx context.Context, c *config, token string) (kept, error) {
	if token == "" {
		return kept{}, errors.New("no session")
	}
	return taken(c.oauth().TokenSource(ctx, &oauth2.Token{RefreshToken: token}).Token())
}

// logIn is the authorization code flow with PKCE, its form filled in as a person would.
func logIn(ctx context.Context, c *config, client *http.Client, who user) (kept, error) {
	verifier, state := oauth2.GenerateVerifier(), random()
	sent, err := fillIn(ctx, c, client, who, c.oauth().AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)))
	if err != nil {
		return kept{}, err
	}
	back, err := sent.Location()
	if err != nil {
		return kept{}, fmt.Errorf("the login was not accepted: %s", sent.Status)
	}
	answer := back.Query()
	if answer.Get("state") != state || answer.Get("code") == "" {
		return kept{}, fmt.Errorf("the login was not accepted: %s", answer.Get("error"))
	}
	return taken(c.oauth().Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(verifier)))
}

// fillIn opens the address of a login and fills in its form.
func fillIn(ctx context.Context, c *config, client *http.Client, who user, asked string) (*http.Response, error) {
	shown, err := do(ctx, client, http.MethodGet, asked, nil)
	if err != nil {
		return nil, err
	}
	form := url.Values{"id": {shown.Request.URL.Query().Get("id")}, "username": {who.Name}, "password": {who.Password}}
	return do(ctx, client, http.MethodPost, c.Issuer+"/login", form)
}

// enter logs somebody in at an address that a program has printed; his browser goes back to that program.
func enter(ctx context.Context, c *config, name, asked string) error {
	known, ok := c.user(name)
	if !ok {
		return fmt.Errorf("nobody is called %q", name)
	}
	if !strings.HasPrefix(asked, c.Issuer+"/") {
		return fmt.Errorf("%s is no address of %s", asked, c.Issuer)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := newBrowser(c)
	if err != nil {
		return err
	}
	back, err := fillIn(ctx, c, client, known, asked)
	if err != nil {
		return err
	}
	if back.StatusCode != http.StatusOK {
		return fmt.Errorf("the login was not accepted: %s", back.Status)
	}
	return nil
}

func do(ctx context.Context, client *http.Client, method, to string, form url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	return response, response.Body.Close()
}

func taken(token *oauth2.Token, err error) (kept, error) {
	if err != nil {
		return kept{}, err
	}
	id, ok := token.Extra("id_token").(string)
	if !ok {
		return kept{}, errors.New("the provider gave no ID token")
	}
	return kept{Token: id, Refresh: token.RefreshToken, Until: token.Expiry}, nil
}

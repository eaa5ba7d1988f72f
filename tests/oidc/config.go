package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

// clientID is a program on this machine that keeps no secret.
const clientID = "kubernetes"

// consoleID is the web console.
const consoleID = "console"

// redirectURI is where a browser would be sent with the code. Nobody listens there.
const redirectURI = "http://127.0.0.1/callback"

// config is the file that server and client share.
type config struct {
	Issuer      string `json:"issuer"`
	Listen      string `json:"listen"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Authority   string `json:"authority"`
	// SigningKey is a P-256 key that tokens are signed with, PEM (PKCS #8).
	SigningKey string `json:"signingKey"`
	KeyID      string `json:"keyID"`
	// LifetimeSeconds is how long an ID token is valid.
	LifetimeSeconds int     `json:"lifetimeSeconds"`
	Sessions        string  `json:"sessions"`
	Users           []user  `json:"users"`
	Console         console `json:"console"`
}

// console is where browsers come back to from a login and from a logout.
type console struct {
	Callbacks []string `json:"callbacks"`
	Homes     []string `json:"homes"`
}

// user is somebody who can log in.
type user struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	// Tenant is a claim of its own; whoever has none is of a tenant by the objects that name him.
	Tenant string   `json:"tenant,omitempty"`
	Groups []string `json:"groups"`
}

func load(file string) (*config, error) {
	bytes, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var c config
	if err := json.Unmarshal(bytes, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &c, nil
}

func (c *config) lifetime() time.Duration {
	return time.Duration(c.LifetimeSeconds) * time.Second
}

// client is the program of that name.
func (c *config) client(id string) (program, bool) {
	switch {
	case id == clientID:
		own := []string{redirectURI}
		return program{id: id, callbacks: own, kind: op.ApplicationTypeNative, lifetime: c.lifetime()}, true
	case id == consoleID:
		return program{
			id: id, callbacks: c.Console.Callbacks, homes: c.Console.Homes,
			kind: op.ApplicationTypeWeb, lifetime: c.lifetime(),
		}, true
	default:
		return program{}, false
	}
}

func (c *config) user(name string) (user, bool) {
	for _, known := range c.Users {
		if known.Name == name {
			return known, true
		}
	}
	return user{}, false
}

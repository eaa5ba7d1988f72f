package main

import (
	"context"
	"crypto/rand"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

// drain is how long requests under way may take at the end.
const drain = 5 * time.Second

var page = template.Must(template.New("login").Parse(`<!doctype html><title>Log in</title>
<form method="post" action="/login"><p>{{.Error}}</p><input type="hidden" name="id" value="{{.ID}}">
<label>Name <input name="username"></label> <label>Password <input name="password" type="password"></label>
<button>Log in</button></form>
`))

func serve(ctx context.Context, c *config) error {
	memory, err := newMemory(c)
	if err != nil {
		return err
	}
	settings := &op.Config{CodeMethodS256: true, GrantTypeRefreshToken: true}
	if _, err := rand.Read(settings.CryptoKey[:]); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	provider, err := op.NewProvider(settings, memory, op.StaticIssuer(c.Issuer), op.WithLogger(logger))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		show(w, http.StatusOK, r.FormValue("id"), "")
	})
	interceptor := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	back := op.AuthCallbackURL(provider)
	mux.HandleFunc("POST /login", interceptor.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.FormValue("id")
		if err := memory.logIn(id, r.FormValue("username"), r.FormValue("password")); err != nil {
			show(w, http.StatusUnauthorized, id, err.Error())
			return
		}
		http.Redirect(w, r, back(r.Context(), id), http.StatusFound)
	}))
	mux.Handle("/", provider)
	server := &http.Server{Addr: c.Listen, Handler: mux, ReadHeaderTimeout: drain, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServeTLS(c.Certificate, c.Key) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return errors.Join(server.Shutdown(closing), memory.Health(closing))
}

func show(w http.ResponseWriter, code int, id, complaint string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if err := page.Execute(w, map[string]string{"ID": id, "Error": complaint}); err != nil {
		slog.Error("the login page", "error", err)
	}
}

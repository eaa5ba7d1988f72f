// Command oidc is the identity provider of a local platform, made of a certified provider library, and its client: it logs
// people in without a browser, for kubectl, and at an address that another program has printed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: oidc serve CONFIG | oidc token CONFIG USER | oidc enter CONFIG USER ADDRESS"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oidc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		config, err := load(args[1])
		if err != nil {
			return err
		}
		return serve(ctx, config)
	case len(args) == 3 && args[0] == "token":
		config, err := load(args[1])
		if err != nil {
			return err
		}
		return printCredential(ctx, config, args[2])
	case len(args) == 4 && args[0] == "enter":
		config, err := load(args[1])
		if err != nil {
			return err
		}
		return enter(ctx, config, args[2], args[3])
	default:
		return fmt.Errorf(usage)
	}
}

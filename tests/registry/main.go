// Command registry is the OCI registry of a local platform: distribution with files for its storage and tokens for its
// authorization, and its garbage collector. It is a client of such a registry, too: push, pull and delete.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	registry.RootCmd.AddCommand(push(), pull(), remove())
	registry.RootCmd.SilenceUsage = true
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}

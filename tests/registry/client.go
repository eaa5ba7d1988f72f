package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"
)

// account is the variable with USER:PASSWORD; without it nobody asks.
const account = "OCI_ACCOUNT"

const layers = 2

// call is one call of a registry by a reference.
type call struct {
	reference name.Reference
	options   []remote.Option
}

func of(args []string) (call, error) {
	reference, err := name.ParseReference(args[0], name.Insecure, name.StrictValidation)
	if err != nil {
		return call{}, err
	}
	auth := authn.Anonymous
	if user, password, ok := strings.Cut(os.Getenv(account), ":"); ok {
		auth = &authn.Basic{Username: user, Password: password}
	}
	return call{reference, []remote.Option{remote.WithAuth(auth)}}, nil
}

func push() *cobra.Command {
	var size int64
	var byDigest bool
	command := &cobra.Command{
		Use:   "push REFERENCE",
		Short: "Pushes an image of random bytes, as the account of " + account + "; prints its digest",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			call, err := of(args)
			if err != nil {
				return err
			}
			image, err := random.Image(size/layers, layers)
			if err != nil {
				return err
			}
			digest, err := image.Digest()
			if err != nil {
				return err
			}
			reference := call.reference
			if byDigest {
				reference = reference.Context().Digest(digest.String())
			}
			if err := remote.Write(reference, image, call.options...); err != nil {
				return err
			}
			fmt.Println(digest)
			return nil
		},
	}
	command.Flags().Int64Var(&size, "bytes", 4096, "size of all layers together")
	command.Flags().BoolVar(&byDigest, "by-digest", false, "by its digest alone, without the tag")
	return command
}

func pull() *cobra.Command {
	return &cobra.Command{
		Use:   "pull REFERENCE",
		Short: "Pulls an image, every byte of it; prints its digest",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			call, err := of(args)
			if err != nil {
				return err
			}
			image, err := remote.Image(call.reference, call.options...)
			if err != nil {
				return err
			}
			pulled, err := image.Layers()
			if err != nil {
				return err
			}
			for _, layer := range pulled {
				if err := read(layer); err != nil {
					return err
				}
			}
			digest, err := image.Digest()
			if err != nil {
				return err
			}
			fmt.Println(digest)
			return nil
		},
	}
}

func remove() *cobra.Command {
	return &cobra.Command{
		Use:   "delete REFERENCE",
		Short: "Deletes the manifest of a digest",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			call, err := of(args)
			if err != nil {
				return err
			}
			return remote.Delete(call.reference, call.options...)
		},
	}
}

package main

import (
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// read takes a layer to its end, where its digest is verified.
func read(layer v1.Layer) error {
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(io.Discard, content)
	return err
}

// Command controlplane is a Kubernetes control plane in one program: etcd, kube-apiserver, the controllers of
// kube-controller-manager that a cluster without nodes needs, and kubectl; chosen by the program's name or by its
// first argument. A tag without_NAME leaves a part out that the machine has.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

var programs = map[string]func(){
	"kube-controller-manager": controllers,
}

func main() {
	if run, ok := programs[filepath.Base(os.Args[0])]; ok {
		run()
		return
	}
	if len(os.Args) > 1 {
		if run, ok := programs[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kubectl [ARG ...]")
	os.Exit(2)
}

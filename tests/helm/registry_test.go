package helm

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	chart4v2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/registry"
)

// REGISTRY_CHARTS is HOST:PORT/TENANT/NAME of a chart group; the accounts are NAME:PASSWORD.
const (
	charts  = "REGISTRY_CHARTS"
	writer  = "REGISTRY_WRITER"
	reader  = "REGISTRY_READER"
	foreign = "REGISTRY_FOREIGN"
)

func registryOf(t *testing.T, account string) *registry.Client {
	t.Helper()
	user, password, _ := strings.Cut(os.Getenv(account), ":")
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptBasicAuth(user, password))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A chart goes into a chart group and comes out of it as it was; a robot that pulls does not push, and of another tenant
// nobody does either.
func TestHelm4Charts(t *testing.T) {
	group := os.Getenv(charts)
	if group == "" {
		t.Skipf("%s is not set", charts)
	}
	loaded, ok := chart4(t, "budget").(*chart4v2.Chart)
	if !ok {
		t.Fatal("a chart of another version")
	}
	packed, err := chartutil.Save(loaded, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	reference := fmt.Sprintf("%s/%s:%s", group, loaded.Name(), loaded.Metadata.Version)
	if _, err := registryOf(t, writer).Push(data, reference); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{writer, reader} {
		pulled, err := registryOf(t, account).Pull(reference)
		if err != nil {
			t.Fatalf("%s: %v", account, err)
		}
		if !bytes.Equal(pulled.Chart.Data, data) {
			t.Errorf("%s: another chart came out", account)
		}
	}
	if _, err := registryOf(t, reader).Push(data, reference); err == nil || !strings.Contains(err.Error(), "pulling only") {
		t.Errorf("a robot that pulls has pushed: %v", err)
	}
	if _, err := registryOf(t, foreign).Pull(reference); err == nil {
		t.Error("another tenant has pulled")
	}
	if _, err := registryOf(t, foreign).Push(data, reference); err == nil {
		t.Error("another tenant has pushed")
	}
}

package helm

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

func helm3(t *testing.T, s server) *action.Configuration {
	t.Helper()
	config := &action.Configuration{}
	if err := config.Init(s.getter, "default", s.driver, t.Logf); err != nil {
		t.Fatal(err)
	}
	return config
}

func chart3(t *testing.T, name string) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load("charts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func remove3(t *testing.T, config *action.Configuration, release string) {
	t.Helper()
	uninstall := action.NewUninstall(config)
	uninstall.Wait, uninstall.Timeout, uninstall.IgnoreNotFound = true, patience, true
	if _, err := uninstall.Run(release); err != nil {
		t.Errorf("uninstall: %v", err)
	}
}

func upgrade3(config *action.Configuration) *action.Upgrade {
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace, upgrade.Wait, upgrade.Timeout = "default", true, patience
	return upgrade
}

// Install, upgrade, rollback and uninstall; what somebody added in between is kept by the three-way merge.
func TestHelm3Release(t *testing.T) {
	each(t, func(t *testing.T, s server) {
		config, release := helm3(t, s), fresh("helm3")
		in := s.dynamic.Resource(projects)
		t.Cleanup(func() { remove3(t, config, release) })
		install := action.NewInstall(config)
		install.ReleaseName, install.Namespace, install.Wait, install.Timeout = release, "default", true, patience
		if _, err := install.Run(chart3(t, "budget"), values(map[string]any{"team": "web"})); err != nil {
			t.Fatal(err)
		}
		first := s.get(t, in, release)
		if pods(first) != "10" || first.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
			t.Errorf("installed: %v", first)
		}
		s.edit(t, release, `{"metadata":{"labels":{"note":"kept"}},"spec":{"displayName":"edited"}}`)
		if _, err := upgrade3(config).Run(release, chart3(t, "budget"), values(map[string]any{"pods": 20})); err != nil {
			t.Fatal(err)
		}
		second := s.get(t, in, release)
		if pods(second) != "20" || second.GetUID() != first.GetUID() || second.GetLabels()["note"] != "kept" {
			t.Errorf("upgraded: %v", second)
		}
		s.missing(t, in, release+"-web")
		rollback := action.NewRollback(config)
		rollback.Version, rollback.Wait, rollback.Timeout = 1, true, patience
		if err := rollback.Run(release); err != nil {
			t.Fatal(err)
		}
		third := s.get(t, in, release)
		if pods(third) != "10" || third.GetUID() != first.GetUID() {
			t.Errorf("rolled back: %v", third)
		}
		s.get(t, in, release+"-web")
		remove3(t, config, release)
		s.missing(t, in, release)
		s.missing(t, in, release+"-web")
	})
}

// A chart with both kinds: the project is a hook, so that it is there before the namespace; templates look it up.
func TestHelm3ChartWithBothKinds(t *testing.T) {
	each(t, func(t *testing.T, s server) {
		config, release := helm3(t, s), fresh("shop3")
		in := s.dynamic.Resource(namespaces).Namespace(release + "-web")
		name := values(nil)["cluster"].(string) + "-" + release
		dry := action.NewInstall(config)
		dry.ReleaseName, dry.Namespace, dry.DryRun, dry.DryRunOption = release, "default", true, "server"
		rendered, err := dry.Run(chart3(t, "shop"), values(nil))
		if err != nil || !strings.Contains(rendered.Manifest, "example.com/members: none") {
			t.Fatalf("dry run: %v", err)
		}
		s.missing(t, s.dynamic.Resource(projects), release)
		install := action.NewInstall(config)
		install.ReleaseName, install.Namespace, install.Wait, install.Timeout = release, "default", true, patience
		if _, err := install.Run(chart3(t, "shop"), values(nil)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			remove3(t, config, release)
			s.remove(t, release)
		})
		if _, err := upgrade3(config).Run(release, chart3(t, "shop"), values(map[string]any{"pods": 3})); err != nil {
			t.Fatal(err)
		}
		object := s.get(t, in, name)
		if object.GetAnnotations()["example.com/members"] != "0" {
			t.Errorf("lookup found nothing: %v", object.GetAnnotations())
		}
		much := values(map[string]any{"pods": 1000})
		_, err = upgrade3(config).Run(release, chart3(t, "shop"), much)
		if err == nil || !strings.Contains(err.Error(), "the largest that fits") {
			t.Errorf("an upgrade that does not fit: %v", err)
		}
	})
}

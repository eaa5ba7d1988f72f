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

func install3(config *action.Configuration, release string) *action.Install {
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.Wait, install.Timeout = release, "default", true, patience
	return install
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
		if _, err := install3(config, release).Run(chart3(t, "budget"), values(map[string]any{"team": "web"})); err != nil {
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

// A chart for each project, and one for the namespace, whose templates look the project up. The projects outlive their
// releases, with what is in them, and the next install takes them over.
func TestHelm3ProjectsAndNamespaces(t *testing.T) {
	each(t, func(t *testing.T, s server) {
		config, root := helm3(t, s), fresh("shop3")
		web, release := root+"-web", root+"-front"
		child, front := values(map[string]any{"parent": root, "pods": 10}), values(map[string]any{"project": web})
		tree, in := s.dynamic.Resource(projects), s.dynamic.Resource(namespaces).Namespace(web)
		name := values(nil)["cluster"].(string) + "-" + release
		dry := install3(config, release)
		dry.DryRun, dry.DryRunOption = true, "server"
		rendered, err := dry.Run(chart3(t, "shop"), front)
		if err != nil || !strings.Contains(rendered.Manifest, "example.com/members: none") {
			t.Fatalf("dry run: %v", err)
		}
		s.missing(t, in, name)
		if _, err := install3(config, root).Run(chart3(t, "project"), values(nil)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			remove3(t, config, release)
			remove3(t, config, web)
			remove3(t, config, root)
			s.remove(t, root)
		})
		if _, err := install3(config, web).Run(chart3(t, "project"), child); err != nil {
			t.Fatal(err)
		}
		if _, err := install3(config, release).Run(chart3(t, "shop"), front); err != nil {
			t.Fatal(err)
		}
		three := values(map[string]any{"project": web, "pods": 3})
		if _, err := upgrade3(config).Run(release, chart3(t, "shop"), three); err != nil {
			t.Fatal(err)
		}
		first := s.get(t, in, name)
		if first.GetAnnotations()["example.com/members"] != "0" {
			t.Errorf("lookup found nothing: %v", first.GetAnnotations())
		}
		much := values(map[string]any{"project": web, "pods": 1000})
		_, err = upgrade3(config).Run(release, chart3(t, "shop"), much)
		if err == nil || !strings.Contains(err.Error(), "the largest that fits") {
			t.Errorf("an upgrade that does not fit: %v", err)
		}
		before := s.get(t, tree, web)
		remove3(t, config, web)
		if _, err := install3(config, web).Run(chart3(t, "project"), child); err != nil {
			t.Fatal(err)
		}
		s.kept(t, tree, before)
		s.kept(t, in, first)
	})
}

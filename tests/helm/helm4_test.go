package helm

import (
	"log/slog"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/kube"
	release4 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func helm4(t *testing.T, s server) *action.Configuration {
	t.Helper()
	kube.ManagedFieldsManager = "helm"
	config := action.NewConfiguration()
	config.SetLogger(slog.DiscardHandler)
	if err := config.Init(s.getter, "default", s.driver); err != nil {
		t.Fatal(err)
	}
	return config
}

func chart4(t *testing.T, name string) chart.Charter {
	t.Helper()
	loaded, err := loader.Load("charts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func remove4(t *testing.T, config *action.Configuration, release string) {
	t.Helper()
	uninstall := action.NewUninstall(config)
	uninstall.WaitStrategy, uninstall.Timeout, uninstall.IgnoreNotFound = kube.StatusWatcherStrategy, patience, true
	if _, err := uninstall.Run(release); err != nil {
		t.Errorf("uninstall: %v", err)
	}
}

func install4(config *action.Configuration, release string) *action.Install {
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace = release, "default"
	install.WaitStrategy, install.Timeout = kube.StatusWatcherStrategy, patience
	return install
}

func upgrade4(config *action.Configuration) *action.Upgrade {
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace, upgrade.ServerSideApply = "default", "auto"
	upgrade.WaitStrategy, upgrade.Timeout = kube.StatusWatcherStrategy, patience
	return upgrade
}

// Server-side apply: the wait ends when the controller has done its work; what somebody else took is a conflict.
func TestHelm4Release(t *testing.T) {
	each(t, func(t *testing.T, s server) {
		config, release := helm4(t, s), fresh("helm4")
		in := s.dynamic.Resource(projects)
		t.Cleanup(func() { remove4(t, config, release) })
		if _, err := install4(config, release).Run(chart4(t, "budget"), values(map[string]any{"team": "web"})); err != nil {
			t.Fatal(err)
		}
		first := s.get(t, in, release)
		if pods(first) != "10" || condition(first, "Ready") != "True" {
			t.Errorf("installed: %v", first)
		}
		owned := false
		for _, entry := range first.GetManagedFields() {
			owned = owned || entry.Manager == "helm" && entry.Operation == metav1.ManagedFieldsOperationApply
		}
		if !owned {
			t.Errorf("managers: %v", first.GetManagedFields())
		}
		s.edit(t, release, `{"spec":{"displayName":"edited"}}`)
		twenty := values(map[string]any{"pods": 20})
		_, err := upgrade4(config).Run(release, chart4(t, "budget"), twenty)
		if err == nil || !strings.Contains(err.Error(), `conflict with "kubectl-edit"`) {
			t.Errorf("an upgrade over an edit: %v", err)
		}
		forced := upgrade4(config)
		forced.ForceConflicts = true
		if _, err := forced.Run(release, chart4(t, "budget"), twenty); err != nil {
			t.Fatal(err)
		}
		if second := s.get(t, in, release); pods(second) != "20" || second.GetUID() != first.GetUID() {
			t.Errorf("upgraded: %v", second)
		}
		s.missing(t, in, release+"-web")
		rollback := action.NewRollback(config)
		rollback.Version, rollback.ServerSideApply = 1, "auto"
		rollback.WaitStrategy, rollback.Timeout = kube.StatusWatcherStrategy, patience
		if err := rollback.Run(release); err != nil {
			t.Fatal(err)
		}
		if third := s.get(t, in, release); pods(third) != "10" || condition(third, "Ready") != "True" {
			t.Errorf("rolled back: %v", third)
		}
		remove4(t, config, release)
		s.missing(t, in, release)
	})
}

// From client-side patches to server-side apply, as a release of version 3 is taken over.
func TestHelm4TakesOverAClientSideRelease(t *testing.T) {
	each(t, func(t *testing.T, s server) {
		config, release := helm4(t, s), fresh("csa4")
		t.Cleanup(func() { remove4(t, config, release) })
		install := install4(config, release)
		install.ServerSideApply = false
		members := func(names ...any) map[string]any { return values(map[string]any{"members": names}) }
		if _, err := install.Run(chart4(t, "budget"), members("anna", "berta")); err != nil {
			t.Fatal(err)
		}
		upgrade := upgrade4(config)
		upgrade.ServerSideApply = "true"
		if _, err := upgrade.Run(release, chart4(t, "budget"), members("berta")); err != nil {
			t.Fatal(err)
		}
		live := s.get(t, s.dynamic.Resource(projects), release)
		spec, _ := live.Object["spec"].(map[string]any)
		if left, _ := spec["members"].([]any); len(left) != 1 || left[0] != "berta" {
			t.Errorf("members after the upgrade: %v", spec["members"])
		}
	})
}

// As with version 3. The wait ends when the namespace is there in its cluster.
func TestHelm4ProjectsAndNamespaces(t *testing.T) {
	each(t, func(t *testing.T, s server) {
		config, root := helm4(t, s), fresh("shop4")
		web, release := root+"-web", root+"-front"
		child, front := values(map[string]any{"parent": root, "pods": 10}), values(map[string]any{"project": web})
		tree, in := s.dynamic.Resource(projects), s.dynamic.Resource(namespaces).Namespace(web)
		name := values(nil)["cluster"].(string) + "-" + release
		dry := install4(config, release)
		dry.DryRunStrategy = action.DryRunServer
		rendered, err := dry.Run(chart4(t, "shop"), front)
		if err != nil || !strings.Contains(rendered.(*release4.Release).Manifest, "example.com/members: none") {
			t.Fatalf("dry run: %v", err)
		}
		s.missing(t, in, name)
		if _, err := install4(config, root).Run(chart4(t, "project"), values(nil)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			remove4(t, config, release)
			remove4(t, config, web)
			remove4(t, config, root)
			s.remove(t, root)
		})
		if _, err := install4(config, web).Run(chart4(t, "project"), child); err != nil {
			t.Fatal(err)
		}
		if _, err := install4(config, release).Run(chart4(t, "shop"), front); err != nil {
			t.Fatal(err)
		}
		first := s.get(t, in, name)
		if condition(first, "Ready") != "True" {
			t.Errorf("the wait ended before it was ready: %v", first)
		}
		three := values(map[string]any{"project": web, "pods": 3})
		if _, err := upgrade4(config).Run(release, chart4(t, "shop"), three); err != nil {
			t.Fatal(err)
		}
		if object := s.get(t, in, name); object.GetAnnotations()["example.com/members"] != "0" {
			t.Errorf("lookup found nothing: %v", object.GetAnnotations())
		}
		before := s.get(t, tree, web)
		remove4(t, config, web)
		if _, err := install4(config, web).Run(chart4(t, "project"), child); err != nil {
			t.Fatal(err)
		}
		s.kept(t, tree, before)
		s.kept(t, in, first)
	})
}

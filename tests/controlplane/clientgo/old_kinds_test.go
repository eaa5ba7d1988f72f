package clientgo

import (
	"slices"
	"testing"

	"controlplane/clientgo/businessv1"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// served skips a test where a kind is not served.
func served(t *testing.T, config *rest.Config, resource string) {
	t.Helper()
	found, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerResourcesForGroupVersion(group + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
		t.Skipf("%s are not served", resource)
	}
}

func length(t *testing.T, list runtime.Object) int {
	t.Helper()
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	return len(items)
}

// typedNamespace is as large as one pod.
func typedNamespace(project string) *businessv1.Namespace {
	return &businessv1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Namespace: project},
		Spec: businessv1.NamespaceSpec{
			ClusterName: member(), Namespace: fresh("typed"),
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"), corev1.ResourceRequestsCPU: resource.MustParse("500m")},
		},
	}
}

func TestTypedProjects(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := typed(t, config)
		lifecycle[*businessv1.Project, *businessv1.ProjectList]{
			resource: "projects", client: c.Projects(), made: typedProject(fresh("typed")),
			message: func(p *businessv1.Project) *string { return &p.Status.Message },
		}.live(t, config, c)
	})
}

func TestTypedNamespaces(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		t.Parallel()
		c := typed(t, config)
		project := makeTyped(t, c).Name
		lifecycle[*businessv1.Namespace, *businessv1.NamespaceList]{
			resource: "namespaces", client: c.Namespaces(project), made: typedNamespace(project),
			message: func(n *businessv1.Namespace) *string { return &n.Status.Message },
		}.live(t, config, c)
	})
}

func TestTypedPlatforms(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		served(t, config, "platforms")
		c := typed(t, config)
		made := &businessv1.Platform{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "platform-"},
			Spec:       businessv1.PlatformSpec{TenantID: fresh("tenant")},
		}
		if tenant(config) {
			if _, err := c.Platforms().Create(deadline(t), made, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("a tenant made a platform: %v", err)
			}
			return
		}
		lifecycle[*businessv1.Platform, *businessv1.PlatformList]{
			resource: "platforms", client: c.Platforms(), made: made,
		}.live(t, config, c)
	})
}

func TestTypedConfigMaps(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		served(t, config, "configmaps")
		c := typed(t, config)
		lifecycle[*businessv1.ConfigMap, *businessv1.ConfigMapList]{
			resource: "configmaps", client: c.ConfigMaps(),
			made: &businessv1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fresh("cm")},
				Data:       map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0, 1, 2}},
			},
		}.live(t, config, c)
	})
}

func TestTypedPortal(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		served(t, config, "portal")
		c := typed(t, config)
		project := makeTyped(t, c)
		portal, err := c.Portal(deadline(t))
		if err != nil || !portal.Administrator {
			t.Fatalf("portal: %+v %v", portal, err)
		}
		if shown, ok := portal.Projects[project.Name]; tenant(config) && (!ok || shown != project.Spec.DisplayName) {
			t.Errorf("a tenant's administrator does not find his project: %+v", portal)
		}
	})
}

func TestTypedKindsOfTheRegistry(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := typed(t, config)
		project := makeTyped(t, c).Name
		// Images and charts of a tenant share their names in a registry.
		spec := func() businessv1.RegistrySpec {
			return businessv1.RegistrySpec{Name: fresh("reg"), TenantID: "default"}
		}
		t.Run("imagenamespaces", func(t *testing.T) {
			served(t, config, "imagenamespaces")
			lifecycle[*businessv1.ImageNamespace, *businessv1.ImageNamespaceList]{
				resource: "imagenamespaces", client: c.ImageNamespaces(project), made: &businessv1.ImageNamespace{Spec: spec()},
				message:    func(i *businessv1.ImageNamespace) *string { return &i.Status.Message },
				finalizers: func(i *businessv1.ImageNamespace) *[]string { return &i.Spec.Finalizers },
			}.live(t, config, c)
		})
		t.Run("chartgroups", func(t *testing.T) {
			served(t, config, "chartgroups")
			lifecycle[*businessv1.ChartGroup, *businessv1.ChartGroupList]{
				resource: "chartgroups", client: c.ChartGroups(project), made: &businessv1.ChartGroup{Spec: spec()},
				message:    func(g *businessv1.ChartGroup) *string { return &g.Status.Message },
				finalizers: func(g *businessv1.ChartGroup) *[]string { return &g.Spec.Finalizers },
			}.live(t, config, c)
		})
	})
}

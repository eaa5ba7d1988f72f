package clientgo

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/kube-openapi/pkg/util/proto"
)

func discoverer(t *testing.T, config *rest.Config) *discovery.DiscoveryClient {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func ours(lists []*metav1.APIResourceList) []string {
	var names []string
	for _, list := range lists {
		if list.GroupVersion != group+"/v1" {
			continue
		}
		for _, r := range list.APIResources {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestAggregatedAndLegacyDiscoveryAgree(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		legacy := discoverer(t, config)
		legacy.UseLegacyDiscovery = true
		var answers [2][]string
		for i, d := range []*discovery.DiscoveryClient{discoverer(t, config), legacy} {
			groups, lists, err := d.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == group && g.PreferredVersion.Version == "v1" }) {
				t.Errorf("the group is not told: %v", groups)
			}
			answers[i] = ours(lists)
		}
		if len(answers[0]) == 0 || !slices.Equal(answers[0], answers[1]) {
			t.Errorf("aggregated %v, legacy %v", answers[0], answers[1])
		}
	})
}

// What the garbage collector, the namespace controller and the quota controller choose resources by.
func TestControllersFindOurResourcesByTheirVerbs(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		lists, err := discovery.ServerPreferredResources(discoverer(t, config))
		if err != nil {
			t.Fatal(err)
		}
		for _, verbs := range [][]string{{"delete", "list", "watch"}, {"create", "list", "watch", "delete"}, {"delete", "deletecollection", "list"}} {
			found := ours(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: verbs}, lists))
			for _, stored := range []string{"namespaces", "projects", "platforms", "configmaps", "nsemigrations"} {
				if !slices.Contains(found, stored) {
					t.Errorf("with verbs %v: no %s among %v", verbs, stored, found)
				}
			}
			if slices.Contains(found, "portal") {
				t.Errorf("with verbs %v: what is computed is among %v", verbs, found)
			}
		}
	})
}

func TestDiscoveryIsCachedInMemoryAndOnDisk(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		directory := t.TempDir()
		onDisk := func() *disk.CachedDiscoveryClient {
			d, err := disk.NewCachedDiscoveryClientForConfig(config, directory+"/discovery", directory+"/http", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for _, d := range []discovery.CachedDiscoveryInterface{memory.NewMemCacheClient(discoverer(t, config)), onDisk()} {
			lists, err := d.ServerPreferredResources()
			if err != nil || len(ours(lists)) == 0 {
				t.Fatalf("%T: %v %v", d, ours(lists), err)
			}
			d.Invalidate()
			if _, err := d.ServerResourcesForGroupVersion(group + "/v1"); err != nil || !d.Fresh() {
				t.Errorf("%T after it was invalidated: fresh %v, %v", d, d.Fresh(), err)
			}
		}
		second := onDisk()
		lists, err := second.ServerPreferredResources()
		if err != nil || len(ours(lists)) == 0 || second.Fresh() {
			t.Errorf("another process takes it from the disk: %v %v", ours(lists), err)
		}
	})
}

func TestDeferredMapperKnowsShortAndFullNames(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		cached := memory.NewMemCacheClient(discoverer(t, config))
		mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, func(text string) { t.Errorf("warned: %s", text) })
		for asked, wanted := range map[schema.GroupVersionResource]schema.GroupVersionResource{
			{Resource: "prj"}:                         projects,
			{Resource: "project"}:                     projects,
			{Resource: "projects"}:                    projects,
			{Resource: "bns"}:                         namespaces,
			{Group: group, Resource: "namespaces"}:    namespaces,
			{Group: "business", Resource: "projects"}: projects,
		} {
			found, err := mapper.ResourceFor(asked)
			if err != nil || found != wanted {
				t.Errorf("%v: %v %v", asked, found, err)
			}
		}
		kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "bns"})
		if err != nil || kind != (schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Namespace"}) {
			t.Errorf("kind of bns: %v %v", kind, err)
		}
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: "Project"})
		if err != nil || mapping.Scope.Name() != meta.RESTScopeNameRoot {
			t.Errorf("scope of Project: %v %v", mapping, err)
		}
		if _, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "nosuch"}); !meta.IsNoMatchError(err) {
			t.Errorf("a resource that nobody serves: %v", err)
		}
		if tenant(config) {
			return
		}
		// `ns` and `namespaces` alone stay the core kind's.
		for _, name := range []string{"ns", "namespaces", "namespace"} {
			found, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: name})
			if err != nil || found.Group != "" {
				t.Errorf("%s: %v %v", name, found, err)
			}
		}
	})
}

func TestVersionAndOpenAPI(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		d := discoverer(t, config)
		if version, err := d.ServerVersion(); err != nil || version.GitVersion == "" {
			t.Errorf("version: %v %v", version, err)
		}
		document, err := d.OpenAPISchema()
		if err != nil {
			t.Fatal(err)
		}
		models, err := proto.NewOpenAPIData(document)
		if err != nil {
			t.Fatal(err)
		}
		model, ok := models.LookupModel("io.tkestack.business.v1.Project").(*proto.Kind)
		if !ok || model.Fields["spec"] == nil || model.GetDescription() == "" {
			t.Errorf("OpenAPI v2 lacks our kinds: %v", models.ListModels())
		} else if kinds, ok := model.GetExtensions()["x-kubernetes-group-version-kind"].([]any); !ok || len(kinds) == 0 {
			t.Errorf("extensions: %v", model.GetExtensions())
		}
	})
}

// Argo CD with ServerSideApply=true compares by the types of OpenAPI v2. It must read what is answered, and a file with an amount that
// is no text, which the server takes, too.
func TestObjectsFitTheirTypesInOpenAPI(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		document, err := discoverer(t, config).OpenAPISchema()
		if err != nil {
			t.Fatal(err)
		}
		models, err := proto.NewOpenAPIData(document)
		if err != nil {
			t.Fatal(err)
		}
		parser, err := managedfields.NewGVKParser(models, false)
		if err != nil {
			t.Fatal(err)
		}
		project := parser.Type(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Project"})
		if project == nil {
			t.Fatal("OpenAPI v2 does not say which type a Project has")
		}
		target := newProject(fresh("typed"), nil)
		if err := unstructured.SetNestedField(target.Object, int64(10), "spec", "clusters", member(), "hard", "pods"); err != nil {
			t.Fatal(err)
		}
		for what, object := range map[string]*unstructured.Unstructured{"a live one": makeProject(t, client(t, config), nil), "one with a number": target} {
			if _, err := project.FromUnstructured(object.Object); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

package clientgo

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

func TestDiscoveryAndMapping(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		d, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		list, err := d.ServerResourcesForGroupVersion(group + "/v1")
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]metav1.APIResource{}
		for _, r := range list.APIResources {
			found[r.Name] = r
		}
		for _, name := range []string{"projects", "projects/status", "projects/finalize", "namespaces", "namespaces/status", "namespaces/finalize"} {
			if _, ok := found[name]; !ok {
				t.Errorf("discovery lacks %s", name)
			}
		}
		if found["projects"].SingularName != "project" || found["projects"].Namespaced || !found["namespaces"].Namespaced {
			t.Errorf("discovery is wrong: %+v", found)
		}
		for _, short := range found["namespaces"].ShortNames {
			if short == "ns" {
				t.Error("ns belongs to the core group")
			}
		}
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: "Namespace"}, "v1")
		if err != nil || mapping.Resource != namespaces {
			t.Errorf("mapping: %v %v", mapping, err)
		}
		paths, err := d.OpenAPIV3().Paths()
		if err != nil {
			t.Fatal(err)
		}
		document, ok := paths["apis/"+group+"/v1"]
		if !ok {
			t.Fatal("OpenAPI v3 does not list the group")
		}
		text, err := document.Schema("application/json")
		if err != nil || !strings.Contains(string(text), "io.tkestack.business.v1.Project") {
			t.Errorf("OpenAPI v3: %v", err)
		}
	})
}

func TestErrorsAreWhatClientsTestFor(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := client(t, config), deadline(t)
		made := makeProject(t, c, nil)
		name := made.GetName()

		if _, err := c.Resource(projects).Create(ctx, newProject(name, nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("second create: %v", err)
		}
		if _, err := c.Resource(projects).Get(ctx, fresh("none"), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get of nothing: %v", err)
		}
		bad := newProject(fresh("bad"), nil)
		unstructured.RemoveNestedField(bad.Object, "spec", "displayName")
		if _, err := c.Resource(projects).Create(ctx, bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("create without displayName: %v", err)
		}
		_, err := c.Resource(namespaces).Namespace(name).Create(ctx, newNamespace(name, fresh("big"), "101"), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "pods") {
			t.Errorf("a namespace that does not fit: %v", err)
		}
		if status, ok := err.(apierrors.APIStatus); !ok || len(status.Status().Details.Causes) == 0 {
			t.Errorf("the refusal has no causes: %v", err)
		}
		_, err = c.Resource(projects).Create(ctx, newProject(fresh("strict"), nil), metav1.CreateOptions{FieldValidation: "Strict"})
		if err != nil {
			t.Errorf("strict create of a good object: %v", err)
		}
		odd := newProject(fresh("odd"), nil)
		odd.Object["spec"].(map[string]any)["foo"] = "bar"
		_, err = c.Resource(projects).Create(ctx, odd, metav1.CreateOptions{FieldValidation: "Strict"})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.foo"`) {
			t.Errorf("strict create with an unknown field: %v", err)
		}
	})
}

func TestUpdateConflictsAndRetries(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := client(t, config), deadline(t)
		old := makeProject(t, c, nil)
		set := func(object *unstructured.Unstructured, text string) {
			_ = unstructured.SetNestedField(object.Object, text, "spec", "displayName")
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			fresh, err := c.Resource(projects).Get(ctx, old.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			set(fresh, "second")
			_, err = c.Resource(projects).Update(ctx, fresh, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		set(old, "third")
		if _, err := c.Resource(projects).Update(ctx, old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("stale update: %v", err)
		}
		_, err = c.Resource(projects).Patch(ctx, old.GetName(), types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/displayName","value":"fourth"}]`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// the controller has an answer of its own to write
		patched := eventually(t, c.Resource(projects), old.GetName(), "ready", ready)
		again, err := c.Resource(projects).Patch(ctx, old.GetName(), types.MergePatchType,
			[]byte(`{"spec":{"displayName":"fourth"}}`), metav1.PatchOptions{})
		if err != nil || again.GetResourceVersion() != patched.GetResourceVersion() {
			t.Errorf("a patch that changes nothing moved the version: %v %s %s", err, patched.GetResourceVersion(), again.GetResourceVersion())
		}
	})
}

func TestPagerAndSelectors(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := client(t, config), deadline(t)
		mark := fresh("mark")
		for range 7 {
			makeProject(t, c, map[string]any{"mark": mark})
		}
		options := metav1.ListOptions{LabelSelector: "mark=" + mark}
		p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.Resource(projects).List(ctx, o)
		})
		p.PageSize = 3
		count := 0
		err := p.EachListItem(ctx, options, func(runtime.Object) error { count++; return nil })
		if err != nil || count != 7 {
			t.Errorf("paged: %d %v", count, err)
		}
		all, err := c.Resource(projects).List(ctx, options)
		if err != nil || len(all.Items) != 7 {
			t.Fatalf("whole: %v", err)
		}
		if rv := all.GetResourceVersion(); rv == "" || rv == "0" {
			t.Errorf("list version %q", rv)
		}
		one, err := c.Resource(projects).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + all.Items[2].GetName()})
		if err != nil || len(one.Items) != 1 {
			t.Errorf("by name: %v", err)
		}
		if _, err := c.Resource(projects).List(ctx, metav1.ListOptions{FieldSelector: "spec.nope=1"}); !apierrors.IsBadRequest(err) {
			t.Errorf("unknown field: %v", err)
		}
		if err := c.Resource(projects).DeleteCollection(ctx, metav1.DeleteOptions{}, options); err != nil {
			t.Error(err)
		}
	})
}

func TestServerSideApply(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := client(t, config), deadline(t)
		object := newProject(fresh("apply"), nil)
		name := object.GetName()
		first, err := c.Resource(projects).Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: "one"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Resource(projects).Delete(context.Background(), name, metav1.DeleteOptions{}) })
		again, err := c.Resource(projects).Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: "one", Force: true})
		if err != nil || first.GetUID() != again.GetUID() {
			t.Fatalf("apply again: %v", err)
		}
		other := object.DeepCopy()
		_ = unstructured.SetNestedField(other.Object, "other", "spec", "displayName")
		_, err = c.Resource(projects).Apply(ctx, name, other, metav1.ApplyOptions{FieldManager: "two"})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) {
			t.Errorf("apply over another manager: %v", err)
		}
		forced, err := c.Resource(projects).Apply(ctx, name, other, metav1.ApplyOptions{FieldManager: "two", Force: true})
		if err != nil {
			t.Fatal(err)
		}
		if text, _, _ := unstructured.NestedString(forced.Object, "spec", "displayName"); text != "other" {
			t.Errorf("forced apply: %q", text)
		}
	})
}

package clientgo

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
)

func TestDynamicClientHasEveryVerb(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := client(t, config), deadline(t)
		project := makeProject(t, c, nil).GetName()
		in := c.Resource(namespaces).Namespace(project)
		first, err := in.Create(ctx, newNamespace(project, fresh("dyn"), "1"), metav1.CreateOptions{FieldManager: "creator"})
		if err != nil {
			t.Fatal(err)
		}
		name := first.GetName()
		if _, err := in.Create(ctx, newNamespace(project, fresh("dyn"), "1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("dry run: %v", err)
		}
		list, err := in.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.GetKind() != "NamespaceList" || list.Items[0].GetKind() != "Namespace" {
			t.Errorf("list: %v %v", list, err)
		}
		patched, err := in.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"2"}}}`), metav1.PatchOptions{FieldManager: "patcher"})
		if err != nil || patched.GetGeneration() != 2 {
			t.Errorf("patch: %v %v", patched, err)
		}
		if charged, _, _ := unstructured.NestedString(patched.Object, "status", "cachedSpecHard", "pods"); charged != "2" {
			t.Errorf("a raise is charged with the write; charged are %q", charged)
		}
		if !manages(patched, "creator", metav1.ManagedFieldsOperationUpdate, "") || !manages(patched, "patcher", metav1.ManagedFieldsOperationUpdate, "") {
			t.Errorf("managers: %v", patched.GetManagedFields())
		}
		status, err := in.Get(ctx, name, metav1.GetOptions{}, "status")
		if tenant(config) {
			if err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("get status: %v", err)
			}
		} else if err != nil || status.GetUID() != first.GetUID() {
			t.Errorf("get status: %v %v", status, err)
		}
		if err := in.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name!=" + name}); err != nil {
			t.Errorf("delete nothing: %v", err)
		}
		if _, err := in.Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("a collection deleted what it did not select: %v", err)
		}
		if err := in.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete: %v", err)
		}
		gone(t, in, name)
	})
}

// Without a field manager, the first word of the User-Agent is taken.
func TestFieldManagerComesFromTheUserAgent(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		config = rest.CopyConfig(config)
		config.UserAgent = "my-controller/v1.2.3 (linux/amd64)"
		made := makeProject(t, client(t, config), nil)
		if !manages(made, "my-controller", metav1.ManagedFieldsOperationUpdate, "") {
			t.Errorf("managers: %v", made.GetManagedFields())
		}
	})
}

func TestFilteredDynamicInformerFactory(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := client(t, config), deadline(t)
		mine, other := makeProject(t, c, nil).GetName(), makeProject(t, c, nil).GetName()
		makeIn := func(project string, marks map[string]string) string {
			object := newNamespace(project, fresh("inf"), "1")
			object.SetLabels(marks)
			made, err := c.Resource(namespaces).Namespace(project).Create(ctx, object, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return made.GetName()
		}
		marked := makeIn(mine, map[string]string{"mark": "yes"})
		makeIn(mine, nil)
		makeIn(other, map[string]string{"mark": "yes"})
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c, 0, mine, func(o *metav1.ListOptions) { o.LabelSelector = "mark=yes" })
		lister := factory.ForResource(namespaces).Lister()
		tells := newSeen()
		if _, err := factory.ForResource(namespaces).Informer().AddEventHandler(tells.handler()); err != nil {
			t.Fatal(err)
		}
		stop := ctx.Done()
		factory.Start(stop)
		for kind, synced := range factory.WaitForCacheSync(stop) {
			if !synced {
				t.Fatalf("%v does not sync", kind)
			}
		}
		held, err := lister.ByNamespace(mine).List(labels.Everything())
		if err != nil || len(held) != 1 {
			t.Fatalf("held: %v %v", held, err)
		}
		if _, err := lister.ByNamespace(mine).Get(marked); err != nil {
			t.Error(err)
		}
		await(t, tells.added, marked, "there")
		// What leaves the selection is told as deleted.
		unmark := []byte(`{"metadata":{"labels":{"mark":null}}}`)
		if _, err := c.Resource(namespaces).Namespace(mine).Patch(ctx, marked, types.MergePatchType, unmark, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, tells.deleted, marked, "gone from the selection")
	})
}

func TestWarningsReachTheClient(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		config = rest.CopyConfig(config)
		warnings := &warned{}
		config.WarningHandler = warnings
		c, ctx := client(t, config), deadline(t)
		project := makeProject(t, c, nil).GetName()
		odd := newNamespace(project, fresh("warn"), "90")
		odd.Object["spec"].(map[string]any)["colour"] = "red"
		if _, err := c.Resource(namespaces).Namespace(project).Create(ctx, odd, metav1.CreateOptions{FieldValidation: "Warn"}); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(warnings.texts, "\n")
		if !strings.Contains(text, `unknown field "spec.colour"`) {
			t.Errorf("warnings: %q", text)
		}
	})
}

type warned struct{ texts []string }

func (w *warned) HandleWarningHeader(code int, _ string, text string) {
	if code == 299 {
		w.texts = append(w.texts, text)
	}
}

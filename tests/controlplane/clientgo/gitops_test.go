package clientgo

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/csaupgrade"
)

const (
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	kubectlCSA  = "kubectl-client-side-apply"
	argo        = "argocd-controller"
	tracking    = "argocd.argoproj.io/tracking-id"
	flux        = "kustomize-controller"
)

var everything = []string{metav1.DryRunAll}

// clientSideApplied creates a project as `kubectl apply` does.
func clientSideApplied(t *testing.T, c dynamic.Interface, manager string) *unstructured.Unstructured {
	t.Helper()
	object := newProject(fresh("csa"), map[string]any{"team": "a", "dropped": "later"})
	text, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	object.SetAnnotations(map[string]string{lastApplied: string(text) + "\n"})
	made, err := c.Resource(projects).Create(deadline(t), object, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Resource(projects).Delete(context.Background(), made.GetName(), metav1.DeleteOptions{}) })
	return made
}

func applied(t *testing.T, c dynamic.Interface, object *unstructured.Unstructured, manager string, dryRun []string) (*unstructured.Unstructured, error) {
	t.Helper()
	body, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: manager, Force: &force, DryRun: dryRun}
	return c.Resource(projects).Patch(deadline(t), object.GetName(), types.ApplyPatchType, body, options)
}

// Argo CD: server-side diff, migration from client-side apply, sync with force, pruning in the foreground.
func TestArgoCD(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		live := clientSideApplied(t, c, argo)
		name := live.GetName()
		target := newProject(name, map[string]any{"team": "b"})
		target.SetAnnotations(map[string]string{tracking: "shop:" + group + "/Project:default/" + name})

		predicted, err := applied(t, c, target, argo, everything)
		if err != nil {
			t.Fatal(err)
		}
		if predicted.GetLabels()["team"] != "b" || !manages(predicted, argo, metav1.ManagedFieldsOperationApply, "") {
			t.Errorf("server-side diff: %v %v", predicted.GetLabels(), predicted.GetManagedFields())
		}
		unchanged := eventually(t, c.Resource(projects), name, "ready", ready)
		if unchanged.GetLabels()["team"] != "a" || manages(unchanged, argo, metav1.ManagedFieldsOperationApply, "") {
			t.Error("a dry run wrote something")
		}

		synced, err := applied(t, c, target, argo, nil)
		if err != nil {
			t.Fatal(err)
		}
		if synced.GetLabels()["dropped"] != "later" {
			t.Error("what client-side apply still owns went away before the migration")
		}
		migrate(t, c, name, sets.New(argo), argo)
		synced, err = applied(t, c, target, argo, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := synced.GetLabels()["dropped"]; kept || manages(synced, argo, metav1.ManagedFieldsOperationUpdate, "") {
			t.Errorf("after the migration: labels %v, managers %v", synced.GetLabels(), synced.GetManagedFields())
		}
		if synced.GetAnnotations()[tracking] == "" {
			t.Error("the tracking annotation is missing")
		}
		synced = eventually(t, c.Resource(projects), name, "ready", ready)
		if again, err := applied(t, c, target, argo, nil); err != nil || again.GetResourceVersion() != synced.GetResourceVersion() {
			t.Errorf("the same again is no write: %v", err)
		}
		selfHeal(t, c, target)
		foreground := metav1.DeletePropagationForeground
		if err := c.Resource(projects).Delete(deadline(t), name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		gone(t, c.Resource(projects), name)
	})
}

// migrate hands what a manager owns by client-side apply to an applier, as kubectl and Argo CD do.
func migrate(t *testing.T, c dynamic.Interface, name string, from sets.Set[string], to string) {
	t.Helper()
	for {
		live, err := c.Resource(projects).Get(deadline(t), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, from, to)
		if err != nil || patch == nil {
			t.Fatalf("nothing to migrate: %s %v", patch, err)
		}
		_, err = c.Resource(projects).Patch(deadline(t), name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: to})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}

// selfHeal undoes what somebody edits.
func selfHeal(t *testing.T, c dynamic.Interface, target *unstructured.Unstructured) {
	t.Helper()
	edit := []byte(`{"spec":{"displayName":"edited"}}`)
	edited, err := c.Resource(projects).Patch(deadline(t), target.GetName(), types.MergePatchType, edit, metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil || !manages(edited, "kubectl-edit", metav1.ManagedFieldsOperationUpdate, "") {
		t.Fatalf("edit: %v", err)
	}
	healed, err := applied(t, c, target, argo, nil)
	if err != nil {
		t.Fatal(err)
	}
	shown, _, _ := unstructured.NestedString(healed.Object, "spec", "displayName")
	if shown != target.GetName() || manages(healed, "kubectl-edit", metav1.ManagedFieldsOperationUpdate, "") {
		t.Errorf("healed: %q, managers %v", shown, healed.GetManagedFields())
	}
}

// Flux: kubectl's managers removed by a JSON patch, then a dry run, and an apply only where that drifts.
func TestFlux(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		name := clientSideApplied(t, c, kubectlCSA).GetName()
		eventually(t, c.Resource(projects), name, "ready", ready)
		cleaned := cleanUp(t, c, name)
		if cleaned.GetAnnotations()[lastApplied] != "" || manages(cleaned, kubectlCSA, metav1.ManagedFieldsOperationUpdate, "") {
			t.Errorf("kubectl is still there: %v %v", cleaned.GetAnnotations(), cleaned.GetManagedFields())
		}
		if !manages(cleaned, flux, metav1.ManagedFieldsOperationApply, "") {
			t.Errorf("Flux took nothing over: %v", cleaned.GetManagedFields())
		}
		target := newProject(name, map[string]any{"team": "a", "kustomize.toolkit.fluxcd.io/name": "shop"})
		if !drifts(t, c, target) {
			t.Fatal("new labels are no drift")
		}
		done, err := applied(t, c, target, flux, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := done.GetLabels()["dropped"]; kept {
			t.Errorf("labels: %v", done.GetLabels())
		}
		if drifts(t, c, target) {
			t.Error("what was just applied drifts")
		}
		edit := []byte(`{"metadata":{"labels":{"team":"z"}}}`)
		if _, err := c.Resource(projects).Patch(deadline(t), name, types.MergePatchType, edit, metav1.PatchOptions{FieldManager: "kubectl-label"}); err != nil {
			t.Fatal(err)
		}
		if !drifts(t, c, target) {
			t.Error("an edit is no drift")
		}
		background := metav1.DeletePropagationBackground
		if err := c.Resource(projects).Delete(deadline(t), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Fatal(err)
		}
		gone(t, c.Resource(projects), name)
	})
}

// cleanUp makes kubectl's entry one of Flux's applies and drops kubectl's annotation.
func cleanUp(t *testing.T, c dynamic.Interface, name string) *unstructured.Unstructured {
	t.Helper()
	live, err := c.Resource(projects).Get(deadline(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	entries := live.GetManagedFields()
	for i := range entries {
		if strings.HasPrefix(entries[i].Manager, "kubectl") && entries[i].Subresource == "" {
			entries[i].Manager, entries[i].Operation = flux, metav1.ManagedFieldsOperationApply
		}
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "remove", "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"},
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
	})
	if err != nil {
		t.Fatal(err)
	}
	cleaned, err := c.Resource(projects).Patch(deadline(t), name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: flux})
	if err != nil {
		t.Fatal(err)
	}
	return cleaned
}

// drifts compares what a dry run would store with what is stored, as Flux does.
func drifts(t *testing.T, c dynamic.Interface, target *unstructured.Unstructured) bool {
	t.Helper()
	live, err := c.Resource(projects).Get(deadline(t), target.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	would, err := applied(t, c, target, flux, everything)
	if err != nil {
		t.Fatal(err)
	}
	content := func(object *unstructured.Unstructured) map[string]any {
		rest := maps.Clone(object.Object)
		delete(rest, "metadata")
		delete(rest, "status")
		return rest
	}
	return !equality.Semantic.DeepEqual(live.GetLabels(), would.GetLabels()) ||
		!equality.Semantic.DeepEqual(live.GetAnnotations(), would.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(content(live), content(would))
}

// Flux creates with a dry run of what does not exist, and recreates when a refusal says that a field is immutable.
func TestFluxCreatesAndRecognizesImmutableFields(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		object := newProject(fresh("flux"), nil)
		would, err := applied(t, c, object, flux, everything)
		if err != nil || would.GetResourceVersion() != "" || would.GetUID() == "" {
			t.Fatalf("dry run of a create: %v %v", would, err)
		}
		if _, err := c.Resource(projects).Get(deadline(t), object.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a dry run created it: %v", err)
		}
		if _, err := applied(t, c, object, flux, nil); err != nil {
			t.Fatal(err)
		}
		project := object.GetName()
		t.Cleanup(func() { _ = c.Resource(projects).Delete(context.Background(), project, metav1.DeleteOptions{}) })
		in := c.Resource(namespaces).Namespace(project)
		child := newNamespace(project, fresh("flux"), "1")
		if _, err := in.Apply(deadline(t), child.GetName(), child, metav1.ApplyOptions{FieldManager: flux, Force: true}); err != nil {
			t.Fatal(err)
		}
		_ = unstructured.SetNestedField(child.Object, fresh("moved"), "spec", "namespace")
		_, err = in.Apply(deadline(t), child.GetName(), child, metav1.ApplyOptions{FieldManager: flux, Force: true, DryRun: everything})
		if !apierrors.IsInvalid(err) || !regexp.MustCompile(`.*is\simmutable.*`).MatchString(err.Error()) {
			t.Errorf("an immutable field: %v", err)
		}
	})
}

// An empty entry resets what is tracked; the next applier finds all fields owned by what was before.
func TestManagedFieldsResetByAPatch(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		name := makeProject(t, c, nil).GetName()
		eventually(t, c.Resource(projects), name, "ready", ready)
		patch := []byte(`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`)
		reset, err := c.Resource(projects).Patch(deadline(t), name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: flux})
		if err != nil || len(reset.GetManagedFields()) != 0 {
			t.Fatalf("reset: %v %v", reset.GetManagedFields(), err)
		}
		done, err := applied(t, c, newProject(name, map[string]any{"team": "a"}), flux, nil)
		if err != nil || !manages(done, "before-first-apply", metav1.ManagedFieldsOperationUpdate, "") {
			t.Errorf("managers: %v %v", done.GetManagedFields(), err)
		}
	})
}

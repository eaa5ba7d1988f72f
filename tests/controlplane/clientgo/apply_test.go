package clientgo

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// intent is what an applier sends of a project: nothing but what it wants to own.
func intent(name string, fields map[string]any) *unstructured.Unstructured {
	object := map[string]any{
		"apiVersion": group + "/v1", "kind": "Project",
		"metadata": map[string]any{"name": name},
	}
	for key, value := range fields {
		object[key] = value
	}
	return &unstructured.Unstructured{Object: object}
}

func condition(kind, status string) map[string]any {
	return map[string]any{
		"type": kind, "status": status, "reason": "Test", "message": "",
		"lastTransitionTime": "2026-01-02T03:04:05Z",
	}
}

func conditionTypes(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var names []string
	for _, c := range conditions {
		names = append(names, c.(map[string]any)["type"].(string))
	}
	return strings.Join(names, ",")
}

// Controllers on controller-runtime and kube-rs own parts of a status under a manager of their own.
func TestStatusAppliedWithAManagerOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		name := makeProject(t, c, nil).GetName()
		mine := intent(name, map[string]any{"status": map[string]any{"conditions": []any{condition("Audited", "True")}}})
		options := metav1.ApplyOptions{FieldManager: "auditor", Force: true}
		if tenant(config) {
			if _, err := c.Resource(projects).ApplyStatus(deadline(t), name, mine, options); !apierrors.IsForbidden(err) {
				t.Errorf("a tenant applied a status: %v", err)
			}
			return
		}
		before := eventually(t, c.Resource(projects), name, "ready", ready)
		applied, err := c.Resource(projects).ApplyStatus(deadline(t), name, mine, options)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(conditionTypes(applied), "Audited") || !strings.Contains(conditionTypes(applied), "Ready") {
			t.Errorf("conditions are merged by their type; there are %s", conditionTypes(applied))
		}
		own := entry(applied, "auditor", metav1.ManagedFieldsOperationApply, "status")
		if own == nil || !strings.Contains(own.FieldsV1.GetRawString(), `k:{\"type\":\"Audited\"}`) {
			t.Errorf("managed fields of the auditor: %v", own)
		}
		if applied.GetGeneration() != before.GetGeneration() {
			t.Error("a status write raised the generation")
		}
		again, err := c.Resource(projects).ApplyStatus(deadline(t), name, mine, options)
		if err != nil || again.GetResourceVersion() != applied.GetResourceVersion() {
			t.Errorf("the same again is no write: %v, %s and %s", err, applied.GetResourceVersion(), again.GetResourceVersion())
		}
		given, err := c.Resource(projects).ApplyStatus(deadline(t), name, intent(name, map[string]any{"status": map[string]any{}}), options)
		if err != nil || strings.Contains(conditionTypes(given), "Audited") || !strings.Contains(conditionTypes(given), "Ready") {
			t.Errorf("given up: %v, conditions %s", err, conditionTypes(given))
		}
	})
}

func TestStatusPatchedWithAFieldOwner(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		if tenant(config) {
			t.Skip("tenants never write a status")
		}
		name := makeProject(t, c, nil).GetName()
		eventually(t, c.Resource(projects), name, "ready", ready)
		options := metav1.PatchOptions{FieldManager: "patcher"}
		for kind, patch := range map[types.PatchType]string{
			types.MergePatchType:          `{"status":{"message":"merged"},"spec":{"displayName":"not by this way"}}`,
			types.JSONPatchType:           `[{"op":"add","path":"/status/message","value":"replaced"}]`,
			types.StrategicMergePatchType: `{"status":{"conditions":[{"type":"Audited","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`,
		} {
			patched, err := c.Resource(projects).Patch(deadline(t), name, kind, []byte(patch), options, "status")
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if !manages(patched, "patcher", metav1.ManagedFieldsOperationUpdate, "status") {
				t.Errorf("%s: managers %v", kind, patched.GetManagedFields())
			}
			if shown, _, _ := unstructured.NestedString(patched.Object, "spec", "displayName"); shown != name {
				t.Errorf("%s wrote the spec: %s", kind, shown)
			}
			if !strings.Contains(conditionTypes(patched), "Ready") {
				t.Errorf("%s lost a condition: %s", kind, conditionTypes(patched))
			}
		}
	})
}

// What is applied to the main resource owns nothing of the status, and the other way round.
func TestApplyOwnsNothingOfTheOtherSubresource(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		name := fresh("apply")
		object := newProject(name, nil)
		object.Object["status"] = map[string]any{"phase": "Failed", "message": "not by this way"}
		applied, err := c.Resource(projects).Apply(deadline(t), name, object, metav1.ApplyOptions{FieldManager: "main"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Resource(projects).Delete(deadline(t), name, metav1.DeleteOptions{}) })
		own := entry(applied, "main", metav1.ManagedFieldsOperationApply, "")
		if own == nil || strings.Contains(own.FieldsV1.GetRawString(), "f:status") {
			t.Errorf("owned: %v", own)
		}
		if message, _, _ := unstructured.NestedString(applied.Object, "status", "message"); message != "" {
			t.Errorf("status written through main: %s", message)
		}
	})
}

func TestApplyAnswersWhatItsCallersLookFor(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		name := makeProject(t, c, nil).GetName()
		apply := func(object *unstructured.Unstructured, options metav1.ApplyOptions) error {
			_, err := c.Resource(projects).Apply(deadline(t), name, object, options)
			return err
		}
		options := metav1.ApplyOptions{FieldManager: "one"}
		unknown := intent(name, map[string]any{"spec": map[string]any{"colour": "red"}})
		if err := apply(unknown, options); err == nil || !strings.Contains(err.Error(), "field not declared in schema") {
			t.Errorf("an unknown field: %v", err)
		}
		managed := []byte(`{"apiVersion":"` + group + `/v1","kind":"Project","metadata":{"managedFields":[{"manager":"x"}]}}`)
		_, err := c.Resource(projects).Patch(deadline(t), name, types.ApplyPatchType, managed, metav1.PatchOptions{FieldManager: "one"})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "metadata.managedFields must be nil") {
			t.Errorf("managedFields in an apply: %v", err)
		}
		stale := intent(name, map[string]any{"spec": map[string]any{"displayName": "stale"}})
		stale.SetResourceVersion("1")
		if err := apply(stale, metav1.ApplyOptions{FieldManager: "one", Force: true}); !apierrors.IsConflict(err) {
			t.Errorf("an apply that pins a stale version: %v", err)
		}
		conflict := apply(intent(name, map[string]any{"spec": map[string]any{"displayName": "other", "members": []any{"one"}}}), options)
		if !apierrors.IsConflict(conflict) {
			t.Fatalf("a field of another manager: %v", conflict)
		}
		if !apierrors.HasStatusCause(conflict, metav1.CauseTypeFieldManagerConflict) {
			t.Errorf("the causes do not say that managers are in conflict: %v", conflict)
		}
		causes := conflict.(apierrors.APIStatus).Status().Details.Causes
		if len(causes) != 1 || causes[0].Field != ".spec.displayName" || !strings.Contains(causes[0].Message, "conflict with") {
			t.Errorf("causes: %+v", causes)
		}
	})
}

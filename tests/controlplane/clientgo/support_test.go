package clientgo

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const poll = 50 * time.Millisecond

// tenant says whether the caller is the tenant's administrator.
func tenant(config *rest.Config) bool { return config.BearerToken != "" }

// entry finds the managedFields entry of a manager.
func entry(object metav1.Object, manager string, operation metav1.ManagedFieldsOperationType, subresource string) *metav1.ManagedFieldsEntry {
	fields := object.GetManagedFields()
	i := slices.IndexFunc(fields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == operation && e.Subresource == subresource
	})
	if i < 0 {
		return nil
	}
	return &fields[i]
}

func manages(object metav1.Object, manager string, operation metav1.ManagedFieldsOperationType, subresource string) bool {
	return entry(object, manager, operation, subresource) != nil
}

// eventually waits until an object is as it should be.
func eventually(t *testing.T, in dynamic.ResourceInterface, name, what string, holds func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	var last *unstructured.Unstructured
	err := wait.PollUntilContextTimeout(context.Background(), poll, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		last, err = in.Get(ctx, name, metav1.GetOptions{})
		return err == nil && holds(last), nil
	})
	if err != nil {
		t.Fatalf("%s never became %s: %v", name, what, last)
	}
	return last
}

// gone waits until an object does not exist.
func gone(t *testing.T, in dynamic.ResourceInterface, name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), poll, patience, true, func(ctx context.Context) (bool, error) {
		_, err := in.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Fatalf("%s never went away", name)
	}
}

// ready says whether the controller has done what the spec asks for, as kstatus and Flux look at it.
func ready(object *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if observed != object.GetGeneration() {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// Package clientgo shows that client-go works with the server unmodified: behind kube-apiserver and directly.
//
// It needs a running instance. OPERATOR_KUBECONFIG and TENANT_KUBECONFIG name its kubeconfigs, MEMBER a member
// cluster. Without them the tests are skipped.
package clientgo

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	group      = "business.tkestack.io"
	projects   = schema.GroupVersionResource{Group: group, Version: "v1", Resource: "projects"}
	namespaces = schema.GroupVersionResource{Group: group, Version: "v1", Resource: "namespaces"}
)

const patience = 2 * time.Minute

// each runs a test once for every way to the server.
func each(t *testing.T, test func(t *testing.T, config *rest.Config)) {
	for name, variable := range map[string]string{"aggregated": "OPERATOR_KUBECONFIG", "direct": "TENANT_KUBECONFIG"} {
		t.Run(name, func(t *testing.T) {
			path := os.Getenv(variable)
			if path == "" {
				t.Skipf("%s is not set", variable)
			}
			config, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}
			config.QPS, config.Burst = 1000, 1000
			test(t, config)
		})
	}
}

func client(t *testing.T, config *rest.Config) *dynamic.DynamicClient {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func fresh(prefix string) string {
	return fmt.Sprintf("%s-%06x", prefix, rand.Intn(1<<24))
}

func member() string {
	if name := os.Getenv("MEMBER"); name != "" {
		return name
	}
	return "local"
}

// tenantOfTests is whose projects the tests make.
func tenantOfTests() string {
	if name := os.Getenv("TENANT"); name != "" {
		return name
	}
	return "default"
}

func newProject(name string, labels map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if labels != nil {
		// "labels": null would be applied, too: a field that an applier owns.
		metadata["labels"] = labels
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Project",
		"metadata": metadata,
		"spec": map[string]any{
			"displayName": name, "tenantID": tenantOfTests(), "members": []any{},
			"clusters": map[string]any{member(): map[string]any{"hard": map[string]any{"pods": "100", "requests.cpu": "10"}}},
		},
	}}
}

func newNamespace(project, name, pods string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Namespace",
		"metadata": map[string]any{"name": member() + "-" + name, "namespace": project},
		"spec": map[string]any{
			"tenantID": tenantOfTests(), "clusterName": member(), "namespace": name,
			"hard": map[string]any{"pods": pods, "requests.cpu": "1"},
		},
	}}
}

// makeProject creates a project and deletes it after the test.
func makeProject(t *testing.T, c dynamic.Interface, labels map[string]any) *unstructured.Unstructured {
	t.Helper()
	made, err := c.Resource(projects).Create(deadline(t), newProject(fresh("go"), labels), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Resource(projects).Delete(ctx, made.GetName(), metav1.DeleteOptions{})
	})
	return made
}

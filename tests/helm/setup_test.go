// Package helm shows that Helm installs, changes, rolls back and removes our kinds: version 3 with its three-way merge
// patches, version 4 with server-side apply and its wait for conditions.
//
// It needs a running instance. OPERATOR_KUBECONFIG and TENANT_KUBECONFIG name its kubeconfigs, MEMBER a member
// cluster. Without them the tests are skipped.
package helm

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
)

const patience = 2 * time.Minute

var (
	projects   = schema.GroupVersionResource{Group: "business.tkestack.io", Version: "v1", Resource: "projects"}
	namespaces = schema.GroupVersionResource{Group: "business.tkestack.io", Version: "v1", Resource: "namespaces"}
)

// server is one way to the server.
type server struct {
	getter  genericclioptions.RESTClientGetter
	dynamic dynamic.Interface
	// driver is where Helm keeps its releases: Secrets of the host cluster, or memory where there are none.
	driver string
}

// each runs a test once for every way to the server.
func each(t *testing.T, test func(t *testing.T, s server)) {
	for name, way := range map[string]struct{ variable, driver string }{
		"aggregated": {"OPERATOR_KUBECONFIG", "secrets"},
		"direct":     {"TENANT_KUBECONFIG", "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := os.Getenv(way.variable)
			if path == "" {
				t.Skipf("%s is not set", way.variable)
			}
			namespace, cache := "default", t.TempDir()
			flags := genericclioptions.NewConfigFlags(true)
			flags.KubeConfig, flags.Namespace, flags.CacheDir = &path, &namespace, &cache
			config, err := flags.ToRESTConfig()
			if err != nil {
				t.Fatal(err)
			}
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			test(t, server{flags, client, way.driver})
		})
	}
}

func fresh(prefix string) string { return fmt.Sprintf("%s-%06x", prefix, rand.Intn(1<<24)) }

func values(more map[string]any) map[string]any {
	all := map[string]any{"cluster": os.Getenv("MEMBER")}
	for key, value := range more {
		all[key] = value
	}
	return all
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (s server) get(t *testing.T, in dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := in.Get(deadline(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// edit changes a project behind Helm's back, as somebody with kubectl does.
func (s server) edit(t *testing.T, name, patch string) {
	t.Helper()
	options := metav1.PatchOptions{FieldManager: "kubectl-edit"}
	if _, err := s.dynamic.Resource(projects).Patch(deadline(t), name, types.MergePatchType, []byte(patch), options); err != nil {
		t.Fatal(err)
	}
}

// missing fails unless an object does not exist, at the latest after a while.
func (s server) missing(t *testing.T, in dynamic.ResourceInterface, name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(deadline(t), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := in.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Errorf("%s is still there", name)
	}
}

// pods reads the granted pods of a project.
func pods(project *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(project.Object, "spec", "clusters", os.Getenv("MEMBER"), "hard", "pods")
	return text
}

// condition reads the status of a condition.
func condition(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == kind {
			return fmt.Sprint(condition["status"])
		}
	}
	return ""
}

// kept fails unless an object is still the one that it was, and is not being deleted.
func (s server) kept(t *testing.T, in dynamic.ResourceInterface, before *unstructured.Unstructured) {
	t.Helper()
	now := s.get(t, in, before.GetName())
	if now.GetUID() != before.GetUID() || now.GetDeletionTimestamp() != nil {
		t.Errorf("%s is another one, or goes: %v", before.GetName(), now)
	}
}

// remove deletes a project that outlived its release, with all that is below it.
func (s server) remove(t *testing.T, project string) {
	t.Helper()
	if err := s.dynamic.Resource(projects).Delete(deadline(t), project, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete %s: %v", project, err)
	}
	s.missing(t, s.dynamic.Resource(projects), project)
}

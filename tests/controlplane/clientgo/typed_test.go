package clientgo

import (
	"context"
	"testing"

	"controlplane/clientgo/businessv1"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

func typed(t *testing.T, config *rest.Config) *businessv1.Client {
	t.Helper()
	c, err := businessv1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// typedProject is sent as Go clients send it: with null for what is empty and has no omitempty.
func typedProject(name string) *businessv1.Project {
	hard := corev1.ResourceList{
		corev1.ResourcePods:        resource.MustParse("100"),
		corev1.ResourceRequestsCPU: resource.MustParse("10"),
	}
	return &businessv1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: businessv1.ProjectSpec{
			DisplayName: name,
			TenantID:    "default",
			Clusters:    map[string]businessv1.HardQuantity{member(): {Hard: hard}},
		},
	}
}

func makeTyped(t *testing.T, c *businessv1.Client) *businessv1.Project {
	t.Helper()
	made, err := c.Projects().Create(deadline(t), typedProject(fresh("typed")), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Projects().Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	return made
}

// granted says whether the project's pods came back as they were sent.
func granted(project *businessv1.Project) bool {
	pods := project.Spec.Clusters[member()].Hard[corev1.ResourcePods]
	return pods.Value() == 100
}

func TestTypedClientCreatesAndReads(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := typed(t, config), deadline(t)
		made := makeTyped(t, c)
		if made.Generation != 1 || made.UID == "" || made.Spec.Members == nil || made.Status.Phase != "Pending" {
			t.Errorf("created: %+v", made)
		}
		got, err := c.Projects().Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil || got.UID != made.UID || !granted(got) {
			t.Errorf("get: %+v %v", got, err)
		}
		list, err := c.Projects().List(ctx, metav1.ListOptions{FieldSelector: "spec.tenantID=default,metadata.name=" + made.Name})
		if err != nil || len(list.Items) != 1 || list.Items[0].UID != made.UID || list.ResourceVersion == "" {
			t.Errorf("list: %+v %v", list, err)
		}
		namespace := &businessv1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Namespace: made.Name},
			Spec: businessv1.NamespaceSpec{
				ClusterName: member(), Namespace: fresh("typed"),
				Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"), corev1.ResourceRequestsCPU: resource.MustParse("500m")},
			},
		}
		child, err := c.Namespaces(made.Name).Create(ctx, namespace, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if child.Name != member()+"-"+namespace.Spec.Namespace || child.Spec.TenantID != "default" {
			t.Errorf("a namespace without name and tenant: %+v", child)
		}
		all, err := c.Namespaces("").List(ctx, metav1.ListOptions{FieldSelector: "spec.namespace=" + namespace.Spec.Namespace})
		if err != nil || len(all.Items) != 1 {
			t.Errorf("list of all projects: %+v %v", all, err)
		}
	})
}

func TestTypedClientWrites(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := typed(t, config), deadline(t)
		made := makeTyped(t, c)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			live, err := c.Projects().Get(ctx, made.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			live.Spec.DisplayName, live.Status.Message = "updated", "not by this way"
			updated, err := c.Projects().Update(ctx, live, metav1.UpdateOptions{})
			if err == nil && (updated.Generation != 2 || updated.Spec.DisplayName != "updated" || updated.Status.Message != "") {
				t.Errorf("updated: %+v", updated)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := c.Projects().Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("stale update: %v", err)
		}
		for kind, patch := range map[types.PatchType]string{
			types.JSONPatchType:           `[{"op":"add","path":"/spec/members/-","value":"json"}]`,
			types.MergePatchType:          `{"spec":{"members":["merge"]}}`,
			types.StrategicMergePatchType: `{"spec":{"members":["strategic"]}}`,
		} {
			patched, err := c.Projects().Patch(ctx, made.Name, kind, []byte(patch), metav1.PatchOptions{})
			if err != nil || len(patched.Spec.Members) == 0 {
				t.Errorf("%s: %+v %v", kind, patched, err)
			}
		}
		other := types.UID("00000000-0000-0000-0000-000000000000")
		err = c.Projects().Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
		if !apierrors.IsConflict(err) {
			t.Errorf("delete of another incarnation: %v", err)
		}
		if err := c.Projects().Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}}); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
}

func TestTypedClientWritesStatusOnlyByRight(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := typed(t, config), deadline(t)
		made := makeTyped(t, c)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			live, err := c.Projects().Get(ctx, made.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			live.Status.Message, live.Spec.DisplayName = "noted", "not by this way"
			live.Labels = map[string]string{"not": "by-this-way"}
			updated, err := c.Projects().UpdateStatus(ctx, live, metav1.UpdateOptions{})
			if err == nil && (updated.Status.Message != "noted" || updated.Spec.DisplayName != made.Spec.DisplayName || updated.Labels != nil) {
				t.Errorf("status updated: %+v", updated)
			}
			if err == nil && updated.Generation != made.Generation {
				t.Errorf("a status write raised the generation to %d", updated.Generation)
			}
			return err
		})
		switch {
		case tenant(config) && !apierrors.IsForbidden(err):
			t.Errorf("a tenant wrote a status: %v", err)
		case !tenant(config) && err != nil:
			t.Error(err)
		}
	})
}

// Typed clients of recent versions ask for protobuf first, even of servers that do not know it.
func TestTypedClientThatPrefersProtobuf(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		config = rest.CopyConfig(config)
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		c, ctx := typed(t, config), deadline(t)
		made := makeTyped(t, c)
		list, err := c.Projects().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + made.Name})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("list: %v", err)
		}
		stream, err := c.Projects().Watch(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "metadata.name=" + made.Name})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		if event := <-stream.ResultChan(); event.Type != watch.Added || event.Object.(*businessv1.Project).UID != made.UID {
			t.Errorf("watch: %+v", event)
		}
		if _, err := c.Projects().Get(ctx, fresh("none"), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get of nothing: %v", err)
		}
	})
}

func TestTypedWatchEndsItsInitialEventsWithABookmark(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := typed(t, config), deadline(t)
		made := makeTyped(t, c)
		all := true
		stream, err := c.Projects().Watch(ctx, metav1.ListOptions{
			SendInitialEvents: &all, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		found := false
		for event := range stream.ResultChan() {
			project, ok := event.Object.(*businessv1.Project)
			if !ok {
				t.Fatalf("unexpected event %+v", event)
			}
			if event.Type == watch.Bookmark && project.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				if !found || project.ResourceVersion == "" {
					t.Errorf("the bookmark came without the object or a version: %v %q", found, project.ResourceVersion)
				}
				return
			}
			found = found || project.UID == made.UID
		}
		t.Error("the watch ended before the bookmark")
	})
}

func TestTypedSharedInformerWithIndex(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := typed(t, config)
		byTenant := func(object any) ([]string, error) { return []string{object.(*businessv1.Project).Spec.TenantID}, nil }
		informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return c.Projects().List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Projects().Watch(ctx, o)
			},
		}, c.REST), &businessv1.Project{}, 0, cache.Indexers{"tenant": byTenant})
		informs(t, client(t, config), informer)
		held, err := informer.GetIndexer().ByIndex("tenant", "default")
		if err != nil || len(held) == 0 {
			t.Errorf("index: %d %v", len(held), err)
		}
	})
}

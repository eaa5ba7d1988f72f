package clientgo

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// seen collects what an informer tells. What it tells again without a change is resynced.
type seen struct{ added, updated, resynced, deleted chan string }

func newSeen() seen {
	names := func() chan string { return make(chan string, 1000) }
	return seen{names(), names(), names(), names()}
}

func (s seen) handler() cache.ResourceEventHandler {
	name := func(object any) string {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		return object.(metav1.Object).GetName()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { s.added <- name(object) },
		UpdateFunc: func(old, object any) {
			if old.(metav1.Object).GetResourceVersion() == object.(metav1.Object).GetResourceVersion() {
				s.resynced <- name(object)
				return
			}
			s.updated <- name(object)
		},
		DeleteFunc: func(object any) { s.deleted <- name(object) },
	}
}

func await(t *testing.T, names <-chan string, name, what string) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case got := <-names:
			if got == name {
				return
			}
		case <-limit:
			t.Fatalf("the informer never told that %s was %s", name, what)
		}
	}
}

func informs(t *testing.T, c dynamic.Interface, informer cache.SharedIndexInformer) {
	t.Helper()
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	tells := newSeen()
	if _, err := informer.AddEventHandler(tells.handler()); err != nil {
		t.Fatal(err)
	}
	before := makeProject(t, c, nil)
	go informer.Run(stop)
	if !cache.WaitForCacheSync(deadline(t).Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	await(t, tells.added, before.GetName(), "there")
	after := makeProject(t, c, nil)
	await(t, tells.added, after.GetName(), "added")
	ctx := deadline(t)
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	if _, err := c.Resource(projects).Patch(ctx, after.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, tells.updated, after.GetName(), "updated")
	if err := c.Resource(projects).Delete(ctx, after.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, tells.deleted, after.GetName(), "deleted")
}

func TestSharedInformer(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := client(t, config)
		informs(t, c, dynamicinformer.NewDynamicSharedInformerFactory(c, 0).ForResource(projects).Informer())
	})
}

func TestRetryWatcher(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := client(t, config), deadline(t)
		start := makeProject(t, c, nil)
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, start.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Resource(projects).Watch(ctx, o)
			},
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return c.Resource(projects).List(ctx, o)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		name := makeProject(t, c, nil).GetName()
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("unexpected event %+v", event)
			}
			if event.Type == watch.Added && object.GetName() == name {
				return
			}
		}
		t.Error("the watch ended before the event")
	})
}

func TestWatchTimesOutCleanly(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		seconds := int64(1)
		stream, err := client(t, config).Resource(projects).Watch(deadline(t), metav1.ListOptions{TimeoutSeconds: &seconds, ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		for event := range stream.ResultChan() {
			if event.Type == watch.Error {
				t.Errorf("the watch ended with %v", event.Object)
			}
		}
	})
}

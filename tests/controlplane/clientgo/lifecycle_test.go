package clientgo

import (
	"context"
	"os"
	"testing"
	"time"

	"controlplane/clientgo/businessv1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

const (
	resync  = time.Second
	abandon = "business.tkestack.io/abandon"
)

// object is a kind of businessv1.
type object interface {
	runtime.Object
	metav1.Object
	comparable
}

// lifecycle is a kind with what its typed client can do.
type lifecycle[T object, L runtime.Object] struct {
	resource string
	client   *gentype.ClientWithList[T, L]
	made     T
	// message is the part of the status that the test writes; nil for a kind without status.
	message func(T) *string
	// finalizers are those of the spec that an operator gives up in place of the controller, whose end takes longer than a
	// test; nil where nothing is to be given up.
	finalizers func(T) *[]string
}

// inform starts an informer of what is selected, and waits until it has listed.
func inform[T object, L runtime.Object](
	t *testing.T, of *gentype.ClientWithList[T, L], rest rest.Interface, selector string, handler cache.ResourceEventHandler,
) cache.SharedIndexInformer {
	t.Helper()
	var example T
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return of.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return of.Watch(ctx, o)
		},
	}, rest), example, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if _, err := informer.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go informer.Run(stop)
	if !cache.WaitForCacheSync(deadline(t).Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	return informer
}

// live takes an object through every verb of its typed client, with an informer beside it.
func (l lifecycle[T, L]) live(t *testing.T, config *rest.Config, c *businessv1.Client) {
	t.Helper()
	mark := fresh("mark")
	l.made.SetLabels(map[string]string{"mark": mark})
	tells := newSeen()
	informer := inform(t, l.client, c.REST, "mark="+mark, tells.handler())
	created, err := l.client.Create(deadline(t), l.made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := created.GetName()
	t.Cleanup(func() { _ = l.client.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	await(t, tells.added, name, "added")
	l.read(t, created, "mark="+mark)
	l.update(t, created)
	await(t, tells.updated, name, "updated")
	l.patch(t, name)
	if l.message != nil {
		l.note(t, config, name)
	}
	await(t, tells.resynced, name, "resynced")
	held, known, err := informer.GetIndexer().Get(created)
	if err != nil || !known || held.(T).GetUID() != created.GetUID() {
		t.Errorf("the informer holds %+v %v", held, err)
	}
	l.remove(t, created, "mark="+mark)
	if l.finalizers != nil {
		l.finalize(t, created)
	}
	await(t, tells.deleted, name, "deleted")
}

func (l lifecycle[T, L]) read(t *testing.T, created T, selector string) {
	t.Helper()
	ctx, name := deadline(t), created.GetName()
	got, err := l.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil || got.GetUID() != created.GetUID() {
		t.Fatalf("get: %+v %v", got, err)
	}
	listed := 0
	list, err := l.client.List(ctx, metav1.ListOptions{LabelSelector: selector, FieldSelector: "metadata.name=" + name})
	if err == nil {
		listed = length(t, list)
	}
	if err != nil || listed != 1 {
		t.Errorf("list: %+v %v", list, err)
	}
	stream, err := l.client.Watch(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	if event := <-stream.ResultChan(); event.Type != watch.Added || event.Object.(T).GetUID() != created.GetUID() {
		t.Errorf("watch: %+v", event)
	}
}

func (l lifecycle[T, L]) update(t *testing.T, created T) {
	t.Helper()
	ctx, name := deadline(t), created.GetName()
	var got T
	// Its controller writes it, too.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if got, err = l.client.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		got.SetManagedFields(nil)
		got.SetAnnotations(map[string]string{"by": "update"})
		got, err = l.client.Update(ctx, got, metav1.UpdateOptions{})
		return err
	})
	if err != nil || got.GetAnnotations()["by"] != "update" {
		t.Fatalf("update: %+v %v", got, err)
	}
	if _, err := l.client.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
}

func (l lifecycle[T, L]) patch(t *testing.T, name string) {
	t.Helper()
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/annotations/by","value":"patch"}]`,
		types.MergePatchType:          `{"metadata":{"annotations":{"by":"patch"}},"unknown":true}`,
		types.StrategicMergePatchType: `{"metadata":{"annotations":{"by":"patch"}}}`,
	} {
		patched, err := l.client.Patch(deadline(t), name, kind, []byte(patch), metav1.PatchOptions{})
		if err != nil || patched.GetAnnotations()["by"] != "patch" {
			t.Errorf("%s: %+v %v", kind, patched, err)
		}
	}
}

// note writes the status, which is not for a tenant.
func (l lifecycle[T, L]) note(t *testing.T, config *rest.Config, name string) {
	t.Helper()
	ctx := deadline(t)
	var noted T
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		got, err := l.client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		*l.message(got) = "noted"
		got.SetAnnotations(map[string]string{"by": "not this way"})
		noted, err = l.client.UpdateStatus(ctx, got, metav1.UpdateOptions{})
		return err
	})
	switch {
	case tenant(config) && !apierrors.IsForbidden(err):
		t.Errorf("a tenant wrote a status: %v", err)
	case !tenant(config) && (err != nil || *l.message(noted) != "noted" || noted.GetAnnotations()["by"] != "patch"):
		t.Errorf("status: %+v %v", noted, err)
	}
}

func (l lifecycle[T, L]) remove(t *testing.T, created T, selector string) {
	t.Helper()
	ctx, other := deadline(t), types.UID("00000000-0000-0000-0000-000000000000")
	err := l.client.Delete(ctx, created.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Errorf("delete of another incarnation: %v", err)
	}
	background := metav1.DeletePropagationBackground
	err = l.client.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Errorf("delete collection: %v", err)
	}
}

// finalize gives up, as an operator, what the controller would look after for some time.
func (l lifecycle[T, L]) finalize(t *testing.T, created T) {
	t.Helper()
	c, ctx, name := typed(t, operator(t)), deadline(t), created.GetName()
	at := func(verb *rest.Request) *rest.Request {
		return verb.Namespace(created.GetNamespace()).Resource(l.resource).Name(name)
	}
	given := []byte(`{"metadata":{"annotations":{"` + abandon + `":"the test ends"}}}`)
	err := at(c.REST.Patch(types.MergePatchType)).Body(given).Do(ctx).Error()
	if err == nil {
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			got := created.DeepCopyObject().(T)
			if err := at(c.REST.Get()).Do(ctx).Into(got); err != nil {
				return err
			}
			*l.finalizers(got) = nil
			return c.Finalize(ctx, l.resource, got, created.DeepCopyObject())
		})
	}
	// Without anything on record in the registry it may have gone by itself.
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("finalize: %v", err)
	}
}

// operator is the configuration of somebody who may do everything.
func operator(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("OPERATOR_KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

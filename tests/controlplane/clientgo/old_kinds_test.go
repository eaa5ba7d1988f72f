package clientgo

import (
	"context"
	"slices"
	"strings"
	"testing"

	"controlplane/clientgo/businessv1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

// object is a kind of businessv1.
type object interface {
	runtime.Object
	metav1.Object
	comparable
}

// served skips a test where a kind is not served.
func served(t *testing.T, config *rest.Config, resource string) {
	t.Helper()
	found, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerResourcesForGroupVersion(group + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
		t.Skipf("%s are not served", resource)
	}
}

// live takes an object through every verb of its typed client, with an informer beside it.
func live[T object, L runtime.Object](t *testing.T, c *gentype.ClientWithList[T, L], client any, made T) {
	ctx := deadline(t)
	mark := fresh("mark")
	made.SetLabels(map[string]string{"mark": mark})
	chosen := metav1.ListOptions{LabelSelector: "mark=" + mark}
	tells := newSeen()
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = chosen.LabelSelector
			return c.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = chosen.LabelSelector
			return c.Watch(ctx, o)
		},
	}, client), made.DeepCopyObject(), 0, cache.Indexers{})
	if _, err := informer.AddEventHandler(tells.handler()); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go informer.Run(stop)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	created, err := c.Create(ctx, made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := created.GetName()
	t.Cleanup(func() { _ = c.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	await(t, tells.added, name, "added")
	got, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil || got.GetUID() != created.GetUID() {
		t.Fatalf("get: %+v %v", got, err)
	}
	// Its controller writes it, too.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if got, err = c.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		// As the console sends it: without what it does not show.
		got.SetManagedFields(nil)
		got.SetAnnotations(map[string]string{"by": "update"})
		got, err = c.Update(ctx, got, metav1.UpdateOptions{})
		return err
	})
	if err != nil || got.GetAnnotations()["by"] != "update" {
		t.Fatalf("update: %+v %v", got, err)
	}
	await(t, tells.updated, name, "updated")
	if _, err := c.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/annotations/by","value":"patch"}]`,
		types.MergePatchType:          `{"metadata":{"annotations":{"by":"patch"}},"unknown":true}`,
		types.StrategicMergePatchType: `{"metadata":{"annotations":{"by":"patch"}}}`,
	} {
		patched, err := c.Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{})
		if err != nil || patched.GetAnnotations()["by"] != "patch" {
			t.Errorf("%s: %+v %v", kind, patched, err)
		}
	}
	other := types.UID("00000000-0000-0000-0000-000000000000")
	err = c.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Errorf("delete of another incarnation: %v", err)
	}
	background := metav1.DeletePropagationBackground
	if err := c.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, chosen); err != nil {
		t.Errorf("delete collection: %v", err)
	}
	// What is in the registry is looked after first, which takes longer than a test.
	if going, err := c.Get(ctx, name, metav1.GetOptions{}); err == nil && going.GetDeletionTimestamp() != nil {
		return
	}
	await(t, tells.deleted, name, "deleted")
}

func TestTypedPlatforms(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		served(t, config, "platforms")
		c, owner := typed(t, config), fresh("tenant")
		made := &businessv1.Platform{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "platform-"},
			Spec:       businessv1.PlatformSpec{TenantID: owner},
		}
		if tenant(config) {
			if _, err := c.Platforms().Create(deadline(t), made, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("a tenant made a platform: %v", err)
			}
			return
		}
		live(t, c.Platforms(), c.REST, made)
	})
}

func TestTypedConfigMaps(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		served(t, config, "configmaps")
		c := typed(t, config)
		live(t, c.ConfigMaps(), c.REST, &businessv1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fresh("cm")},
			Data:       map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0, 1, 2}},
		})
	})
}

func TestTypedPortal(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		served(t, config, "portal")
		c, ctx := typed(t, config), deadline(t)
		project := makeTyped(t, c)
		portal := &businessv1.Portal{}
		if err := c.REST.Get().Resource("portal").Do(ctx).Into(portal); err != nil || !portal.Administrator {
			t.Fatalf("portal: %+v %v", portal, err)
		}
		if shown, ok := portal.Projects[project.Name]; tenant(config) && (!ok || shown != project.Spec.DisplayName) {
			t.Errorf("a tenant's administrator does not find his project: %+v", portal)
		}
	})
}

func TestTypedKindsOfTheRegistry(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := typed(t, config)
		project := makeTyped(t, c)
		// Images and charts of a tenant share their names in a registry.
		spec := func() businessv1.RegistrySpec {
			return businessv1.RegistrySpec{Name: fresh("reg"), TenantID: "default"}
		}
		t.Run("imagenamespaces", func(t *testing.T) {
			served(t, config, "imagenamespaces")
			live(t, c.ImageNamespaces(project.Name), c.REST, &businessv1.ImageNamespace{Spec: spec()})
		})
		t.Run("chartgroups", func(t *testing.T) {
			served(t, config, "chartgroups")
			live(t, c.ChartGroups(project.Name), c.REST, &businessv1.ChartGroup{Spec: spec()})
		})
	})
}

func TestTypedEmigrations(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		served(t, config, "nsemigrations")
		c, ctx := typed(t, config), deadline(t)
		emigrations := c.NsEmigrations(makeTyped(t, c).Name)
		if list, err := emigrations.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("list: %+v %v", list, err)
		}
		_, err := emigrations.Create(ctx, &businessv1.NsEmigration{
			Spec: businessv1.NsEmigrationSpec{TenantID: "default", Namespace: "none", Destination: "none"},
		}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
			t.Errorf("an emigration of nothing: %v", err)
		}
	})
}

// Controllers that were generated for the old server send protobuf unless they are told otherwise.
func TestABodyInProtobufIsToldWhatToSet(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := typed(t, config), deadline(t)
		err := c.REST.Post().Resource("projects").SetHeader("Content-Type", runtime.ContentTypeProtobuf).
			Body([]byte("k8s\x00")).Do(ctx).Error()
		if !apierrors.IsUnsupportedMediaType(err) || !strings.Contains(err.Error(), "set the content type application/json") {
			t.Errorf("an object in protobuf: %v", err)
		}
	})
}

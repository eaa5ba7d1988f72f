package clientgo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
)

const (
	protobufBody   = runtime.ContentTypeProtobuf
	protobufEvents = runtime.ContentTypeProtobuf + ";stream=watch"
)

// listener remembers which media types answers had. Where it is told to, it asks in its own words.
type listener struct {
	next   http.RoundTripper
	accept string

	lock  sync.Mutex
	heard []string
}

func (l *listener) RoundTrip(request *http.Request) (*http.Response, error) {
	if l.accept != "" {
		request = request.Clone(request.Context())
		request.Header.Set("Accept", l.accept)
	}
	response, err := l.next.RoundTrip(request)
	if err == nil {
		l.lock.Lock()
		defer l.lock.Unlock()
		l.heard = append(l.heard, fmt.Sprintf("%s %d %s", request.Method, response.StatusCode, response.Header.Get("Content-Type")))
	}
	return response, err
}

func (l *listener) take() []string {
	l.lock.Lock()
	defer l.lock.Unlock()
	heard := l.heard
	l.heard = nil
	return heard
}

// metadataClient is one whose answers are listened to.
func metadataClient(t *testing.T, config *rest.Config, accept string) (metadata.Interface, *listener) {
	t.Helper()
	config = rest.CopyConfig(config)
	listens := &listener{accept: accept}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		listens.next = next
		return listens
	})
	c, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c, listens
}

func TestMetadataClientSpeaksProtobuf(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		objects, ctx := client(t, config), deadline(t)
		made := makeProject(t, objects, map[string]any{"team": "a"})
		name := made.GetName()
		c, listens := metadataClient(t, config, "")
		in := c.Resource(projects)
		hears := func(want ...string) {
			t.Helper()
			if heard := listens.take(); !slices.Equal(heard, want) {
				t.Errorf("answers were %q, not %q", heard, want)
			}
		}

		got, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		hears("GET 200 " + protobufBody)
		if live, err := objects.Resource(projects).Get(ctx, name, metav1.GetOptions{ResourceVersion: got.ResourceVersion}); err == nil && live.GetResourceVersion() == got.ResourceVersion {
			same(t, live.Object["metadata"], got.ObjectMeta)
		} else if err != nil {
			t.Error(err)
		}

		one := metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: 1}
		list, err := in.List(ctx, one)
		if err != nil || len(list.Items) != 1 || list.Items[0].UID != made.GetUID() || list.ResourceVersion == "" || len(list.Items[0].ManagedFields) == 0 {
			t.Fatalf("list: %+v %v", list, err)
		}
		hears("GET 200 " + protobufBody)

		from := metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: list.ResourceVersion}
		stream, err := in.Watch(ctx, from)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		hears("GET 200 " + protobufEvents)
		patch := []byte(`{"metadata":{"annotations":{"words":"\"a\" & <ü>\n"},"finalizers":["example.com/wait"]}}`)
		patched, err := in.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "marker"})
		if err != nil || patched.Annotations["words"] != "\"a\" & <ü>\n" || !manages(patched, "marker", metav1.ManagedFieldsOperationUpdate, "") {
			t.Fatalf("patch: %+v %v", patched, err)
		}
		hears("PATCH 200 " + protobufBody)
		for event := range stream.ResultChan() {
			object, ok := event.Object.(*metav1.PartialObjectMetadata)
			if !ok || event.Type != watch.Modified {
				t.Fatalf("unexpected event %+v", event)
			}
			if object.ResourceVersion == patched.ResourceVersion {
				if !equality.Semantic.DeepEqual(object.ObjectMeta, patched.ObjectMeta) {
					t.Errorf("the event has %+v, the answer %+v", object.ObjectMeta, patched.ObjectMeta)
				}
				break
			}
		}

		uid := made.GetUID()
		if err := in.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
			t.Errorf("delete: %v", err)
		}
		listens.take()
		if _, err := in.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("let go: %v", err)
		}
		gone(t, objects.Resource(projects), name)
		listens.take()
		if _, err := in.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get of nothing: %v", err)
		}
		// What is asked for is no form of an error, and the last clause is JSON.
		hears("GET 404 application/json")
	})
}

// same says whether metadata of a JSON answer and of a protobuf answer is the same.
func same(t *testing.T, object any, got metav1.ObjectMeta) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var want metav1.ObjectMeta
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(want, got) {
		t.Errorf("JSON says %+v\nprotobuf says %+v", want, got)
	}
}

func TestMetadataListsAndBookmarksAreProtobuf(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		objects, ctx := client(t, config), deadline(t)
		project := makeProject(t, objects, nil).GetName()
		c, listens := metadataClient(t, config, "")
		in := c.Resource(namespaces).Namespace(project)
		empty, err := in.List(ctx, metav1.ListOptions{})
		if err != nil || len(empty.Items) != 0 {
			t.Errorf("an empty list: %v %v", empty, err)
		}
		for range 3 {
			if _, err := objects.Resource(namespaces).Namespace(project).Create(ctx, newNamespace(project, fresh("meta"), "1"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		found := map[string]bool{}
		options := metav1.ListOptions{Limit: 2}
		for {
			page, err := in.List(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				found[item.Name] = true
			}
			if options.Continue = page.Continue; page.Continue == "" {
				break
			}
			// Who does not see everything is not told how much there is.
			if left := page.RemainingItemCount; left == nil != tenant(config) || left != nil && *left != 1 {
				t.Errorf("remaining: %v", left)
			}
		}
		if len(found) != 3 {
			t.Errorf("found %v", found)
		}
		all := true
		stream, err := in.Watch(ctx, metav1.ListOptions{
			SendInitialEvents: &all, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		for event := range stream.ResultChan() {
			object, ok := event.Object.(*metav1.PartialObjectMetadata)
			if !ok {
				t.Fatalf("unexpected event %+v", event)
			}
			if event.Type == watch.Bookmark {
				if object.Annotations[metav1.InitialEventsAnnotationKey] != "true" || object.ResourceVersion == "" || len(found) != 0 {
					t.Errorf("bookmark: %+v, not seen: %v", object, found)
				}
				break
			}
			delete(found, object.Name)
		}
		if err := in.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Errorf("delete all: %v", err)
		}
		for _, answer := range listens.take() {
			if strings.HasPrefix(answer, "GET") && !strings.Contains(answer, runtime.ContentTypeProtobuf) {
				t.Errorf("an answer was %q", answer)
			}
		}
	})
}

// The garbage collector and the quota controller watch everything as metadata only.
func TestMetadataInformer(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, listens := metadataClient(t, config, "")
		informer := metadatainformer.NewSharedInformerFactory(c, 0).ForResource(projects).Informer()
		informs(t, client(t, config), informer)
		answers := listens.take()
		if len(answers) == 0 {
			t.Error("nothing was asked")
		}
		for _, answer := range answers {
			if !strings.Contains(answer, runtime.ContentTypeProtobuf) {
				t.Errorf("an answer was %q", answer)
			}
		}
	})
}

// Errors are in protobuf where it is asked for without a form, and Go reads them, those inside a stream, too.
func TestFailuresInProtobuf(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		ctx := deadline(t)
		c, listens := metadataClient(t, config, runtime.ContentTypeProtobuf)
		in := c.Resource(projects)
		_, err := in.Get(ctx, fresh("none"), metav1.GetOptions{})
		if !apierrors.IsNotAcceptable(err) {
			t.Errorf("an object in protobuf: %v", err)
		}
		if heard := listens.take(); !slices.Equal(heard, []string{"GET 406 " + protobufBody}) {
			t.Errorf("answers were %q", heard)
		}
		partial := runtime.ContentTypeProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		c, listens = metadataClient(t, config, partial+","+runtime.ContentTypeProtobuf)
		in = c.Resource(projects)
		if _, err := in.Get(ctx, fresh("none"), metav1.GetOptions{}); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), group) {
			t.Errorf("get of nothing: %v", err)
		}
		if heard := listens.take(); !slices.Equal(heard, []string{"GET 404 " + protobufBody}) {
			t.Errorf("answers were %q", heard)
		}
		all := true
		stream, err := in.Watch(ctx, metav1.ListOptions{
			SendInitialEvents: &all, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			ResourceVersion: "999999999999",
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		event, ok := <-stream.ResultChan()
		if !ok || event.Type != watch.Error {
			t.Fatalf("a state of the future: %+v", event)
		}
		if err := apierrors.FromObject(event.Object); !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("in the stream: %v", err)
		}
	})
}

// Go sends DeleteOptions in protobuf where a client is set to it.
func TestDeleteOptionsInProtobuf(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		objects, ctx := client(t, config), deadline(t)
		made := makeProject(t, objects, nil)
		config = rest.CopyConfig(config)
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeJSON
		c := typed(t, config)
		wrong := types.UID("another")
		err := c.Projects().Delete(context.WithoutCancel(ctx), made.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "another") {
			t.Errorf("a precondition that does not hold: %v", err)
		}
		err = c.Projects().Delete(ctx, made.GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("a dry run: %v", err)
		}
		if live, err := objects.Resource(projects).Get(ctx, made.GetName(), metav1.GetOptions{}); err != nil || live.GetDeletionTimestamp() != nil {
			t.Errorf("a dry run deleted: %v %v", live, err)
		}
	})
}

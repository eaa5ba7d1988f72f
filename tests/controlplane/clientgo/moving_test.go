package clientgo

import (
	"context"
	"slices"
	"testing"

	"controlplane/clientgo/businessv1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// phases are those that the console shows while a namespace moves.
var phases = []string{"Pending", "OldOneLocked", "OldOneDetached", "NewOneCreated", "OldOneTerminating", "Finished"}

// available creates a namespace, and waits until it can be used.
func available(t *testing.T, c *businessv1.Client, project, mark string) *businessv1.Namespace {
	t.Helper()
	made := typedNamespace(project)
	made.Labels = map[string]string{"mark": mark}
	made, err := c.Namespaces(project).Create(deadline(t), made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(context.Background(), poll, patience, true, func(ctx context.Context) (bool, error) {
		made, err = c.Namespaces(project).Get(ctx, made.Name, metav1.GetOptions{})
		return err == nil && made.Status.Phase == "Available", err
	})
	if err != nil {
		t.Fatalf("%s never became available: %v", made.Name, err)
	}
	return made
}

// arrived waits until an informer tells of a namespace that left one project and came to another.
func arrived(t *testing.T, tells seen, name string) {
	t.Helper()
	await(t, tells.deleted, name, "gone from its project")
	await(t, tells.added, name, "in the other project")
}

func lies(t *testing.T, c *businessv1.Client, namespace *businessv1.Namespace, project string) {
	t.Helper()
	found, err := c.Namespaces(project).Get(deadline(t), namespace.Name, metav1.GetOptions{})
	if err != nil || found.UID != namespace.UID {
		t.Errorf("in %s: %+v %v", project, found, err)
	}
	if _, err := c.Namespaces(namespace.Namespace).Get(deadline(t), namespace.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still in %s: %v", namespace.Namespace, err)
	}
}

func emigration(from *businessv1.Namespace, to, mark string) *businessv1.NsEmigration {
	return &businessv1.NsEmigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Labels: map[string]string{"mark": mark}},
		Spec:       businessv1.NsEmigrationSpec{Namespace: from.Name, NsShowName: from.Spec.Namespace, Destination: to},
	}
}

func TestInformerSeesAnEmigrationWalk(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		t.Parallel()
		c, mark := typed(t, config), fresh("mark")
		from, to := makeTyped(t, c).Name, makeTyped(t, c).Name
		namespace := available(t, c, from, mark)
		tells, places := newSeen(), newSeen()
		walked := make(chan string, 100)
		walk := func(object any) { walked <- object.(*businessv1.NsEmigration).Status.Phase }
		walks := inform(t, c.NsEmigrations(from), c.REST, "mark="+mark, tells.handler())
		handler := cache.ResourceEventHandlerFuncs{AddFunc: walk, UpdateFunc: func(_, object any) { walk(object) }}
		if _, err := walks.AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
		inform(t, c.Namespaces(""), c.REST, "mark="+mark, places.handler())
		await(t, places.added, namespace.Name, "there")
		moving, err := c.NsEmigrations(from).Create(deadline(t), emigration(namespace, to, mark), metav1.CreateOptions{})
		if err != nil || moving.Spec.TenantID != "default" {
			t.Fatalf("create: %+v %v", moving, err)
		}
		arrived(t, places, namespace.Name)
		await(t, tells.deleted, moving.Name, "finished and gone")
		if seen := told(walked); !slices.Equal(seen, phases) {
			t.Errorf("the phases were %v", seen)
		}
		lies(t, c, namespace, to)
	})
}

// told is what has come, each once.
func told(walked <-chan string) []string {
	var seen []string
	for len(walked) > 0 {
		seen = append(seen, <-walked)
	}
	return slices.Compact(seen)
}

// One that has not moved yet is called off by deleting it; until then its client can do what it could.
func TestTypedEmigrations(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := typed(t, config)
		from, to := makeTyped(t, c).Name, makeTyped(t, c).Name
		namespace := available(t, c, from, fresh("mark"))
		lifecycle[*businessv1.NsEmigration, *businessv1.NsEmigrationList]{
			resource: "nsemigrations", client: c.NsEmigrations(from), made: emigration(namespace, to, ""),
			message: func(e *businessv1.NsEmigration) *string { return &e.Status.Message },
		}.live(t, config, c)
		_, err := c.NsEmigrations(from).Create(deadline(t), &businessv1.NsEmigration{
			Spec: businessv1.NsEmigrationSpec{TenantID: "default", Namespace: "none", Destination: "none"},
		}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("an emigration of nothing: %v", err)
		}
	})
}

func TestTypedTransfer(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx, mark := typed(t, config), deadline(t), fresh("mark")
		from, to := makeTyped(t, c).Name, makeTyped(t, c).Name
		namespace := available(t, c, from, mark)
		tells := newSeen()
		inform(t, c.Namespaces(""), c.REST, "mark="+mark, tells.handler())
		await(t, tells.added, namespace.Name, "there")
		into := businessv1.NamespaceTransfer{Project: to, Reason: "the team has moved", UID: namespace.UID}
		rehearsed, err := c.Transfer(ctx, from, namespace.Name, into, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || rehearsed.Namespace != to {
			t.Errorf("rehearsed: %+v %v", rehearsed, err)
		}
		moved, err := c.Transfer(ctx, from, namespace.Name, into, metav1.CreateOptions{})
		if err != nil || moved.Namespace != to || moved.UID != namespace.UID || moved.Generation <= namespace.Generation {
			t.Fatalf("moved: %+v %v", moved, err)
		}
		arrived(t, tells, namespace.Name)
		lies(t, c, namespace, to)
	})
}

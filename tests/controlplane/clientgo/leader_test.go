package clientgo

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A controller of our kinds elects its leader at the same kube-apiserver, and the leader writes to us.
func TestLeaderElection(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		if tenant(config) {
			t.Skip("leases are kube-apiserver's")
		}
		leases, err := coordination.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		c, name := client(t, config), fresh("leader")
		t.Cleanup(func() {
			_ = leases.Leases("default").Delete(context.Background(), name, metav1.DeleteOptions{})
		})
		leads := make(chan string, 2)
		candidate := func(identity string) (stop func()) {
			ctx, cancel := context.WithCancel(deadline(t))
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: name},
					Client:     leases,
					LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
				},
				LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leads <- identity },
					OnStoppedLeading: func() {},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			go elector.Run(ctx)
			return cancel
		}
		leader := func(wanted string) {
			t.Helper()
			select {
			case identity := <-leads:
				if identity != wanted {
					t.Fatalf("%s leads instead of %s", identity, wanted)
				}
				makeProject(t, c, map[string]any{"made-by": identity})
			case <-time.After(patience):
				t.Fatalf("%s never leads", wanted)
			}
		}
		stop := candidate("first")
		leader("first")
		defer candidate("second")()
		stop()
		leader("second")
	})
}

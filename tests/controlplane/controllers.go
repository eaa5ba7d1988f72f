package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/quota/v1/install"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
)

// What kube-controller-manager takes unless told otherwise.
const (
	minResync        = 12 * time.Hour
	syncPeriod       = 5 * time.Minute
	discoveryPeriod  = 30 * time.Second
	quotaWorkers     = 5
	namespaceWorkers = 10
	garbageWorkers   = 20
	roleWorkers      = 5
	tokenWorkers     = 5
	signingWorkers   = 5
	workloadWorkers  = 5
	signingDuration  = 365 * 24 * time.Hour
)

// Its own limits of requests would delete five namespaces a second; this is a machine for tests.
const (
	qps   = 500
	burst = 1000
)

// manager is what the constructors of Kubernetes' controllers ask for, put together as kube-controller-manager does
// with --use-service-account-credentials: each controller acts as its own ServiceAccount in kube-system. That program
// itself would bring a kubelet, a scheduler and every volume driver along.
type manager struct {
	root, own clientbuilder.ControllerClientBuilder
	shared    informers.SharedInformerFactory
	generic   informerfactory.InformerFactory
	metadata  metadata.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	started   chan struct{}
	rootCA    []byte
	key       any
	signing   signing
}

// signing is the authority of client certificates, in files.
type signing struct {
	certificate, key string
}

type controller func(ctx context.Context)

func controllers() {
	kubeconfig := flag.String("kubeconfig", "", "who the program is, and where kube-apiserver is")
	key := flag.String("service-account-private-key-file", "", "signs the tokens in Secrets")
	rootCA := flag.String("root-ca-file", "", "published in every namespace")
	var signing signing
	flag.StringVar(&signing.certificate, "cluster-signing-cert-file", "", "signs approved requests for client certificates")
	flag.StringVar(&signing.key, "cluster-signing-key-file", "", "its key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *key, *rootCA, signing); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, key, rootCA string, signing signing) error {
	manager, err := newManager(ctx, kubeconfig, key, rootCA)
	if err != nil {
		return err
	}
	manager.signing = signing
	var all []controller
	for _, build := range []func(context.Context) (controller, error){
		// First: the others act with tokens.
		manager.serviceAccountTokens,
		manager.serviceAccounts,
		manager.namespaces,
		manager.garbage,
		manager.resourceQuotas,
		manager.rootCertificates,
		manager.clusterRoles,
		manager.clientCertificates,
		manager.deployments,
		manager.replicaSets,
	} {
		controller, err := build(ctx)
		if err != nil {
			return err
		}
		all = append(all, controller)
	}
	manager.shared.Start(ctx.Done())
	manager.generic.Start(ctx.Done())
	close(manager.started)
	var running sync.WaitGroup
	for _, controller := range all {
		running.Go(func() { controller(ctx) })
	}
	running.Wait()
	return nil
}

func newManager(ctx context.Context, kubeconfig, key, rootCA string) (*manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = qps, burst
	this := &manager{root: clientbuilder.SimpleControllerClientBuilder{ClientConfig: config}, started: make(chan struct{})}
	if this.key, err = keyutil.PrivateKeyFromFile(key); err != nil {
		return nil, err
	}
	if this.rootCA, err = os.ReadFile(rootCA); err != nil {
		return nil, err
	}
	client, err := this.root.Client("shared-informers")
	if err != nil {
		return nil, err
	}
	this.own = clientbuilder.NewDynamicClientBuilder(rest.AnonymousClientConfig(config), client.CoreV1(), metav1.NamespaceSystem)
	this.shared = informers.NewSharedInformerFactoryWithOptions(client, resync(), informers.WithTransform(trim))
	if this.metadata, err = metadata.NewForConfig(this.root.ConfigOrDie("metadata-informers")); err != nil {
		return nil, err
	}
	byMetadata := metadatainformer.NewSharedInformerFactoryWithOptions(this.metadata, resync(), metadatainformer.WithTransform(trim))
	this.generic = informerfactory.NewInformerFactory(this.shared, byMetadata)
	discovery, err := this.root.DiscoveryClient("controller-discovery")
	if err != nil {
		return nil, err
	}
	this.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	go wait.Until(this.mapper.Reset, discoveryPeriod, ctx.Done())
	return this, nil
}

func resync() time.Duration {
	return minResync + rand.N(minResync)
}

// trim drops what no controller reads.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// identity is one controller's: its client and its discovery.
func (m *manager) identity(name string) (kubernetes.Interface, discovery.DiscoveryInterface, error) {
	client, err := m.own.Client(name)
	if err != nil {
		return nil, nil, err
	}
	discovery, err := m.own.DiscoveryClient(name)
	return client, discovery, err
}

func (m *manager) serviceAccountTokens(ctx context.Context) (controller, error) {
	client, err := m.root.Client("tokens-controller")
	if err != nil {
		return nil, err
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, m.key)
	if err != nil {
		return nil, err
	}
	core := m.shared.Core().V1()
	built, err := serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: m.rootCA})
	return func(ctx context.Context) { built.Run(ctx, tokenWorkers) }, err
}

func (m *manager) serviceAccounts(ctx context.Context) (controller, error) {
	client, err := m.own.Client("service-account-controller")
	if err != nil {
		return nil, err
	}
	core := m.shared.Core().V1()
	built, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(),
		client, serviceaccount.DefaultServiceAccountsControllerOptions())
	return func(ctx context.Context) { built.Run(ctx, 1) }, err
}

func (m *manager) namespaces(ctx context.Context) (controller, error) {
	config, err := m.own.Config("namespace-controller")
	if err != nil {
		return nil, err
	}
	config.QPS *= 20
	config.Burst *= 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	byMetadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	built := namespace.NewNamespaceController(ctx, client, byMetadata, client.Discovery().ServerPreferredNamespacedResources,
		m.shared.Core().V1().Namespaces(), syncPeriod, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { built.Run(ctx, namespaceWorkers) }, nil
}

func (m *manager) garbage(ctx context.Context) (controller, error) {
	const name = "generic-garbage-collector"
	client, discovery, err := m.identity(name)
	if err != nil {
		return nil, err
	}
	config, err := m.own.Config(name)
	if err != nil {
		return nil, err
	}
	config.QPS *= 2
	byMetadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, m.metadata, m.mapper, garbagecollector.DefaultIgnoredResources(),
		m.generic, m.started)
	built, err := garbagecollector.NewComposedGarbageCollector(ctx, client, byMetadata, m.mapper, graph)
	return func(ctx context.Context) {
		go built.Sync(ctx, discovery, discoveryPeriod)
		built.Run(ctx, garbageWorkers, discoveryPeriod)
	}, err
}

func (m *manager) resourceQuotas(ctx context.Context) (controller, error) {
	client, discovery, err := m.identity("resourcequota-controller")
	if err != nil {
		return nil, err
	}
	list := generic.ListerFuncForResourceFunc(m.shared.ForResource)
	quota, err := install.NewQuotaConfigurationForControllers(list, m.shared)
	if err != nil {
		return nil, err
	}
	resources := discovery.ServerPreferredNamespacedResources
	built, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     m.shared.Core().V1().ResourceQuotas(),
		ResyncPeriod:              func() time.Duration { return syncPeriod },
		InformerFactory:           m.generic,
		ReplenishmentResyncPeriod: resync,
		DiscoveryFunc:             resources,
		IgnoredResourcesFunc:      quota.IgnoredResources,
		InformersStarted:          m.started,
		Registry:                  generic.NewRegistry(quota.Evaluators()),
		UpdateFilter:              install.DefaultUpdateFilter(),
	})
	return func(ctx context.Context) {
		go built.Sync(ctx, resources, discoveryPeriod)
		built.Run(ctx, quotaWorkers)
	}, err
}

func (m *manager) rootCertificates(context.Context) (controller, error) {
	client, err := m.own.Client("root-ca-cert-publisher")
	if err != nil {
		return nil, err
	}
	core := m.shared.Core().V1()
	built, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, m.rootCA)
	return func(ctx context.Context) { built.Run(ctx, 1) }, err
}

func (m *manager) clusterRoles(context.Context) (controller, error) {
	client, err := m.own.Client("clusterrole-aggregation-controller")
	if err != nil {
		return nil, err
	}
	built := clusterroleaggregation.NewClusterRoleAggregation(m.shared.Rbac().V1().ClusterRoles(), client.RbacV1())
	return func(ctx context.Context) { built.Run(ctx, roleWorkers) }, nil
}

// clientCertificates signs what somebody has approved for the signer kubernetes.io/kube-apiserver-client.
func (m *manager) clientCertificates(ctx context.Context) (controller, error) {
	client, err := m.own.Client("certificate-controller")
	if err != nil {
		return nil, err
	}
	requests := m.shared.Certificates().V1().CertificateSigningRequests()
	built, err := signer.NewKubeAPIServerClientCSRSigningController(ctx, client, requests, m.signing.certificate, m.signing.key,
		signingDuration)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { built.Run(ctx, signingWorkers) }, nil
}

func (m *manager) deployments(ctx context.Context) (controller, error) {
	client, err := m.own.Client("deployment-controller")
	if err != nil {
		return nil, err
	}
	apps := m.shared.Apps().V1()
	built, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), m.shared.Core().V1().Pods(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { built.Run(ctx, workloadWorkers) }, nil
}

func (m *manager) replicaSets(ctx context.Context) (controller, error) {
	client, err := m.own.Client("replicaset-controller")
	if err != nil {
		return nil, err
	}
	built := replicaset.NewReplicaSetController(ctx, m.shared.Apps().V1().ReplicaSets(), m.shared.Core().V1().Pods(), client,
		replicaset.BurstReplicas)
	return func(ctx context.Context) { built.Run(ctx, workloadWorkers) }, nil
}

package businessv1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

var (
	// Scheme knows the kinds of this package.
	Scheme = runtime.NewScheme()
	// ParameterCodec encodes options as query parameters.
	ParameterCodec = runtime.NewParameterCodec(Scheme)
	codecs         = serializer.NewCodecFactory(Scheme)
)

func init() {
	metav1.AddToGroupVersion(Scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(AddToScheme(Scheme))
}

// Projects is a typed client of projects.
type Projects = gentype.ClientWithList[*Project, *ProjectList]

// Namespaces is a typed client of the namespaces of a project.
type Namespaces = gentype.ClientWithList[*Namespace, *NamespaceList]

// Client is a typed client of business.tkestack.io/v1.
type Client struct{ REST rest.Interface }

// NewForConfig makes a client.
func NewForConfig(config *rest.Config) (*Client, error) {
	own := rest.CopyConfig(config)
	own.GroupVersion = &SchemeGroupVersion
	own.APIPath = "/apis"
	own.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(Scheme, codecs).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// Projects gives the client of projects.
func (c *Client) Projects() *Projects {
	return gentype.NewClientWithList("projects", c.REST, ParameterCodec, "",
		func() *Project { return &Project{} }, func() *ProjectList { return &ProjectList{} })
}

// Namespaces gives the client of a project's namespaces; of all projects when it is empty.
func (c *Client) Namespaces(project string) *Namespaces {
	return gentype.NewClientWithList("namespaces", c.REST, ParameterCodec, project,
		func() *Namespace { return &Namespace{} }, func() *NamespaceList { return &NamespaceList{} })
}

package businessv1

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Certificate has a client certificate issued for whoever asks, good for so many days; for the server's default where
// they are empty.
func (c *Client) Certificate(ctx context.Context, project, name, validDays string) (*Namespace, error) {
	request := c.REST.Get().Namespace(project).Resource("namespaces").Name(name).SubResource("certificate")
	if validDays != "" {
		request = request.Param("validDays", validDays)
	}
	answer := &Namespace{}
	return answer, request.Do(ctx).Into(answer)
}

// Transfer moves a namespace to another project, and answers it as it lies there.
func (c *Client) Transfer(ctx context.Context, project, name string, to NamespaceTransfer, options metav1.CreateOptions) (*Namespace, error) {
	body, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	answer := &Namespace{}
	err = c.REST.Post().Namespace(project).Resource("namespaces").Name(name).SubResource("transfer").
		VersionedParams(&options, ParameterCodec).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Into(answer)
	return answer, err
}

// Finalize writes the finalizers of an object's spec, as controllers do at its end.
func (c *Client) Finalize(ctx context.Context, resource string, object, into runtime.Object) error {
	meta := object.(metav1.Object)
	return c.REST.Put().NamespaceIfScoped(meta.GetNamespace(), meta.GetNamespace() != "").Resource(resource).
		Name(meta.GetName()).SubResource("finalize").Body(object).Do(ctx).Into(into)
}

// Portal is what its reader is, and which projects he sees.
func (c *Client) Portal(ctx context.Context) (*Portal, error) {
	answer := &Portal{}
	return answer, c.REST.Get().Resource("portal").Do(ctx).Into(answer)
}

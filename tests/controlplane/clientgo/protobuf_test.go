package clientgo

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Controllers that were generated for the old server send protobuf unless they are told otherwise.
func TestABodyInProtobufIsToldWhatToSet(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c, ctx := typed(t, config), deadline(t)
		project := makeTyped(t, c).Name
		for _, resource := range []string{"projects", "configmaps", "namespaces", "nsemigrations", "imagenamespaces", "chartgroups"} {
			at := func(verb *rest.Request) *rest.Request {
				return verb.NamespaceIfScoped(project, resource != "projects" && resource != "configmaps").Resource(resource)
			}
			for what, request := range map[string]*rest.Request{"create": at(c.REST.Post()), "update": at(c.REST.Put()).Name("any")} {
				err := request.SetHeader("Content-Type", runtime.ContentTypeProtobuf).Body([]byte("k8s\x00")).Do(ctx).Error()
				if !apierrors.IsUnsupportedMediaType(err) || !strings.Contains(err.Error(), "set the content type application/json") {
					t.Errorf("%s of %s in protobuf: %v", what, resource, err)
				}
			}
		}
	})
}

// What it says helps: the same configuration works once it is set.
func TestAConfigurationForJSONIsEnough(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		config = rest.CopyConfig(config)
		config.ContentType = runtime.ContentTypeJSON
		c := typed(t, config)
		made := makeTyped(t, c)
		patch := []byte(`{"spec":{"displayName":"by JSON"}}`)
		got, err := c.Projects().Patch(deadline(t), made.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil || got.Spec.DisplayName != "by JSON" {
			t.Errorf("patch: %+v %v", got, err)
		}
	})
}

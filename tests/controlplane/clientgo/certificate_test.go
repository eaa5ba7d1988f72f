package clientgo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"controlplane/clientgo/businessv1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// A typed client gets a certificate, and with it its caller enters this one namespace of the cluster.
func TestTypedCertificate(t *testing.T) {
	each(t, func(t *testing.T, config *rest.Config) {
		c := typed(t, config)
		project := makeTyped(t, c).Name
		namespace := available(t, c, project, fresh("mark"))
		answer, err := c.Certificate(deadline(t), project, namespace.Name, "2")
		if err != nil {
			t.Fatal(err)
		}
		issued := answer.Status.Certificate
		if answer.UID != namespace.UID || issued == nil || !strings.HasPrefix(issued.APIServer, "https://") {
			t.Fatalf("certificate: %+v", answer)
		}
		lasts(t, issued, 48*time.Hour)
		pods := client(t, &rest.Config{
			Host: issued.APIServer,
			TLSClientConfig: rest.TLSClientConfig{
				CertData: issued.CertPem, KeyData: issued.KeyPem, CAData: issued.CACertPem,
			},
		}).Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
		err = wait.PollUntilContextTimeout(context.Background(), poll, patience, true, func(ctx context.Context) (bool, error) {
			_, err := pods.Namespace(namespace.Spec.Namespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsForbidden(err) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			t.Errorf("the certificate does not open its namespace: %v", err)
		}
		if _, err := pods.Namespace("kube-system").List(deadline(t), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the certificate opens another namespace: %v", err)
		}
		if _, err := c.Certificate(deadline(t), project, namespace.Name, "-5"); err == nil {
			t.Error("a certificate for less than no time")
		}
	})
}

func lasts(t *testing.T, issued *businessv1.NamespaceCert, at time.Duration) {
	t.Helper()
	pair, err := tls.X509KeyPair(issued.CertPem, issued.KeyPem)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(certificate.NotAfter); left <= 0 || left > at {
		t.Errorf("the certificate lasts %s", left)
	}
	if !strings.HasPrefix(certificate.Subject.CommonName, "business:") {
		t.Errorf("the certificate is for %q", certificate.Subject.CommonName)
	}
}

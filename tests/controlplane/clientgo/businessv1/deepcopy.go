package businessv1

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (in *Project) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (in *ProjectList) DeepCopyObject() runtime.Object {
	out := &ProjectList{TypeMeta: in.TypeMeta, ListMeta: *in.ListMeta.DeepCopy(), Items: slices.Clone(in.Items)}
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopy()
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (in *Namespace) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (in *NamespaceList) DeepCopyObject() runtime.Object {
	out := &NamespaceList{TypeMeta: in.TypeMeta, ListMeta: *in.ListMeta.DeepCopy(), Items: slices.Clone(in.Items)}
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopy()
	}
	return out
}

// DeepCopy copies a project with all that it points to.
func (in *Project) DeepCopy() *Project {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Finalizers = slices.Clone(in.Spec.Finalizers)
	out.Spec.Members = slices.Clone(in.Spec.Members)
	out.Spec.Clusters = copyClusters(in.Spec.Clusters)
	if in.Status.Locked != nil {
		locked := *in.Status.Locked
		out.Status.Locked = &locked
	}
	out.Status.Clusters = maps.Clone(in.Status.Clusters)
	for name, quantity := range in.Status.Clusters {
		out.Status.Clusters[name] = UsedQuantity{Used: quantity.Used.DeepCopy()}
	}
	out.Status.CalculatedChildProjects = slices.Clone(in.Status.CalculatedChildProjects)
	out.Status.CalculatedNamespaces = slices.Clone(in.Status.CalculatedNamespaces)
	out.Status.CachedSpecClusters = copyClusters(in.Status.CachedSpecClusters)
	if in.Status.CachedParent != nil {
		parent := *in.Status.CachedParent
		out.Status.CachedParent = &parent
	}
	out.Status.LastTransitionTime = *in.Status.LastTransitionTime.DeepCopy()
	out.Status.Conditions = copyConditions(in.Status.Conditions)
	return &out
}

func copyClusters(in map[string]HardQuantity) map[string]HardQuantity {
	out := maps.Clone(in)
	for name, quantity := range in {
		out[name] = HardQuantity{Hard: quantity.Hard.DeepCopy()}
	}
	return out
}

// DeepCopy copies a namespace with all that it points to.
func (in *Namespace) DeepCopy() *Namespace {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Finalizers = slices.Clone(in.Spec.Finalizers)
	out.Spec.Hard = in.Spec.Hard.DeepCopy()
	out.Status.LastTransitionTime = *in.Status.LastTransitionTime.DeepCopy()
	out.Status.Used = in.Status.Used.DeepCopy()
	out.Status.CachedSpecHard = in.Status.CachedSpecHard.DeepCopy()
	if certificate := in.Status.Certificate; certificate != nil {
		out.Status.Certificate = &NamespaceCert{
			CertPem:   slices.Clone(certificate.CertPem),
			KeyPem:    slices.Clone(certificate.KeyPem),
			CACertPem: slices.Clone(certificate.CACertPem),
			APIServer: certificate.APIServer,
		}
	}
	out.Status.Conditions = copyConditions(in.Status.Conditions)
	return &out
}

func copyConditions(in []metav1.Condition) []metav1.Condition {
	out := slices.Clone(in)
	for i := range in {
		in[i].DeepCopyInto(&out[i])
	}
	return out
}

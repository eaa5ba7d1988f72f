// Package businessv1 holds the kinds of business.tkestack.io/v1 as Go types and a client for them, in the form that
// code generators give them.
package businessv1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// SchemeGroupVersion is the group and version of the kinds.
var SchemeGroupVersion = schema.GroupVersion{Group: "business.tkestack.io", Version: "v1"}

// Project is a budget of hard quota by member cluster.
type Project struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProjectSpec   `json:"spec,omitempty"`
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectList is a list of projects.
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Project `json:"items"`
}

// ProjectSpec is what a project is meant to be.
type ProjectSpec struct {
	Finalizers        []string                `json:"finalizers,omitempty"`
	TenantID          string                  `json:"tenantID"`
	DisplayName       string                  `json:"displayName,omitempty"`
	Members           []string                `json:"members"`
	ParentProjectName string                  `json:"parentProjectName,omitempty"`
	Clusters          map[string]HardQuantity `json:"clusters,omitempty"`
}

// HardQuantity is the hard quota on one cluster.
type HardQuantity struct {
	Hard corev1.ResourceList `json:"hard,omitempty"`
}

// UsedQuantity is what is given away on one cluster.
type UsedQuantity struct {
	Used corev1.ResourceList `json:"used,omitempty"`
}

// ProjectStatus is where a project is.
type ProjectStatus struct {
	Locked                  *bool                   `json:"locked,omitempty"`
	Phase                   string                  `json:"phase,omitempty"`
	Clusters                map[string]UsedQuantity `json:"clusters,omitempty"`
	CalculatedChildProjects []string                `json:"calculatedChildProjects,omitempty"`
	CalculatedNamespaces    []string                `json:"calculatedNamespaces,omitempty"`
	CachedSpecClusters      map[string]HardQuantity `json:"cachedSpecClusters,omitempty"`
	CachedParent            *string                 `json:"cachedParent,omitempty"`
	LastTransitionTime      metav1.Time             `json:"lastTransitionTime,omitempty"`
	Reason                  string                  `json:"reason,omitempty"`
	Message                 string                  `json:"message,omitempty"`
	ObservedGeneration      int64                   `json:"observedGeneration,omitempty"`
	Conditions              []metav1.Condition      `json:"conditions,omitempty"`
}

// Namespace is part of a project's quota, carved out for one namespace of one cluster.
type Namespace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NamespaceSpec   `json:"spec,omitempty"`
	Status NamespaceStatus `json:"status,omitempty"`
}

// NamespaceList is a list of namespaces.
type NamespaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Namespace `json:"items"`
}

// NamespaceSpec is what a namespace is meant to be.
type NamespaceSpec struct {
	Finalizers         []string            `json:"finalizers,omitempty"`
	TenantID           string              `json:"tenantID"`
	ClusterName        string              `json:"clusterName"`
	ClusterType        string              `json:"clusterType"`
	ClusterVersion     string              `json:"clusterVersion"`
	ClusterDisplayName string              `json:"clusterDisplayName"`
	Namespace          string              `json:"namespace"`
	Hard               corev1.ResourceList `json:"hard,omitempty"`
}

// NamespaceStatus is where a namespace is.
type NamespaceStatus struct {
	Phase              string              `json:"phase"`
	LastTransitionTime metav1.Time         `json:"lastTransitionTime,omitempty"`
	Reason             string              `json:"reason,omitempty"`
	Message            string              `json:"message,omitempty"`
	ResourceQuotaName  string              `json:"resourceQuotaName,omitempty"`
	Used               corev1.ResourceList `json:"used,omitempty"`
	CachedSpecHard     corev1.ResourceList `json:"cachedSpecHard,omitempty"`
	Certificate        *NamespaceCert      `json:"certificate,omitempty"`
	ObservedGeneration int64               `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition  `json:"conditions,omitempty"`
}

// NamespaceCert opens a namespace in its cluster for whoever asked for it.
type NamespaceCert struct {
	CertPem   []byte `json:"certPem,omitempty"`
	KeyPem    []byte `json:"keyPem,omitempty"`
	CACertPem []byte `json:"caCertPem,omitempty"`
	APIServer string `json:"apiServer,omitempty"`
}

// NamespaceTransfer says which project a namespace shall lie in.
type NamespaceTransfer struct {
	Project string    `json:"project"`
	Reason  string    `json:"reason,omitempty"`
	UID     types.UID `json:"uid,omitempty"`
}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &Project{}, &ProjectList{}, &Namespace{}, &NamespaceList{},
		&Platform{}, &PlatformList{}, &Portal{}, &ConfigMap{}, &ConfigMapList{},
		&ImageNamespace{}, &ImageNamespaceList{}, &ChartGroup{}, &ChartGroupList{}, &NsEmigration{}, &NsEmigrationList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

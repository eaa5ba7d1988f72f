package businessv1

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/gentype"
)

// Platform names the administrators of a tenant.
type Platform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PlatformSpec `json:"spec,omitempty"`
}

// PlatformList is a list of platforms.
type PlatformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Platform `json:"items"`
}

// PlatformSpec is whose administrators they are, and who.
type PlatformSpec struct {
	TenantID       string   `json:"tenantID"`
	Administrators []string `json:"administrators"`
}

// Portal is what its reader is, and which projects he sees.
type Portal struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Administrator bool                     `json:"administrator"`
	Projects      map[string]string        `json:"projects"`
	Extension     map[string]PortalProject `json:"extension"`
}

// PortalProject is what the portal shows of a project beside its name.
type PortalProject struct {
	Phase  string `json:"phase"`
	Parent string `json:"parent"`
}

// ConfigMap holds texts and bytes under names.
type ConfigMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

// ConfigMapList is a list of config maps.
type ConfigMapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ConfigMap `json:"items"`
}

// ImageNamespace binds a namespace of the registry to a project.
type ImageNamespace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RegistrySpec   `json:"spec,omitempty"`
	Status RegistryStatus `json:"status,omitempty"`
}

// ImageNamespaceList is a list of image namespaces.
type ImageNamespaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImageNamespace `json:"items"`
}

// ChartGroup binds a chart group of the registry to a project.
type ChartGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RegistrySpec   `json:"spec,omitempty"`
	Status RegistryStatus `json:"status,omitempty"`
}

// ChartGroupList is a list of chart groups.
type ChartGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ChartGroup `json:"items"`
}

// RegistrySpec is what an image namespace or a chart group is meant to be.
type RegistrySpec struct {
	Finalizers  []string `json:"finalizers,omitempty"`
	Name        string   `json:"name"`
	TenantID    string   `json:"tenantID"`
	DisplayName string   `json:"displayName,omitempty"`
}

// RegistryStatus is where an image namespace or a chart group is.
type RegistryStatus struct {
	Phase              string      `json:"phase"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// NsEmigration moves a namespace to another project.
type NsEmigration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NsEmigrationSpec `json:"spec,omitempty"`
	Status RegistryStatus   `json:"status,omitempty"`
}

// NsEmigrationList is a list of emigrations.
type NsEmigrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NsEmigration `json:"items"`
}

// NsEmigrationSpec is which namespace moves, and where to.
type NsEmigrationSpec struct {
	TenantID    string `json:"tenantID"`
	Namespace   string `json:"namespace"`
	NsShowName  string `json:"nsShowName"`
	Destination string `json:"destination"`
}

// Platforms gives the client of platforms.
func (c *Client) Platforms() *gentype.ClientWithList[*Platform, *PlatformList] {
	return gentype.NewClientWithList("platforms", c.REST, ParameterCodec, "",
		func() *Platform { return &Platform{} }, func() *PlatformList { return &PlatformList{} })
}

// ConfigMaps gives the client of config maps.
func (c *Client) ConfigMaps() *gentype.ClientWithList[*ConfigMap, *ConfigMapList] {
	return gentype.NewClientWithList("configmaps", c.REST, ParameterCodec, "",
		func() *ConfigMap { return &ConfigMap{} }, func() *ConfigMapList { return &ConfigMapList{} })
}

// ImageNamespaces gives the client of a project's image namespaces.
func (c *Client) ImageNamespaces(project string) *gentype.ClientWithList[*ImageNamespace, *ImageNamespaceList] {
	return gentype.NewClientWithList("imagenamespaces", c.REST, ParameterCodec, project,
		func() *ImageNamespace { return &ImageNamespace{} }, func() *ImageNamespaceList { return &ImageNamespaceList{} })
}

// ChartGroups gives the client of a project's chart groups.
func (c *Client) ChartGroups(project string) *gentype.ClientWithList[*ChartGroup, *ChartGroupList] {
	return gentype.NewClientWithList("chartgroups", c.REST, ParameterCodec, project,
		func() *ChartGroup { return &ChartGroup{} }, func() *ChartGroupList { return &ChartGroupList{} })
}

// NsEmigrations gives the client of the emigrations out of a project.
func (c *Client) NsEmigrations(project string) *gentype.ClientWithList[*NsEmigration, *NsEmigrationList] {
	return gentype.NewClientWithList("nsemigrations", c.REST, ParameterCodec, project,
		func() *NsEmigration { return &NsEmigration{} }, func() *NsEmigrationList { return &NsEmigrationList{} })
}

// DeepCopyObject implements runtime.Object.
func (in *Platform) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Administrators = slices.Clone(in.Spec.Administrators)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *Portal) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Projects, out.Extension = maps.Clone(in.Projects), maps.Clone(in.Extension)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *ConfigMap) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Data, out.BinaryData = maps.Clone(in.Data), maps.Clone(in.BinaryData)
	for key, value := range in.BinaryData {
		out.BinaryData[key] = slices.Clone(value)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *ImageNamespace) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Finalizers = slices.Clone(in.Spec.Finalizers)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *ChartGroup) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Finalizers = slices.Clone(in.Spec.Finalizers)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *NsEmigration) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *PlatformList) DeepCopyObject() runtime.Object {
	return &PlatformList{in.TypeMeta, *in.ListMeta.DeepCopy(), copies(in.Items, (*Platform).DeepCopyObject)}
}

// DeepCopyObject implements runtime.Object.
func (in *ConfigMapList) DeepCopyObject() runtime.Object {
	return &ConfigMapList{in.TypeMeta, *in.ListMeta.DeepCopy(), copies(in.Items, (*ConfigMap).DeepCopyObject)}
}

// DeepCopyObject implements runtime.Object.
func (in *ImageNamespaceList) DeepCopyObject() runtime.Object {
	return &ImageNamespaceList{in.TypeMeta, *in.ListMeta.DeepCopy(), copies(in.Items, (*ImageNamespace).DeepCopyObject)}
}

// DeepCopyObject implements runtime.Object.
func (in *ChartGroupList) DeepCopyObject() runtime.Object {
	return &ChartGroupList{in.TypeMeta, *in.ListMeta.DeepCopy(), copies(in.Items, (*ChartGroup).DeepCopyObject)}
}

// DeepCopyObject implements runtime.Object.
func (in *NsEmigrationList) DeepCopyObject() runtime.Object {
	return &NsEmigrationList{in.TypeMeta, *in.ListMeta.DeepCopy(), copies(in.Items, (*NsEmigration).DeepCopyObject)}
}

func copies[T any](items []T, copy func(*T) runtime.Object) []T {
	out := slices.Clone(items)
	for i := range items {
		out[i] = *any(copy(&items[i])).(*T)
	}
	return out
}

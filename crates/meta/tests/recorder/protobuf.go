package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/framer"
)

var text = []string{"", "a", "b-c", "\"quoted\"\n<&>", "ünïcödé", "x/y.z", string(bytes.Repeat([]byte("long"), 35))}

func optional[T any](r *rand.Rand, value func() T) *T {
	if r.Intn(2) == 0 {
		return nil
	}
	v := value()
	return &v
}

func several[T any](r *rand.Rand, value func() T) []T {
	var list []T
	for range r.Intn(3) {
		list = append(list, value())
	}
	return list
}

func texts(r *rand.Rand) map[string]string {
	if r.Intn(3) == 0 {
		return nil
	}
	found := map[string]string{}
	for range 1 + r.Intn(4) {
		found[pick(r, text...)] = pick(r, text...)
	}
	return found
}

func moment(r *rand.Rand) metav1.Time {
	if r.Intn(5) == 0 {
		return metav1.Time{}
	}
	return metav1.NewTime(time.Unix(pick(r, int64(0), -1, 1767323045, 4102444799, -62135596799), 0).UTC())
}

func number(r *rand.Rand) int64 { return pick(r, int64(0), 1, 127, 128, 300, 1<<40, -1) }
func yesOrNo(r *rand.Rand) bool { return r.Intn(2) == 0 }

func metadata(r *rand.Rand) metav1.ObjectMeta {
	word := func() string { return pick(r, text...) }
	yes := func() bool { return yesOrNo(r) }
	return metav1.ObjectMeta{
		Name: word(), GenerateName: word(), Namespace: word(), UID: types.UID(word()), ResourceVersion: pick(r, "", "7", "1234567"),
		Generation: number(r), CreationTimestamp: moment(r), DeletionTimestamp: optional(r, func() metav1.Time { return metav1.NewTime(time.Unix(1767323045, 0).UTC()) }),
		DeletionGracePeriodSeconds: optional(r, func() int64 { return number(r) }), Labels: texts(r), Annotations: texts(r),
		Finalizers: several(r, word),
		OwnerReferences: several(r, func() metav1.OwnerReference {
			return metav1.OwnerReference{
				APIVersion: word(), Kind: word(), Name: word(), UID: types.UID(word()),
				Controller: optional(r, yes), BlockOwnerDeletion: optional(r, yes),
			}
		}),
		ManagedFields: several(r, func() metav1.ManagedFieldsEntry {
			return metav1.ManagedFieldsEntry{
				Manager: word(), Operation: metav1.ManagedFieldsOperationType(pick(r, "Apply", "Update")), APIVersion: word(),
				Time: optional(r, func() metav1.Time { return metav1.NewTime(time.Unix(1767323045, 0).UTC()) }), FieldsType: pick(r, "", "FieldsV1"), Subresource: word(),
				FieldsV1: optional(r, func() metav1.FieldsV1 {
					return metav1.FieldsV1{Raw: []byte(pick(r, `{}`, `{"f:metadata":{"f:labels":{".":{},"k:{\"a\":\"b\"}":{}}}}`))}
				}),
			}
		}),
	}
}

func listMeta(r *rand.Rand) metav1.ListMeta {
	return metav1.ListMeta{
		ResourceVersion: pick(r, "", "7", "1234567"), Continue: pick(r, text...), RemainingItemCount: optional(r, func() int64 { return number(r) }),
	}
}

// meta is an object of a random meta type.
func meta(r *rand.Rand) runtime.Object {
	word := func() string { return pick(r, text...) }
	typed := func(gv schema.GroupVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: gv.String(), Kind: kind}
	}
	item := func() metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metadata(r)}
	}
	version := schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}
	old := schema.GroupVersion{Group: "meta.k8s.io", Version: "v1beta1"}
	switch r.Intn(5) {
	case 0:
		return &metav1.PartialObjectMetadata{TypeMeta: typed(pick(r, version, old), "PartialObjectMetadata"), ObjectMeta: metadata(r)}
	case 1:
		return &metav1.PartialObjectMetadataList{
			TypeMeta: typed(version, "PartialObjectMetadataList"), ListMeta: listMeta(r), Items: several(r, item),
		}
	case 2:
		return &metav1beta1.PartialObjectMetadataList{
			TypeMeta: typed(old, "PartialObjectMetadataList"), ListMeta: listMeta(r), Items: several(r, item),
		}
	case 3:
		return &metav1.Status{
			TypeMeta: typed(schema.GroupVersion{Version: "v1"}, "Status"), ListMeta: listMeta(r), Status: pick(r, "Success", "Failure"), Message: word(),
			Reason: metav1.StatusReason(word()), Code: pick(r, int32(0), 200, 404, 500),
			Details: optional(r, func() metav1.StatusDetails {
				return metav1.StatusDetails{
					Name: word(), Group: word(), Kind: word(), UID: types.UID(word()), RetryAfterSeconds: pick(r, int32(0), 1, 300),
					Causes: several(r, func() metav1.StatusCause {
						return metav1.StatusCause{Type: metav1.CauseType(word()), Message: word(), Field: word()}
					}),
				}
			}),
		}
	default:
		return &metav1.DeleteOptions{
			TypeMeta: typed(schema.GroupVersion{Version: "v1"}, "DeleteOptions"), GracePeriodSeconds: optional(r, func() int64 { return number(r) }),
			OrphanDependents:  optional(r, func() bool { return yesOrNo(r) }),
			PropagationPolicy: optional(r, func() metav1.DeletionPropagation { return metav1.DeletionPropagation(word()) }),
			Preconditions: optional(r, func() metav1.Preconditions {
				return metav1.Preconditions{UID: optional(r, func() types.UID { return types.UID(word()) }), ResourceVersion: optional(r, word)}
			}),
			DryRun: several(r, word), IgnoreStoreReadErrorWithClusterBreakingPotential: optional(r, func() bool { return yesOrNo(r) }),
		}
	}
}

// messages prints objects of meta types as JSON and as protobuf; some as events of a watch, with their length.
func messages(r *rand.Rand, count int) {
	scheme := runtime.NewScheme()
	serializer := protobuf.NewSerializerWithOptions(scheme, scheme, protobuf.SerializerOptions{StreamingCollectionsEncoding: true})
	out := json.NewEncoder(os.Stdout)
	for range count {
		object := meta(r)
		var body bytes.Buffer
		if err := serializer.Encode(object, &body); err != nil {
			panic(err)
		}
		line := map[string]any{"object": object, "body": hex.EncodeToString(body.Bytes())}
		if r.Intn(4) == 0 {
			event := metav1.WatchEvent{Type: pick(r, "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"), Object: runtime.RawExtension{Raw: body.Bytes()}}
			data, err := event.Marshal()
			if err != nil {
				panic(err)
			}
			var frame bytes.Buffer
			if _, err := framer.NewLengthDelimitedFrameWriter(&frame).Write(data); err != nil {
				panic(err)
			}
			line["type"], line["frame"] = event.Type, hex.EncodeToString(frame.Bytes())
		}
		if err := out.Encode(line); err != nil {
			panic(fmt.Sprint(err))
		}
	}
}

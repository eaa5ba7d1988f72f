// The recorder runs random histories of creates, updates and applies through upstream's own field manager and prints
// each with its answers, one history a line. managed/tests/recorded.rs replays them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type object = map[string]any

var kind = schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Thing"}
var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// identity converts nothing: there is one version.
type identity struct{}

func (identity) Convert(in, out, context any) error { return fmt.Errorf("not needed") }
func (identity) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (identity) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", fmt.Errorf("not needed")
}
func (identity) Default(runtime.Object) {}
func (identity) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: object{}}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

func manager(types managedfields.TypeConverter, subresource string) *managedfields.FieldManager {
	reset := "status"
	if subresource != "" {
		reset = "spec"
	}
	filters := map[fieldpath.APIVersion]fieldpath.Filter{
		"example.io/v1": fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie(reset))),
	}
	m, err := managedfields.NewDefaultFieldManager(types, identity{}, identity{}, identity{}, kind, kind.GroupVersion(), subresource, filters)
	if err != nil {
		panic(err)
	}
	return m
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.Intn(len(values))] }

func maybe(r *rand.Rand, into object, key string, value func() any) {
	if r.Intn(3) == 0 {
		into[key] = value()
	}
}

func some(r *rand.Rand, values ...string) []any {
	out := []any{}
	for _, i := range r.Perm(len(values)) {
		if r.Intn(2) == 0 {
			out = append(out, values[i])
		}
	}
	return out
}

func mapping(r *rand.Rand) any {
	m := object{}
	for _, k := range []string{"k1", "k2", "k3"} {
		maybe(r, m, k, func() any { return pick(r, "x", "y") })
	}
	return m
}

func pair(r *rand.Rand) any {
	m := object{}
	maybe(r, m, "a", func() any { return pick(r, "x", "y", "") })
	maybe(r, m, "b", func() any { return int64(r.Intn(2)) })
	return m
}

func free(r *rand.Rand, depth int) any {
	switch n := r.Intn(6); {
	case n == 0:
		return pick[any](r, "x", int64(1), true, 1.5)
	case n == 1:
		return some(r, "a", "b")
	case depth == 0:
		return "leaf"
	}
	m := object{}
	for _, k := range []string{"p", "q"} {
		maybe(r, m, k, func() any { return free(r, depth-1) })
	}
	return m
}

func items(r *rand.Rand) any {
	out := []any{}
	names := []string{"a", "b", "c", "d"}
	for _, i := range r.Perm(len(names)) {
		if r.Intn(2) != 0 {
			continue
		}
		item := object{"name": names[i]}
		maybe(r, item, "value", func() any { return int64(r.Intn(2)) })
		maybe(r, item, "tags", func() any { return some(r, "t1", "t2", "t3") })
		maybe(r, item, "ports", func() any {
			ports := []any{}
			for _, p := range r.Perm(2) {
				port := object{"port": int64(p + 1)}
				maybe(r, port, "protocol", func() any { return pick(r, "TCP", "UDP") })
				maybe(r, port, "note", func() any { return pick(r, "x", "y") })
				ports = append(ports, port)
			}
			return ports
		})
		out = append(out, item)
	}
	return out
}

func body(r *rand.Rand, status bool) object {
	metadata := object{"name": "thing"}
	maybe(r, metadata, "labels", func() any { return mapping(r) })
	maybe(r, metadata, "annotations", func() any { return mapping(r) })
	maybe(r, metadata, "finalizers", func() any { return some(r, "f/a", "f/b") })
	maybe(r, metadata, "ownerReferences", func() any {
		return []any{object{"apiVersion": "v1", "kind": "A", "name": pick(r, "n", "m"), "uid": pick(r, "1", "2")}}
	})
	out := object{"apiVersion": "example.io/v1", "kind": "Thing", "metadata": metadata}
	spec := object{}
	maybe(r, spec, "text", func() any { return pick(r, "x", "y", "z") })
	maybe(r, spec, "count", func() any { return int64(r.Intn(3)) })
	maybe(r, spec, "on", func() any { return r.Intn(2) == 0 })
	maybe(r, spec, "amount", func() any { return pick(r, "1", "500m") })
	maybe(r, spec, "pair", func() any { return pair(r) })
	maybe(r, spec, "whole", func() any { return pair(r) })
	maybe(r, spec, "map", func() any { return mapping(r) })
	maybe(r, spec, "wholeMap", func() any { return mapping(r) })
	maybe(r, spec, "list", func() any { return some(r, "a", "b", "c") })
	maybe(r, spec, "set", func() any { return some(r, "a", "b", "c") })
	maybe(r, spec, "items", func() any { return items(r) })
	maybe(r, spec, "free", func() any { return free(r, 3) })
	maybe(r, spec, "pairs", func() any { return object{pick(r, "u", "v"): pair(r)} })
	if r.Intn(5) != 0 {
		out["spec"] = spec
	}
	if status {
		conditions := []any{}
		for _, t := range []string{"Ready", "Bound"} {
			if r.Intn(2) == 0 {
				conditions = append(conditions, object{"type": t, "status": pick(r, "True", "False"), "reason": "R"})
			}
		}
		out["status"] = object{"phase": pick(r, "P", "Q"), "conditions": conditions}
	}
	return out
}

// Stored objects hold no null but where anything is allowed, and metadata no empty field.
func tidy(value any) any {
	switch typed := value.(type) {
	case object:
		for k, v := range typed {
			if pairs, ok := v.(object); ok && k == "pairs" {
				// A map's null value is read as its type's zero value.
				for name, pair := range pairs {
					if pair == nil {
						pairs[name] = object{}
					}
				}
			}
			if v == nil {
				delete(typed, k)
			} else if k != "free" {
				typed[k] = tidy(v)
			}
		}
	case []any:
		for i := range typed {
			typed[i] = tidy(typed[i])
		}
	}
	return value
}

func tidyMetadata(value object) {
	metadata := value["metadata"].(object)
	for k, v := range metadata {
		switch typed := v.(type) {
		case object:
			if len(typed) == 0 {
				delete(metadata, k)
			}
		case []any:
			if len(typed) == 0 {
				delete(metadata, k)
			}
		}
	}
}

func setTimes(u *unstructured.Unstructured) {
	entries := u.GetManagedFields()
	for i := range entries {
		if entries[i].Time != nil {
			entries[i].Time = &now
		}
	}
	// Times are equal now, so that only names order the entries.
	sort.SliceStable(entries, func(i, j int) bool {
		p, q := entries[i], entries[j]
		if p.Operation != q.Operation {
			return p.Operation < q.Operation
		}
		if (p.Time == nil) != (q.Time == nil) {
			return p.Time == nil
		}
		if p.Manager != q.Manager {
			return p.Manager < q.Manager
		}
		return p.Subresource < q.Subresource
	})
	u.SetManagedFields(entries)
}

func history(r *rand.Rand, main, status *managedfields.FieldManager) []object {
	steps := []object{}
	var live *unstructured.Unstructured
	managers := []string{"kubectl", "a", "b", "c"}
	if r.Intn(20) == 0 {
		for i := range 12 {
			managers = append(managers, fmt.Sprintf("m%02d", i))
		}
	}
	for range 3 + r.Intn(len(managers)*2) {
		step := object{"manager": pick(r, managers...), "subresource": "", "op": "update", "force": r.Intn(4) == 0}
		if live != nil && r.Intn(4) == 0 {
			step["subresource"] = "status"
		}
		if r.Intn(5) < 3 {
			step["op"] = "apply"
		}
		field := main
		if step["subresource"] == "status" {
			field = status
		}
		given := body(r, step["subresource"] == "status" || r.Intn(4) == 0)
		if live != nil && step["op"] == "apply" && r.Intn(4) == 0 {
			// The same again, or nearly so.
			for i := len(steps) - 1; i >= 0; i-- {
				if steps[i]["op"] == "apply" && steps[i]["subresource"] == step["subresource"] {
					given = runtime.DeepCopyJSON(steps[i]["body"].(object))
					break
				}
			}
		}
		before := live
		if before == nil {
			empty, _ := identity{}.New(kind)
			before = empty.(*unstructured.Unstructured)
		}
		before = before.DeepCopy()
		var result runtime.Object
		var err error
		if step["op"] == "apply" {
			step["body"] = given
			result, err = field.Apply(before, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(given)}, step["manager"].(string), step["force"].(bool))
		} else {
			metadata := given["metadata"].(object)
			if live == nil {
				metadata["uid"] = "0"
			} else {
				metadata["uid"] = string(live.GetUID())
				// Most updates change little.
				if r.Intn(3) > 0 {
					changed := runtime.DeepCopyJSON(live.Object)
					delete(changed["metadata"].(object), "managedFields")
					for _, k := range []string{"spec", "status"} {
						from, _ := given[k].(object)
						into, ok := changed[k].(object)
						if !ok {
							into = object{}
						}
						for f, v := range from {
							if r.Intn(2) == 0 {
								into[f] = v
							} else if r.Intn(3) == 0 {
								delete(into, f)
							}
						}
						if len(into) > 0 {
							changed[k] = into
						}
					}
					given = changed
				} else if r.Intn(8) == 0 {
					metadata["managedFields"] = pick(r, []any{}, []any{object{}})
				}
			}
			tidyMetadata(given)
			if list, ok := given["metadata"].(object)["managedFields"].([]any); ok && len(list) == 0 {
				delete(given["metadata"].(object), "managedFields")
			}
			step["body"] = runtime.DeepCopyJSON(given)
			result = field.UpdateNoErrors(before, &unstructured.Unstructured{Object: given}, step["manager"].(string))
		}
		if err != nil {
			step["error"] = err.Error()
		} else {
			live = result.(*unstructured.Unstructured)
			tidy(live.Object)
			setTimes(live)
			if live.GetUID() == "" {
				live.SetUID("0")
			}
			tidyMetadata(live.Object)
			shown := runtime.DeepCopyJSON(live.Object)
			step["managed"] = shown["metadata"].(object)["managedFields"]
			delete(shown["metadata"].(object), "managedFields")
			step["result"] = shown
		}
		steps = append(steps, step)
	}
	return steps
}

// quantities prints random quantities with their canonical text, or - where they are refused.
func quantities(r *rand.Rand, count int) {
	digits := func(most int) string {
		text := ""
		for range r.Intn(most + 1) {
			text += pick(r, "0", "0", "1", "2", "5", "9")
		}
		return text
	}
	for range count {
		text := pick(r, "", "", "", "-", "+") + digits(6) + pick(r, "", "", ".") + digits(5)
		text += pick(r, "", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e"+digits(1), "E-"+digits(1), "K", "i", "x")
		shown := "-"
		if quantity, err := resource.ParseQuantity(text); err == nil {
			// Adding nothing makes it forget the text it was read from.
			quantity.Add(resource.Quantity{})
			shown = quantity.String()
		}
		fmt.Printf("%s %s\n", text, shown)
	}
}

func named(items any) []any {
	out := []any{}
	for _, item := range items.([]any) {
		out = append(out, object{"name": item.(object)["name"]})
	}
	return out
}

// patch is a strategic merge patch for a spec.
func patch(r *rand.Rand, live object) object {
	out := object{}
	maybe(r, out, "text", func() any { return pick[any](r, "x", nil) })
	maybe(r, out, "list", func() any { return some(r, "a", "d") })
	maybe(r, out, "set", func() any { return some(r, "a", "b", "d") })
	// What is added and deleted at once depends on luck upstream.
	maybe(r, out, "$deleteFromPrimitiveList/set", func() any { return some(r, "c", "e") })
	if live["pair"] != nil {
		maybe(r, out, "pair", func() any {
			change := pair(r).(object)
			switch r.Intn(4) {
			case 0:
				change["$patch"] = pick(r, "replace", "delete")
			case 1:
				change["a"] = nil
			case 2:
				change["$retainKeys"] = some(r, "a", "b")
			}
			return change
		})
	}
	maybe(r, out, "items", func() any {
		list := []any{}
		for _, item := range items(r).([]any) {
			item := item.(object)
			delete(item, "ports")
			switch r.Intn(6) {
			case 0:
				item = object{"name": item["name"], "$patch": "delete"}
			case 1:
				item["value"] = nil
			}
			list = append(list, item)
		}
		if r.Intn(10) == 0 {
			list = append([]any{object{"$patch": "replace"}}, list...)
		}
		return list
	})
	if r.Intn(3) == 0 {
		order := named(items(r))
		if given, ok := out["items"]; ok && r.Intn(4) > 0 {
			order = []any{}
			for _, item := range given.([]any) {
				if item := item.(object); item["$patch"] == nil {
					order = append(order, object{"name": item["name"]})
				}
			}
			order = append(order, object{"name": "z"})
		}
		if len(order) > 0 {
			out["$setElementOrder/items"] = order
			// Upstream deletes inside the list whose order it then looks up.
			if given, ok := out["items"]; ok {
				out["items"] = slices.DeleteFunc(given.([]any), func(item any) bool {
					return item.(object)["$patch"] == "delete"
				})
			}
		}
	}
	if r.Intn(4) == 0 {
		order := []any{"d", "c", "b", "a"}
		if given, ok := out["set"]; ok && r.Intn(4) > 0 {
			order = append([]any{}, given.([]any)...)
		}
		if len(order) > 0 {
			out["$setElementOrder/set"] = order
		}
	}
	if live == nil {
		// Upstream leaves directives in what it adds; ours go.
		for k := range out {
			if k[0] == '$' {
				delete(out, k)
			}
		}
	}
	return out
}

// patches prints random strategic merge patches with what they make of a document; no result where they are refused.
func patches(r *rand.Rand, count int, schemas map[string]*spec.Schema) {
	meta := strategicpatch.PatchMetaFromOpenAPIV3{SchemaList: schemas, Schema: schemas["io.example.v1.Thing"]}
	out := json.NewEncoder(os.Stdout)
	for range count {
		document := body(r, false)
		live, _ := document["spec"].(object)
		line := object{"document": document, "patch": object{"spec": patch(r, live)}}
		result, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(
			runtime.DeepCopyJSON(document), runtime.DeepCopyJSON(line["patch"].(object)), meta)
		if err == nil {
			line["result"] = result
		} else if text := err.Error(); !strings.Contains(text, "doesn't match") && !strings.Contains(text, "retainKeys") {
			// Upstream cannot order a list that is empty or replaced; that is no rule to follow.
			continue
		}
		if err := out.Encode(line); err != nil {
			panic(err)
		}
	}
}

func main() {
	changes := flag.Bool("patches", false, "print strategic merge patches instead of histories")
	amounts := flag.Bool("quantities", false, "print quantities instead of histories")
	bodies := flag.Bool("protobuf", false, "print objects of meta types instead of histories")
	count := flag.Int("n", 200, "histories")
	seed := flag.Int64("seed", 1, "seed")
	path := flag.String("schema", "schema.json", "OpenAPI v3 document")
	flag.Parse()
	if *amounts {
		quantities(rand.New(rand.NewSource(*seed)), *count)
		return
	}
	if *bodies {
		messages(rand.New(rand.NewSource(*seed)), *count)
		return
	}
	text, err := os.ReadFile(*path)
	if err != nil {
		panic(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		panic(err)
	}
	if *changes {
		patches(rand.New(rand.NewSource(*seed)), *count, document.Components.Schemas)
		return
	}
	types, err := managedfields.NewTypeConverter(document.Components.Schemas, false)
	if err != nil {
		panic(err)
	}
	r := rand.New(rand.NewSource(*seed))
	main, status := manager(types, ""), manager(types, "status")
	out := json.NewEncoder(os.Stdout)
	for range *count {
		if err := out.Encode(history(r, main, status)); err != nil {
			panic(err)
		}
	}
}

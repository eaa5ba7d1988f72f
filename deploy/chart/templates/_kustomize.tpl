{{/*
What kustomize makes of deploy/base and deploy/components, the chart makes of the same files: `source` links to them. This is
the part of kustomize that they use: resources, and patches that add.
*/}}

{{/* The objects of a directory with a kustomization.yaml, as a JSON list. Takes root and directory. */}}
{{- define "business.directory" -}}
{{- $root := .root }}
{{- $directory := .directory }}
{{- $text := $root.Files.Get (printf "source/%s/kustomization.yaml" $directory) }}
{{- if not $text }}{{ fail (printf "the chart has no source/%s" $directory) }}{{ end }}
{{- $objects := list }}
{{- range (fromYaml $text).resources }}
  {{- $path := printf "%s/%s" $directory . }}
  {{- if hasSuffix ".yaml" . }}
    {{- $objects = concat $objects (include "business.file" (dict "root" $root "file" $path) | fromJsonArray) }}
  {{- else }}
    {{- $objects = concat $objects (include "business.directory" (dict "root" $root "directory" $path) | fromJsonArray) }}
  {{- end }}
{{- end }}
{{- $objects | toJson }}
{{- end }}

{{/* The objects of a file in the namespaces of this release, as a JSON list. Takes root and file. */}}
{{- define "business.file" -}}
{{- $text := include "business.placed" (dict "root" .root "file" .file) }}
{{- $objects := list }}
{{- range splitList "\n---\n" $text }}
  {{- $object := fromYaml . }}
  {{- if not $object.kind }}{{ fail (printf "%s holds what is no object" $.file) }}{{ end }}
  {{- $objects = append $objects $object }}
{{- end }}
{{- $objects | toJson }}
{{- end }}

{{/* The text of a file with the namespaces of this release. Takes root and file. */}}
{{- define "business.placed" -}}
{{- $text := .root.Files.Get (printf "source/%s" .file) }}
{{- if not $text }}{{ fail (printf "the chart has no source/%s" .file) }}{{ end }}
{{- $text | replace "tke-business-members" "\x00" | replace "tke-business" .root.Release.Namespace | replace "\x00" .root.Values.members.namespace }}
{{- end }}

{{/* Applies the patches of a component to objects. Takes root, component and objects, which it changes in place. */}}
{{- define "business.patch" -}}
{{- $objects := .objects }}
{{- $text := include "business.placed" (dict "root" .root "file" (printf "components/%s/kustomization.yaml" .component)) }}
{{- range (fromYaml $text).patches }}
  {{- $target := .target }}
  {{- range $operation := fromYamlArray .patch }}
    {{- range $object := $objects }}
      {{- if and (eq $object.kind $target.kind) (eq $object.metadata.name $target.name) }}
        {{- include "business.add" (dict "object" $object "operation" $operation) }}
      {{- end }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Adds the value of a JSON patch's operation to an object: a key of a map, or one more element (-) of a list. */}}
{{- define "business.add" -}}
{{- if ne .operation.op "add" }}{{ fail (printf "the chart knows no patch with op %s" .operation.op) }}{{ end }}
{{- $steps := splitList "/" (trimPrefix "/" .operation.path) }}
{{- $last := last $steps }}
{{- $path := initial $steps }}
{{- $list := eq $last "-" }}
{{- if $list }}
  {{- $last = last $path }}
  {{- $path = initial $path }}
{{- end }}
{{- $at := .object }}
{{- range $path }}
  {{- if kindIs "slice" $at }}{{ $at = index $at (int .) }}{{ else }}{{ $at = index $at . }}{{ end }}
{{- end }}
{{- $value := .operation.value }}
{{- if $list }}{{ $value = append (index $at $last) $value }}{{ end }}
{{- $_ := set $at $last $value }}
{{- end }}

{{/* What the values change in the objects that kustomize has, too. Each of these changes an object in place and prints nothing. */}}

{{- define "business.labels" -}}
{{- $labels := dict
  "app.kubernetes.io/part-of" "business"
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63)
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63) }}
{{- merge $labels .Values.commonLabels | toJson }}
{{- end }}

{{/* The image of a program. Takes root and values. */}}
{{- define "business.image" -}}
{{- $image := .root.Values.image }}
{{- $name := printf "%s:%s" .values.repository ($image.tag | default .root.Chart.AppVersion) }}
{{- with .values.digest }}{{ $name = printf "%s@%s" $.values.repository . }}{{ end }}
{{- if $image.registry }}{{ printf "%s/%s" (trimSuffix "/" $image.registry) $name }}{{ else }}{{ $name }}{{ end }}
{{- end }}

{{/* The ids of a pod are the cluster's to give where it refuses ours. Takes root and securityContext, which it changes in place. */}}
{{- define "business.ids" -}}
{{- $context := .securityContext }}
{{- if not .root.Values.fixedIds }}
  {{- range list "runAsUser" "runAsGroup" "fsGroup" }}{{ $_ := unset $context . }}{{ end }}
{{- end }}
{{- end }}

{{/* What is the same for both programs. What people say goes over what the chart says. Takes root, deployment and values. */}}
{{- define "business.deployment" -}}
{{- $root := .root }}
{{- $values := .values }}
{{- $spec := .deployment.spec }}
{{- $pod := $spec.template.spec }}
{{- $container := first $pod.containers }}
{{- include "business.ids" (dict "root" $root "securityContext" $pod.securityContext) }}
{{- /* None are none with an autoscaler, too, which leaves them alone: nobody may serve before a restore is declared. */}}
{{- if and (dig "autoscaling" "enabled" false $values) (gt (int $values.replicas) 0) }}{{ $_ := unset $spec "replicas" }}{{ else }}{{ $_ := set $spec "replicas" $values.replicas }}{{ end }}
{{- $_ := set $container "image" (include "business.image" (dict "root" $root "values" $values)) }}
{{- $_ := set $container "imagePullPolicy" $root.Values.image.pullPolicy }}
{{- $_ := set $container "resources" $values.resources }}
{{- with $values.extraArgs }}{{ $_ := set $container "args" (include "business.args" (dict "args" $container.args "more" .) | fromJsonArray) }}{{ end }}
{{- with $values.extraEnv }}{{ include "business.over" (dict "object" $container "list" "env" "key" "name" "more" .) }}{{ end }}
{{- with $values.extraVolumeMounts }}{{ include "business.over" (dict "object" $container "list" "volumeMounts" "key" "mountPath" "more" .) }}{{ end }}
{{- with $values.extraVolumes }}{{ include "business.over" (dict "object" $pod "list" "volumes" "key" "name" "more" .) }}{{ end }}
{{- with $values.podLabels }}{{ $_ := merge $spec.template.metadata.labels . }}{{ end }}
{{- with $values.podAnnotations }}{{ $_ := set $spec.template.metadata "annotations" . }}{{ end }}
{{- with $values.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end }}
{{- with $values.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end }}
{{- with $values.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- with $values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end }}
{{- with $values.topologySpreadConstraints }}{{ $_ := set $pod "topologySpreadConstraints" . }}{{ end }}
{{- with $root.Values.image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- end }}

{{/* What only business-api has. Takes root and deployment. */}}
{{- define "business.api" -}}
{{- $values := .root.Values }}
{{- $spec := .deployment.spec }}
{{- $pod := $spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $args := $container.args }}
{{- $mounts := $container.volumeMounts }}
{{- $volumes := $pod.volumes }}
{{- range $volumes }}
  {{- if eq .name "tls" }}{{ $_ := set .secret "secretName" $values.certificates.secretName }}{{ end }}
  {{- if eq .name "console" }}{{ $_ := set .secret "secretName" $values.console.secretName }}{{ end }}
{{- end }}
{{- range $container.env }}
  {{- if eq .name "DATABASE_URL" }}
    {{- $_ := set .valueFrom "secretKeyRef" (dict "name" $values.database.secretName "key" $values.database.urlKey) }}
  {{- end }}
{{- end }}
{{- with $values.database.tls }}
  {{- if .caSecretName }}
    {{- $env := list (dict "name" "PGSSLMODE" "value" .mode) (dict "name" "PGSSLROOTCERT" "value" (printf "/database/%s" .caKey)) }}
    {{- $_ := set $container "env" (concat $container.env $env) }}
    {{- $mounts = append $mounts (dict "name" "database" "mountPath" "/database" "readOnly" true) }}
    {{- $items := list (dict "key" .caKey "path" .caKey) }}
    {{- $volumes = append $volumes (dict "name" "database" "secret" (dict "secretName" .caSecretName "items" $items)) }}
  {{- end }}
{{- end }}
{{- with $values.authentication }}
  {{- if .configMapName }}
    {{- $args = append $args (printf "--authentication-config=/authentication/%s" .key) }}
    {{- with .clusterIssuers }}{{ $args = append $args (printf "--cluster-issuers=%s" (join "," .)) }}{{ end }}
    {{- with .tenantIssuers }}{{ $args = append $args (printf "--tenant-issuers=%s" (join "," .)) }}{{ end }}
    {{- $mounts = append $mounts (dict "name" "authentication" "mountPath" "/authentication" "readOnly" true) }}
    {{- $volumes = append $volumes (dict "name" "authentication" "configMap" (dict "name" .configMapName)) }}
  {{- end }}
{{- end }}
{{- if $values.console.enabled }}{{ $args = append $args (printf "--console-origin=%s" (join "," $values.console.origins)) }}{{ end }}
{{- $_ := set $container "args" (concat $args (include "business.forbidden" .root | fromJsonArray)) }}
{{- $_ := set $pod "terminationGracePeriodSeconds" $values.api.terminationGracePeriodSeconds }}
{{- $_ := set $container "volumeMounts" $mounts }}
{{- $_ := set $pod "volumes" $volumes }}
{{- end }}

{{/* What only business-controller has. Takes root and deployment. */}}
{{- define "business.controller" -}}
{{- $container := first .deployment.spec.template.spec.containers }}
{{- $namespace := .root.Values.members.namespace }}
{{- range rest .deployment.spec.template.spec.containers }}
  {{- if eq .name "tunnel" }}{{ include "business.tunnel" (dict "root" $.root "container" .) }}{{ end }}
{{- end }}
{{- $args := list }}
{{- range $container.args }}
  {{- $args = append $args (ternary (printf "--seen-max=%s" $.root.Values.controller.seenMax) . (hasPrefix "--seen-max=" .)) }}
{{- end }}
{{- if ne $namespace "tke-business-members" }}{{ $args = append $args (printf "--members-namespace=%s" $namespace) }}{{ end }}
{{- $_ := set $container "args" (concat $args (include "business.forbidden" .root | fromJsonArray)) }}
{{- end }}

{{/*
The flag with what nobody may claim in a member cluster, as a JSON list; empty where it is what both programs know by themselves.
tke-business is always among them: deploy/member has the controller's account there, wherever this release is.
*/}}
{{- define "business.forbidden" -}}
{{- $known := list "default" "kube-*" "tke-business" "tke-business-members" }}
{{- $all := concat $known (list .Release.Namespace .Values.members.namespace) | uniq }}
{{- $flags := list }}
{{- if ne (len $all) (len $known) }}{{ $flags = list (printf "--forbidden-namespaces=%s" (join "," $all)) }}{{ end }}
{{- $flags | toJson }}
{{- end }}

{{/* The tunnel's server, in the controller's pod. Takes root and container. */}}
{{- define "business.tunnel" -}}
{{- $values := .root.Values }}
{{- $_ := set .container "image" $values.tunnel.image }}
{{- $_ := set .container "resources" $values.tunnel.resources }}
{{- $count := list (printf "--server-count=%d" (int $values.controller.replicas)) }}
{{- $_ := set .container "args" (include "business.args" (dict "args" .container.args "more" $count) | fromJsonArray) }}
{{- end }}

{{/* Where the serving certificate comes from. Takes root and object. */}}
{{- define "business.certificates" -}}
{{- $values := .root.Values.certificates }}
{{- $object := .object }}
{{- if and (eq $object.kind "Certificate") (eq $object.metadata.name "business-api") }}
  {{- $_ := set $object.spec "secretName" $values.secretName }}
  {{- $_ := set $object.spec "dnsNames" (concat $object.spec.dnsNames $values.names | uniq) }}
  {{- if $values.issuer.name }}{{ $_ := set $object.spec "issuerRef" $values.issuer }}{{ end }}
{{- end }}
{{- if and (eq $object.kind "Certificate") (eq $object.metadata.name "business-tunnel") }}
  {{- $_ := set $object.spec "dnsNames" (concat $object.spec.dnsNames .root.Values.tunnel.names | uniq) }}
  {{- if $values.issuer.name }}{{ $_ := set $object.spec "issuerRef" $values.issuer }}{{ end }}
{{- end }}
{{- if and (eq $object.kind "APIService") (eq $values.provider "secret") }}
  {{- $_ := set $object.spec "caBundle" (b64enc (required "certificates.caBundle is wanted with certificates.provider secret" $values.caBundle)) }}
{{- end }}
{{- end }}

{{/* Objects of the Prometheus Operator. Takes object and values. */}}
{{- define "business.monitored" -}}
{{- with .values.labels }}{{ $_ := set $.object.metadata "labels" (merge ($.object.metadata.labels | default dict) .) }}{{ end }}
{{- with .values.namespace }}{{ $_ := set $.object.metadata "namespace" . }}{{ end }}
{{- if .values.interval }}
  {{- range .object.spec.podMetricsEndpoints }}{{ $_ := set . "interval" $.values.interval }}{{ end }}
{{- end }}
{{- if .values.runbooks }}
  {{- range .object.spec.groups }}
    {{- range .rules }}
      {{- $page := .annotations.runbook | trimPrefix "docs/" | replace ".md" ".html" }}
      {{- $_ := set .annotations "runbook_url" (printf "%s/%s" (trimSuffix "/" $.values.runbooks) $page) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Whether an object is wanted: "yes" or nothing. Takes root and object. */}}
{{- define "business.wanted" -}}
{{- $values := .root.Values }}
{{- $kind := .object.kind }}
{{- $name := .object.metadata.name }}
{{- $own := list "business-bootstrap" "business-ca" }}
{{- if eq $kind "Namespace" }}
  {{- if and $values.members.createNamespace (eq $name $values.members.namespace) }}yes{{ end }}
{{- else if hasPrefix "cert-manager.io/" .object.apiVersion }}
  {{- if and (eq $values.certificates.provider "cert-manager") (not (and $values.certificates.issuer.name (has $name $own))) }}yes{{ end }}
{{- else if eq $kind "NetworkPolicy" }}
  {{- if $values.networkPolicies.enabled }}yes{{ end }}
{{- else if eq $kind "PodMonitor" }}
  {{- if $values.monitoring.podMonitors.enabled }}yes{{ end }}
{{- else if eq $kind "PrometheusRule" }}
  {{- if $values.monitoring.rules.enabled }}yes{{ end }}
{{- else if eq $kind "PodDisruptionBudget" }}
  {{- $budget := ternary $values.api.disruptionBudget $values.controller.disruptionBudget (eq $name "business-api") }}
  {{- if $budget.enabled }}yes{{ end }}
{{- else }}yes{{ end }}
{{- end }}

{{/* Who may read metrics. Takes root and object. */}}
{{- define "business.metricsFrom" -}}
{{- $from := .root.Values.networkPolicies.metricsFrom }}
{{- $rules := list }}
{{- range .object.spec.ingress }}
  {{- if eq (first .ports).port "admin" }}
    {{- if $from }}{{ $rules = append $rules (dict "from" $from "ports" .ports) }}{{ end }}
  {{- else }}
    {{- $rules = append $rules . }}
  {{- end }}
{{- end }}
{{- $_ := set .object.spec "ingress" $rules }}
{{- end }}

{{/* An element that is given again under the same key is given anew, not twice. Takes object, list, key and more. */}}
{{- define "business.over" -}}
{{- $key := .key }}
{{- $given := list }}
{{- range .more }}{{ $given = append $given (get . $key) }}{{ end }}
{{- $kept := list }}
{{- range (get .object .list | default list) }}
  {{- if not (has (get . $key) $given) }}{{ $kept = append $kept . }}{{ end }}
{{- end }}
{{- $_ := set .object .list (concat $kept .more) }}
{{- end }}

{{/* A flag that is given again is given anew, not twice. Takes args and more. */}}
{{- define "business.args" -}}
{{- $flags := list }}
{{- range .more }}{{ $flags = append $flags (first (splitList "=" .)) }}{{ end }}
{{- $args := list }}
{{- range .args }}
  {{- if not (has (first (splitList "=" .)) $flags) }}{{ $args = append $args . }}{{ end }}
{{- end }}
{{- concat $args .more | toJson }}
{{- end }}

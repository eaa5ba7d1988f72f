{{/* What values say together and no schema sees: refused here, rather than by pods that end again and again. */}}
{{- define "business.check" -}}
{{- $values := .Values }}
{{- $given := list }}
{{- range $values.api.extraArgs }}{{ $given = append $given (first (splitList "=" .)) }}{{ end }}
{{- $tokens := or $values.authentication.configMapName (has "--authentication-config" $given) (has "--jwt-issuer" $given) }}
{{- if eq $values.members.namespace .Release.Namespace }}
  {{- fail (printf "members.namespace: %q is the namespace of this release; business-controller reads all Secrets in it, so it has to be another" .Release.Namespace) }}
{{- end }}
{{- if and $values.console.enabled (not $tokens) }}
  {{- fail "console.enabled: nobody's tokens are believed, so nobody could log in: name the ConfigMap with the issuers of console.secretName in authentication.configMapName, or give --authentication-config or --jwt-issuer in api.extraArgs" }}
{{- end }}
{{- if and $values.authentication.configMapName (has "--jwt-issuer" $given) }}
  {{- fail "api.extraArgs: --jwt-issuer is instead of authentication.configMapName, which is set" }}
{{- end }}
{{- if and (or $values.authentication.tenantIssuers $values.authentication.clusterIssuers) (not $values.authentication.configMapName) }}
  {{- fail "authentication.configMapName: authentication.tenantIssuers and clusterIssuers are issuers in that ConfigMap, and it is not named" }}
{{- end }}
{{- if and (eq $values.certificates.provider "job") (eq $values.certificates.secretName "business-api-ca") }}
  {{- fail "certificates.secretName: business-api-ca is the Secret of the authority that the job keeps" }}
{{- end }}
{{- with $values.api.autoscaling }}
  {{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
    {{- fail (printf "api.autoscaling: minReplicas %d is more than maxReplicas %d" (int .minReplicas) (int .maxReplicas)) }}
  {{- end }}
{{- end }}
{{- end }}

// The custom resources of others that deploy/ speaks of: their modules hold the CRDs. Nothing is built.
module crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.6.3
)

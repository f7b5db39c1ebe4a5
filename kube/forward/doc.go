// Package forward reaches ports of Pods through the API server, as kubectl port-forward does, and
// finds the Pod of the operator that leads.
package forward

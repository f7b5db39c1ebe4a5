// Package webhooks is what the API server needs to ask hooks (chapter O): certificates, the configurations of
// webhooks, the conversion of CRDs, and the label of the Pod that answers. It knows no hooks; package actors says what
// is to be configured, and package server answers.
//
// Begin with Webhooks.Apply, which makes the cluster as it should be.
package webhooks

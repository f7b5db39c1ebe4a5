// Package objectpatch reads what a hook wrote into KUBERNETES_PATCH_PATH: the
// operations on objects that it asks for (chapter K of the rules).
//
// It is pure, so that it can be fuzzed without compiling a client: it may not
// contain anything that talks to the API server. Package kube executes the
// operations.
package objectpatch

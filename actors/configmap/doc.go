// Package configmap is the actor config: it owns the ConfigMap and the Secret with values above it. It validates both as
// one document, refuses it as a whole (D16, D40) or sends every owner what changed, and is the only writer.
//
// config.go receives; layer.go is what it knows of one of the two, and save.go writes what hooks patch. keep.go
// keeps the last valid content for a restart (P3), and confirmation.go is
// the annotation that confirms a purge (P1).
package configmap

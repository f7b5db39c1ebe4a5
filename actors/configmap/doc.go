// Package configmap is the actor config: it owns the ConfigMap and the Secret with values above it. It validates what
// people write, refuses a change of one as a whole (D16) or sends every owner what changed, and is the only writer.
//
// config.go receives; layer.go is what it knows of one of the two, and save.go writes what hooks patch. keep.go
// keeps the last valid content for a restart (P3), and confirmation.go is
// the annotation that confirms a purge (P1).
package configmap
